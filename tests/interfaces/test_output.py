"""What is printed for people is harmless and whole."""

from __future__ import annotations

import json
import sys

import pytest

from kbsync.errors import (
    ConfigurationError,
    EngineBusy,
    FailFile,
    KbsyncError,
    NotFound,
    NotRunning,
    StopEngine,
    UsageError,
)
from kbsync.interfaces.cli.exits import code_of, one_line, printable
from kbsync.interfaces.cli.output import counted, line, marked_line, print_json, size, table
from kbsync.interfaces.paths import decoded, decoded_record, encode, encoded
from kbsync.reasons import Reason


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 漢字, 🍎", "plain, größer, 漢字, 🍎"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("wide\u3000and\u00a0hard spaces", "wide\u3000and\u00a0hard spaces"),
        ("می\u200cخواهم 👩\u200d🌾 soft\u00adhyphen", "می\u200cخواهم 👩\u200d🌾 soft\u00adhyphen"),
        ("red \x1b[31m \x9b31m", "red �[31m �31m"),
        ("over\rwritten \x07\x00\x7f", "over�written ���"),
        ("turned \u202e \u2066 \u200f", "turned � � �"),
        ("broken \u2028 \u2029 \udcff", "broken � � �"),
    ],
)
def test_only_harmless_characters_are_printed(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert one_line(text) == shown.replace("\n", "�")


def test_a_line_stays_one_and_a_table_keeps_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    line("a\nb")
    table([("x\ny", 1), ("longer one", 22)], ("NAME", "COUNT"))
    assert capsys.readouterr().out.splitlines() == ["a�b", "NAME        COUNT", "x�y         1", "longer one  22"]


def test_a_table_is_aligned_under_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table([("漢字", 1), ("e\u0301", 22), ("abcd", 3)], ("N", "COUNT"))
    assert capsys.readouterr().out.splitlines() == ["N     COUNT", "漢字  1", "e\u0301     22", "abcd  3"]


@pytest.mark.parametrize(
    ("snippet", "plain", "bold"),
    [
        (
            "the **oak** and the **old elm**",
            "the oak and the old elm",
            "the \x1b[1moak\x1b[0m and the \x1b[1mold elm\x1b[0m",
        ),
        ("f(**kwargs, **other) 2 ** 3", "f(**kwargs, **other) 2 ** 3", "f(**kwargs, **other) 2 ** 3"),
        ("f(****kwargs**)", "f(**kwargs)", "f(**\x1b[1mkwargs\x1b[0m)"),
        ("\x1b[2J **漢字**", "�[2J 漢字", "�[2J \x1b[1m漢字\x1b[0m"),
    ],
)
def test_marked_words_are_bold_on_a_terminal_and_plain_elsewhere(
    snippet: str, plain: str, bold: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    marked_line(snippet)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    marked_line(snippet)
    assert capsys.readouterr().out.splitlines() == [plain, bold]


def test_nouns_follow_their_number() -> None:
    assert [counted(number, "chunk") for number in (0, 1, 2)] == ["0 chunks", "1 chunk", "2 chunks"]
    assert counted(2, "process", "processes") == "2 processes"


def test_json_keeps_its_content_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"path": "a\x9b31m\x1b\x7f\u202e\u2028漢字\\u0041"}
    print_json(record)
    printed = capsys.readouterr().out
    assert json.loads(printed) == record
    assert "漢字" in printed
    assert not set("\x1b\x7f\x9b\u202e\u2028") & set(printed)


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_550_000, "1.6 MB"), (10**16, "10000.0 TB")]
)
def test_sizes(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError(""), 2),
        (NotFound(""), 3),
        (NotRunning(""), 4),
        (ConfigurationError(""), 78),
        (StopEngine(""), 1),
        (EngineBusy(""), 1),
        (FailFile(Reason.IO, ""), 1),
        (KbsyncError(""), 1),
    ],
)
def test_each_class_of_error_has_its_exit_code(error: KbsyncError, code: int) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize("path", ["/a b/ä.md", "/50%.md", "/caf\udce9\udcff.md", "/two\nlines", "/quo'te\"\\", "/漢字"])
def test_a_path_travels_as_ascii_and_comes_back(path: str) -> None:
    assert encode(path).isascii()
    assert decoded(encode(path)) == path
    record = {"files": [path], "failed": [{"path": path, "error": "no"}]}
    assert decoded_record(json.loads(json.dumps(encoded(record)))) == record
