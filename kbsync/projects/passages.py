"""The passages of parsed files, and how well each fits a question by its words (BM25). Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbsync.projects import marks, reading
from kbsync.projects.parsed import ParsedFile
from kbsync.projects.sentences import held_terms, plain, terms
from kbsync.store import tokenizer

# Characters of a passage: paragraphs are joined up to the first, and cut at lines above the second.
_ENOUGH, _LONGEST = 500, 1200
# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009: its usual constants.
_K1, _B = 1.2, 0.75
# A word in a header or in the file's name says what all below is about.
_OF_HEAD = 2
_MANY = 50
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# How questions are asked, not what about. Without these, pairs of characters across them would count as words.
_ASKING = re.compile(
    r"什么时候|说明了什么|是什么|为什么|有什么|怎么样|怎么办|多少钱|是?多[少久长大高远重快]|什么|怎么|怎样|如何"
    r"|哪些|哪个|哪里|哪一|哪|是否|有没有|能不能|可以吗"
    r"|什么意思|意思|含义|时候|应该|应当|需要|可以|还是|或者|一个|一下|举例|区别|第几|几[个天年月点次种位岁]|谁|请问|告诉我|是多|吗|呢|呀|吧|啊|？|的话"
    r"|[的了是在和与及或那这我们你您他她它就都也把被]|(?<=[\u30a1-\u30ff\u4e00-\u9fff])[はのをにがでともへや]"
    r"|何ですか|いくら|いつ|どこ|だれ|誰|なぜ|どう|ですか|ますか|무엇|언제|어디|누구|얼마|왜|어떻게|인가요|입니까",
)
_ASKED_WITH = (
    "how much many long often far old when where who whom whose which what why does do did is are was were can could "
    "should would will may might tell me please say says said give show describe explain list there any about "
    "document documents file files according get got need needs want know find use used mean means happen happens"
)
_ASKING_WORDS = frozenset(_ASKED_WITH.split())


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a parsed file under its headers, `A > B`; `order` is its place in the file."""

    file: ParsedFile
    headers: str
    text: str
    order: int


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a passage fits: its score, and which share of the wanted terms it holds, 0 to 1.

    `lacking`: one of the terms is in none of very many passages; of few that says nothing.
    """

    passage: Passage
    score: float
    coverage: float
    lacking: bool = False


def question_terms(question: str) -> tuple[str, ...]:
    """Return the terms of what is asked about, each once."""
    found = terms(_ASKING.sub(" ", question))
    wanted = tuple(dict.fromkeys(term for term in found if term not in _STEMMED_ASKING))
    return wanted or tuple(dict.fromkeys(found))


_STEMMED_ASKING = frozenset(term for word in _ASKING_WORDS for term in terms(word)) | _ASKING_WORDS


def passages(file: ParsedFile) -> list[Passage]:
    """Return the passages of a file, in order; together they hold all of its text."""
    text = reading.prose(file.text, file.source)
    found: list[Passage] = []
    chain: list[tuple[int, str]] = []
    held: list[str] = []
    size = 0
    fence = ""

    def close() -> None:
        nonlocal size
        shown = "\n".join(held).strip()
        if shown:
            headers = " > ".join(title for _, title in chain)
            found.append(Passage(file, headers, shown, len(found)))
        held.clear()
        size = 0

    for line in text.splitlines():
        marker = _FENCE.match(line)
        if marker is not None:
            fence = "" if fence and marker[1].startswith(fence) else fence or marker[1]
        header = None if fence else marks.header(line)
        if header is not None:
            close()
            level, title = header
            chain = [*((depth, above) for depth, above in chain if depth < level), (level, plain(title))]
            continue
        if (not line.strip() and size >= _ENOUGH) or size >= _LONGEST:
            close()
        for start in range(0, max(1, len(line)), _LONGEST):
            if start:
                close()
            held.append(line[start : start + _LONGEST])
            size += len(held[-1]) + 1
    close()
    return found


def ranked(wanted: Sequence[str], among: Sequence[Passage]) -> list[Fit]:
    """Return the passages that hold any of the wanted terms, the best first."""
    counted = [_counts(passage) for passage in among]
    frequency = Counter(term for counts in counted for term in counts)
    average = sum(counts.total() for counts in counted) / len(counted) if counted else 1.0
    wanted = _without_seams(wanted, frequency)
    lacking = len(among) >= _MANY and any(not frequency[term] for term in wanted)
    weight = {
        term: math.log(1 + (len(counted) - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in set(wanted)
    }
    fits = []
    for passage, counts in zip(among, counted, strict=True):
        length = 1 - _B + _B * counts.total() / (average or 1.0)
        held = [term for term in weight if counts[term]]
        if held:
            score = sum(weight[term] * counts[term] * (_K1 + 1) / (counts[term] + _K1 * length) for term in held)
            fits.append(Fit(passage, score, len(held) / len(weight), lacking))
    return sorted(fits, key=lambda fit: (-fit.score, fit.passage.file.name, fit.passage.order))


def _without_seams(wanted: Sequence[str], frequency: Mapping[str, int]) -> list[str]:
    """Return the terms without pairs of characters that are in no text, where one beside shares a character and is.

    Of 后台任务 the pair 台任 is no word, only where two of them meet.
    """

    def is_seam(place: int) -> bool:
        term = wanted[place]
        if frequency[term] or len(term) != 2 or not tokenizer.is_east_asian(term[0]):
            return False
        before, after = wanted[place - 1 : place], wanted[place + 1 : place + 2]
        return any(frequency[one] and one[-1] == term[0] for one in before) or any(
            frequency[one] and one[0] == term[1] for one in after
        )

    return [term for place, term in enumerate(wanted) if not is_seam(place)]


def _counts(passage: Passage) -> Counter[str]:
    counts = Counter(held_terms(passage.text))
    for term in held_terms(f"{passage.headers} {passage.file.name}"):
        counts[term] += _OF_HEAD
    return counts
