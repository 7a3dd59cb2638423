"""Every mistake of a configuration is told with its line, or its variable, and with what was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.config.mistakes import line_of
from kbsync.config.settings import load_settings, unknown_variables
from kbsync.config.usable import usable_part
from kbsync.config.written import template
from kbsync.errors import ConfigurationError, Mistake

FILE = """# a comment

workers = 2
encodings = [
  "shift_jis", # not the last one
  "big5",
]

[chunks]
min_tokens = 1

[[sources]]
path = "/a"

[[sources]]
path = "/b"
ignore = [
  "*.tmp",
]
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KBSYNC_"):
            monkeypatch.delenv(name)


def mistakes(tmp_path: Path, text: str | bytes) -> list[Mistake]:
    file = tmp_path / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError) as caught:
        load_settings(str(file))
    assert all(str(mistake) in caught.value.message for mistake in caught.value.mistakes)
    return list(caught.value.mistakes)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("workers",), 3),
        (("encodings",), 4),
        (("encodings", 1), 4),
        (("chunks",), 9),
        (("chunks", "min_tokens"), 10),
        (("chunks", "min_tokens", "int"), 10),
        (("chunks", "absent"), 9),
        (("sources", 0), 12),
        (("sources", 0, "path"), 13),
        (("sources", 1), 15),
        (("sources", 1, "mode"), 15),
        (("sources", 1, "ignore", 0), 17),
        (("absent",), None),
    ],
)
def test_a_setting_is_in_the_line_where_its_statement_begins(keys: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(FILE, keys) == line
    assert line_of(FILE.replace("\n", "\r\n"), keys) == line
    assert line_of(FILE.rstrip("\n"), keys) == line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("workers = 2\nbogus = 1\n", ["line 2: bogus: there is no such setting"]),
        ("workers = 0\n\n[http]\nport = 'x'\n", ["line 1: workers: must be 1", "line 4: http.port: must be a whole"]),
        ("[[sources]]\nmode = 'mirror'\n", ["line 1: path of source number 1: must be set"]),
        ("# x\n[[sources]]\npath = '/a'\n[[sources]]\npath = '/b'\nmode = 'steal'\n", ["line 6: mode of source /b"]),
        ("sources = [\n {path='/a'},\n {path='b'}]\n", ["line 1: path of source b (number 2): must be an absolute"]),
        ("[[sources]]\npath = '/a'\n[[sources]]\npath = '/a/'\n", ["line 4: /a is listed twice"]),
        ("[[sources]]\npath = '/a/b'\n[[sources]]\npath = '/a'\n", ["line 2: the source /a/b lies inside"]),
        ("[chunks]\nmax_tokens = 40\noverlap_tokens = 30\n", ["line 3: chunks.overlap_tokens must be"]),
        ("\nkeep_versions_days = 'x'\n", ["line 2: keep_versions_days: must be a number of days"]),
        ("[models]\n\ndevice = 5\n", ["line 3: models.device: must be text in quotes, or must be a list"]),
        ("ocr = 3\n", ["line 1: ocr: must be a table"]),
        ("workers = 2\n[http\nport = 1\n", ["line 2, column 6: Expected ']'"]),
        ('log_level = "info\n', ["line 1, column 18: Illegal character"]),
        ("a = 1\nworkers = \n", ["line 2, column 11: Invalid value"]),
        ("workers = 2\nworkers = 3\n", ["line 2, column 12: workers: it is there already, in line 1; keep one"]),
        ("workers = 2\nencodings = [\n  'big5',\n", ["line 2: Invalid value; what begins there does not end"]),
        ("[chunks]\nmin_tokens = 1\n# x\n[chunks]\n", ["line 4, column 8: chunks: it is there already, in line 1"]),
        ("x = 1\n[http]\nport = 1\nport = 2\n", ["line 4, column 9: http.port: it is there already, in line 3"]),
        (
            "[[sources]]\npath = '/a'\n[[sources]]\npath = '/b'\npath = '/c'\n",
            ["line 5, column 12: sources.1.path: it is there already, in line 4"],
        ),
        ("chunks = {min_tokens = 1}\nchunks.max_tokens = 99\n", ["line 2, column 23: chunks.max_tokens: it is there"]),
        (
            "encodings = ['big5', 'x',\n 'y']\n",
            ["line 1: entry 2 of encodings: x is no legacy", "line 1: entry 3 of encodings: y is no legacy"],
        ),
        (
            "[resources]\nquiet_hours = ['9-5', '10:00-99:00']\n",
            [
                "line 2: entry 1 of resources.quiet_hours: '9-5'",
                "line 2: entry 2 of resources.quiet_hours: '10:00-99:00'",
            ],
        ),
        (
            "[[sources]]\npath = '/a'\nignore = [5]\n",
            ["line 3: entry 1 of ignore of source /a (number 1): must be text"],
        ),
        (
            "[[sources]]\npath = '/a'\nignore = '*.x'\n",
            ["line 3: ignore of source /a (number 1): must be a list, such as ["],
        ),
        ("rescan_s = 0\n", ["line 1: rescan_s: must be more than 0"]),
        ("rescan_s = 9999999\n", ["line 1: rescan_s: must be 2592000 or less"]),
        ("[chunks]\nmin_tokens = 500\nmax_tokens = 300\n", ["line 2: chunks.min_tokens must be at most chunks.max"]),
        (
            "[chunks]\nmin_tokens = 300\nmax_tokens = 200\noverlap_tokens = 150\n[[sources]]\npath = '/a'\n"
            "[[sources]]\npath = '/a'\n",
            [
                "line 2: chunks.min_tokens must be",
                "line 4: chunks.overlap_tokens must be",
                "line 8: /a is listed twice",
            ],
        ),
        (b"workers = 2\n# caf\xe9\n", ["line 2: what stands there is no UTF-8"]),
    ],
)
def test_every_mistake_has_its_line(tmp_path: Path, text: str | bytes, told: list[str]) -> None:
    found = mistakes(tmp_path, text)
    assert len(found) == len(told)
    for mistake, words in zip(found, told, strict=True):
        assert str(mistake).startswith(words)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("worker = 2\n", "did you mean workers?"),
        ("[chunk]\nmin_tokens = 2\n", "did you mean chunks?"),
        ("[[source]]\npath = '/a'\n", "did you mean sources?"),
        ("[chunks]\nmin_token = 2\n", "did you mean min_tokens?"),
        ("[[sources]]\npath = '/a'\nignored = []\n", "did you mean ignore?"),
        ("min_tokens = 2\n", "min_tokens belongs under [chunks]"),
        ("recursive = false\n", "recursive belongs under [[sources]]"),
        ("[[sources]]\npath = '/a'\nworkers = 2\n", "workers belongs above the first [table]"),
    ],
)
def test_what_was_meant_is_asked(tmp_path: Path, text: str, meant: str) -> None:
    (found,) = mistakes(tmp_path, text)
    assert found.message == f"there is no such setting; {meant}"


