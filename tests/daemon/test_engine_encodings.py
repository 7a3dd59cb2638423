"""Old encodings, from bytes to hits: every sentence is found by its words, in the file that has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kbsync.reasons import FileState
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

# (name of the file, encoding, sentences, what is recorded)
PARAGRAPHS = [
    ("utf-16 with mark", "utf-16", "japanese", "utf-16-le"),
    ("utf-16 with mark, west", "utf-16", "french", "utf-16-le"),
    ("utf-16-le", "utf-16-le", "chinese_simplified", "utf-16-le"),
    ("utf-16-be", "utf-16-be", "korean", "utf-16-be"),
    ("utf-16-le, cyrillic", "utf-16-le", "russian", "utf-16-le"),
    ("gb18030", "gb18030", "chinese_simplified", "gb18030"),
    ("big5", "big5", "chinese_traditional", "cp950"),
    ("shift_jis", "shift_jis", "japanese", "cp932"),
    ("euc_kr", "euc_kr", "korean", "cp949"),
    ("koi8_r", "koi8_r", "russian", "koi8-r"),
    ("latin_1", "latin_1", "french", "cp1252"),
]


def found_in(engine: SimulatedEngine, words: str, path: str) -> bool:
    """Say whether a search for these words gives the file, by a chunk that has them."""
    hits = engine.kb.search(words, "lexical", limit=50).hits
    return any(path in hit.paths and words in hit.text for hit in hits)


def test_every_sentence_in_every_encoding_is_found_by_its_words(engine: SimulatedEngine, samples: Path) -> None:
    texts = {name: (samples / "sentences" / f"{name}.txt").read_text("utf-8") for _, _, name, _ in PARAGRAPHS}
    for title, encoding, language, _ in PARAGRAPHS:
        # As it is found in the wild: a document of its own, line ends of another system.
        paragraph = texts[language].replace("\n", "\r\n")
        engine.write(f"{NOTES}/{title}.txt", f"{title}\r\n\r\n{paragraph}".encode(encoding))
    engine.settle()
    rows = []
    for title, _encoding, language, recorded in PARAGRAPHS:
        path = f"{NOTES}/{title}.txt"
        sentences = texts[language].splitlines()
        assert len(sentences) == 20
        found = sum(found_in(engine, sentence, path) for sentence in sentences)
        (metadata,) = engine.read("SELECT metadata FROM documents WHERE original_filename = ?", f"{title}.txt")[0]
        rows.append((title, language, json.loads(metadata)["encoding"], recorded, found))
    table = [f"{'file':<26}{'sentences':<22}{'recorded':<12}found"]
    table += [f"{title:<26}{language:<22}{encoding:<12}{found}/20" for title, language, encoding, _, found in rows]
    sys.stdout.write("\n" + "\n".join(table) + "\n")
    assert [(row[2], row[4]) for row in rows] == [(row[3], 20) for row in rows]


SHORT = [
    ("shift_jis", "牛乳と卵を買うこと。\n歯医者は木曜日の三時。"),
    ("euc_jp", "牛乳と卵を買うこと。\n歯医者は木曜日の三時。"),
    ("gb18030", "记得买牛奶和鸡蛋。\n星期四下午三点看牙医。"),
    ("big5", "記得買牛奶和雞蛋。\n星期四下午三點看牙醫。"),
    ("euc_kr", "우유와 달걀을 살 것.\n목요일 세 시에 치과."),
    ("koi8_r", "Купить молоко и яйца.\nЗубной врач в четверг."),
    ("cp1251", "Купить молоко и яйца.\nЗубной врач в четверг."),
    ("latin_1", "Acheter du lait et du blé.\nDentiste jeudi à trois heures."),
    ("utf-16-le", "牛乳と卵を買うこと。\n歯医者は木曜日の三時。"),
    ("utf-16-be", "记得买牛奶和鸡蛋。\n星期四下午三点看牙医。"),
    ("utf-16-le", "Купить молоко и яйца.\nЗубной врач в четверг."),
]


@pytest.mark.parametrize(("encoding", "text"), SHORT, ids=[f"{encoding} {text[:2]}" for encoding, text in SHORT])
def test_a_note_of_two_lines_is_found_by_each(engine: SimulatedEngine, encoding: str, text: str) -> None:
    path = f"{NOTES}/note.txt"
    engine.write(path, text.encode(encoding))
    engine.settle()
    assert [found_in(engine, line, path) for line in text.splitlines()] == [True, True]


def test_where_the_bytes_leave_doubt_the_setting_decides(world: World, samples: Path) -> None:
    sentence = (samples / "sentences" / "french.txt").read_text("utf-8").splitlines()[1]
    outcomes = []
    for text in ("", 'encodings = ["cp850"]\n'):
        world.configure(NOTES, text=text)
        life = SimulatedEngine(world)
        life.write(f"{NOTES}/menu.txt", sentence.encode("cp850"))
        life.settle()
        assert life.state(f"{NOTES}/menu.txt") == (FileState.INDEXED, None)
        outcomes.append(found_in(life, sentence, f"{NOTES}/menu.txt"))
        life.close()
    assert outcomes == [False, True], "the second life reads the same bytes again, by other rules"


def test_the_setting_does_not_outvote_what_the_bytes_say(world: World, samples: Path) -> None:
    world.configure(NOTES, text='encodings = ["shift_jis", "cp850"]\n')
    life = SimulatedEngine(world)
    sentences = (samples / "sentences" / "russian.txt").read_text("utf-8").splitlines()
    life.write(f"{NOTES}/note.txt", "\n".join(sentences).encode("koi8_r"))
    life.settle()
    assert all(found_in(life, sentence, f"{NOTES}/note.txt") for sentence in sentences)
    life.close()
