"""Answers from a project's files, step by step: project.md, then the files that matter, then their sections.

Without a model the passages are quoted as they stand; with one it answers from them and from nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kbsync.errors import KbsyncError
from kbsync.projects import listing, page, parsed, reading
from kbsync.projects.passages import Fit, Passage, passages, question_terms, ranked
from kbsync.projects.project import Project
from kbsync.projects.sentences import Language, held_terms, language_of, quotable, split

# Files that are read closely, passages that are quoted, and those that a model gets.
_FILES, _QUOTED, _GIVEN = 6, 3, 8
# A passage that holds a smaller share of the words that were asked for is no answer.
_COVERED = 0.6
# The same where one of the words is in none of the files: what is asked for is likely not there.
_COVERED_LACKING = 0.7
# Of the best passage's score; what fits much worse is not quoted beside it.
_BESIDE = 0.6
# What project.md says of a file counts like this much of its best passage.
_OF_INDEX = 0.5
# Of two passages that fit alike the one in the question's language is the better answer.
_OF_LANGUAGE = 2.0
# A section whose header says just what is asked for is about that.
_OF_HEADER = 2.5
# Characters of a quotation.
_QUOTE = 360
# A question with so few words of its own goes on about what the last one was about.
_SHORT = 2

_CITED: dict[Language, str] = {
    "zh": "根据《{name}》({path})，{text}",
    "ja": "『{name}』({path}) によると、{text}",
    "ko": "《{name}》({path})에 따르면, {text}",
    "other": 'According to "{name}" ({path}), {text}',
}
_UNANSWERED: dict[Language, str] = {
    "zh": "项目中的文件没有回答这个问题。",
    "ja": "このプロジェクトのファイルには答えがありません。",
    "ko": "이 프로젝트의 파일에는 답이 없습니다.",
    "other": "The files of this project do not answer this.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to a question. `files` are those it rests on, as paths in the project; none: it is not answered."""

    text: str
    answered: bool
    by: Literal["extract", "model"]
    passages: tuple[Passage, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(passage.file.path for passage in self.passages))


class Answerer(Protocol):
    """A model that answers. Raises KbsyncError where it cannot."""

    def answer(self, question: str, given: Sequence[Passage], before: Sequence[tuple[str, str]]) -> str | None:
        """Return an answer from these passages alone, with citations; None where they do not hold one.

        `before`: the questions and answers until now.
        """
        ...