def test_a_name_like_no_other_is_not_guessed_at(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "bogus = 2\n")
    assert found.message == "there is no such setting"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("KBSYNC_WORKERS", "0", "workers = 3\n"),
        ("KBSYNC_CHUNKS__MIN_TOKENS", "-1", "[chunks]\nmin_tokens = 3\n"),
        ("KBSYNC_CHUNKS", '{"min_tokens": -1}', "[chunks]\nmax_tokens = 300\n"),
        ("KBSYNC_SOURCES", '[{"path": "b"}]', "[[sources]]\npath = '/a'\n"),
    ],
)
def test_what_a_variable_says_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, text: str
) -> None:
    monkeypatch.setenv(name, value)
    (found,) = mistakes(tmp_path, text)
    assert (found.variable, found.line) == (name, None)
    assert str(found).startswith(f"variable {name}: ")


def test_lists_of_variables_are_json_and_all_mistakes_of_variables_and_file_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBSYNC_RESOURCES__QUIET_HOURS", "09:00-18:00")
    monkeypatch.setenv("KBSYNC_CHUNKS", "small")
    monkeypatch.setenv("KBSYNC_ENCODINGS", "")
    found = mistakes(tmp_path, "workers = 0\n")
    assert sorted(str(mistake) for mistake in found) == [
        "line 1: workers: must be 1 or more",
        "variable KBSYNC_CHUNKS: chunks: must be a table of settings in JSON",
        'variable KBSYNC_ENCODINGS: encodings: must be a list in JSON, such as ["shift_jis"]',
        "variable KBSYNC_RESOURCES__QUIET_HOURS: resources.quiet_hours: must be a list in JSON, "
        'such as ["09:00-18:00"]',
    ]


def test_a_list_of_a_variable_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSYNC_RESOURCES__QUIET_HOURS", '["9:00-18:00"]')
    monkeypatch.setenv("KBSYNC_MODELS__DEVICE", "cpu")
    settings = load_settings(str(tmp_path / "config.toml"))
    assert (settings.resources.quiet_hours, settings.models.device) == (("09:00-18:00",), "cpu")


def test_the_rest_of_a_configuration_with_mistakes_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSYNC_MODELS__DEVICE", "cuda:7")
    file = tmp_path / "config.toml"
    file.write_text(
        "workers = 0\nhttp = 3\n[models]\nembedder = '/e'\nidle_s = 'x'\n[chunks]\nmin_tokens = 'x'\n"
        "[[sources]]\npath = '/a'\nmode = 'steal'\n[[sources]]\npath = 'b'\n[[sources]]\npath = '/c'\n"
    )
    part = usable_part(str(file))
    assert (part.models.embedder, part.models.device, part.models.idle_s) == ("/e", "cuda:7", 300)
    assert (part.workers, part.http.enabled, part.chunks.min_tokens) == (4, True, 50)
    assert [(source.path, source.mode) for source in part.sources] == [("/a", "mirror")]


def test_a_folder_in_the_place_of_the_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="it is a folder") as caught:
        load_settings(str(tmp_path))
    assert "Errno" not in str(caught.value)


def test_a_question_ends_with_its_own_mark(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("worker = 2\n")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(str(tmp_path / "config.toml"))
    assert "did you mean workers?" in caught.value.message
    assert "?." not in caught.value.message


def test_a_misspelt_variable_is_asked_about() -> None:
    (told,) = unknown_variables({"KBSYNC_WORKER": "2"})
    assert told.endswith("Did you mean KBSYNC_WORKERS?")


def test_the_line_is_right_in_a_file_that_began_as_the_template(tmp_path: Path) -> None:
    lines = template().split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("# rescan_s = "))
    lines[at] = "rescan_s = 0"
    (found,) = mistakes(tmp_path, "\n".join(lines))
    assert found.line == at + 1