@dataclass(slots=True)
class Conversation:
    """Questions about one project, one after another; used by one thread."""

    project: Project
    model: Answerer | None = None
    before: list[tuple[str, str]] = field(default_factory=list)
    _about: tuple[str, ...] = ()

    def ask(self, question: str) -> Answer:
        """Answer a question. Files are read anew each time: they may have changed. Raises OSError."""
        language = language_of(question)
        wanted = question_terms(question)
        # A question of hardly any words goes on about what the last one was about; so may any that finds nothing.
        short = len(wanted) <= _SHORT and bool(self._about)
        fits = [] if short and len(wanted) < _SHORT else self._found(wanted, language)
        if not _covers(fits) and self._about:
            again = self._found((*wanted, *self._about), language)
            fits = again if _covers(again) and _holds(wanted, again) else self._found(wanted, language)
        answer = self._answer(question, language, fits)
        if answer.answered and not short:
            self._about = wanted
        self.before.append((question, answer.text))
        return answer

    def _found(self, wanted: Sequence[str], language: Language) -> list[Fit]:
        """Return the passages that fit, the best first: first project.md, then the files, then their sections."""
        if not wanted:
            return []
        files = parsed.read_all(self.project.parsed)
        said = {row.parsed: f"{row.name} {row.summary}" for row in page.rows(listing.read_page(self.project))}
        index = [Passage(file, "", said.get(file.path, file.name), 0) for file in files]
        told = {fit.passage.file.path: fit.score for fit in ranked(wanted, index)}
        by_file = ranked(wanted, [Passage(file, "", reading.prose(file.text, file.source), 0) for file in files])
        scores = {fit.passage.file.path: fit.score + _OF_INDEX * told.get(fit.passage.file.path, 0) for fit in by_file}
        chosen = set(sorted(scores, key=lambda path: -scores[path])[:_FILES])
        # How rare a word is, all files tell.
        fits = ranked(wanted, [passage for file in files for passage in passages(file)])
        found = [fit for fit in fits if fit.passage.file.path in chosen]
        speaks = {file.path: language_of(file.text) for file in files if file.path in chosen}
        return sorted(
            found,
            key=lambda fit: (
                -fit.score
                * (_OF_LANGUAGE if speaks[fit.passage.file.path] == language else 1)
                * (_OF_HEADER if _is_about(fit.passage, wanted) else 1)
            ),
        )

    def _answer(self, question: str, language: Language, fits: Sequence[Fit]) -> Answer:
        if not _covers(fits):
            return Answer(_UNANSWERED[language], False, "extract" if self.model is None else "model")
        notices: tuple[str, ...] = ()
        if self.model is not None:
            given = [fit.passage for fit in fits[:_GIVEN]]
            try:
                text = self.model.answer(question, given, self.before)
            except KbsyncError as error:
                notices = (f"{error} The passages are quoted in its place.",)
            else:
                if text is None:
                    return Answer(_UNANSWERED[language], False, "model")
                used = tuple(passage for passage in given if passage.file.path in text)
                return Answer(text, True, "model", used)
        quoted = [fit for fit in fits if fit.coverage >= _COVERED and fit.score >= _BESIDE * fits[0].score][:_QUOTED]
        wanted = question_terms(question)
        told = [cited(fit.passage, _quotation(fit.passage, wanted), language) for fit in quoted or fits[:1]]
        return Answer("\n\n".join(told), True, "extract", tuple(fit.passage for fit in quoted or fits[:1]), notices)


def cited(passage: Passage, text: str, language: Language) -> str:
    """Return a statement with where it stands, in the form of the question's language."""
    return _CITED[language].format(name=passage.file.name, path=passage.file.path, text=text)


def _is_about(passage: Passage, wanted: Sequence[str]) -> bool:
    return bool(passage.headers) and set(question_terms(passage.headers.rpartition(" > ")[2])) == set(wanted)


def _covers(fits: Sequence[Fit]) -> bool:
    return any(fit.coverage >= (_COVERED_LACKING if fit.lacking else _COVERED) for fit in fits[:_GIVEN])


def _holds(wanted: Sequence[str], fits: Sequence[Fit]) -> bool:
    """Return whether the best passage holds any of the question's own words."""
    return bool(fits) and not set(wanted).isdisjoint(held_terms(f"{fits[0].passage.headers} {fits[0].passage.text}"))


def _quotation(passage: Passage, wanted: Sequence[str]) -> str:
    """Return the sentences of a passage around those that hold most of what is asked for, in quotation marks."""
    parts = [sentence for line in quotable(passage.text, code=True) for sentence in split(line)]
    held = [len(set(wanted) & set(held_terms(part))) for part in parts]
    first = last = held.index(max(held)) if parts else 0
    size = len(parts[first]) if parts else 0
    while True:  # grow around it, what follows first
        after = last + 1 < len(parts) and size + len(parts[last + 1]) <= _QUOTE
        if after:
            last += 1
            size += len(parts[last])
        elif first > 0 and size + len(parts[first - 1]) <= _QUOTE:
            first -= 1
            size += len(parts[first])
        else:
            break
    text = " ".join(parts[first : last + 1])
    shown = text if len(text) <= 2 * _QUOTE else f"{text[: 2 * _QUOTE].rstrip()}…"
    head = f" [{passage.headers}]" if passage.headers else ""
    return f"“{shown}”{head}"
