"""A configuration from another machine: its folders follow the map, everything else stays as it was written."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from kbsync.config import relocated
from kbsync.config.file import place
from kbsync.errors import UsageError

_TEXT = """\
# Written by hand.
workers = 3  # not more

[[sources]]
path = "/old/docs"  # what I write
ignore = ["*.tmp"]
password_file = "/old/secrets.txt"

[[sources]]
path = "~/Notes"
"""


def moved(path: str) -> str | None:
    return "/new" + path.removeprefix("/old") if path.startswith("/old/") else None


def test_sources_follow_and_comments_stay() -> None:
    led_to = {"/old/docs": "/old/docs", "~/Notes": "/old/home/Notes"}
    text = relocated.relocated(_TEXT, moved, led_to)
    assert text == _TEXT.replace("/old/", "/new/").replace("~/Notes", "/new/home/Notes")
    assert "# what I write" in text


def test_an_entry_that_leads_to_the_right_place_as_it_is_written_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/new/home")
    assert relocated.relocated(_TEXT, moved, {"~/Notes": "/old/home/Notes"}) == _TEXT.replace("/old/", "/new/")


def test_an_entry_of_a_home_that_nothing_is_said_of_names_the_folder_that_it_led_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would lead to a folder that the backup knows nothing of, and what was in the other would be hidden."""
    monkeypatch.setenv("HOME", "/other")
    text = relocated.relocated(_TEXT, lambda _path: None, {"~/Notes": "/old/home/Notes"})
    assert text == _TEXT.replace("~/Notes", "/old/home/Notes")


@pytest.mark.parametrize("text", ["", "workers = 2\n", "sources = []\n"])
def test_without_sources_nothing_changes(text: str) -> None:
    assert relocated.relocated(text, moved, {}) == text


def test_what_is_no_toml_is_told() -> None:
    with pytest.raises(ValueError, match="line 1"):
        relocated.relocated("[[sources", moved, {})


def test_entries_are_told_with_where_they_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "config.toml").write_text('[[sources]]\npath = "~/link"\n[[sources]]\npath = "/a/b/"\n')
    real = os.path.realpath(tmp_path / "real")
    assert relocated.entries_of(str(tmp_path / "config.toml")) == {"~/link": real, "/a/b/": "/a/b"}
    assert relocated.entries_of(str(tmp_path / "absent.toml")) == {}


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (_TEXT, _TEXT.replace("# Written by hand.", ""), []),
        (_TEXT, _TEXT.replace("workers = 3", "workers = 4"), ["workers"]),
        (_TEXT, _TEXT.replace("/old/docs", "/old/./docs"), []),
        (_TEXT, _TEXT.replace("/old/docs", "/docs"), ["sources"]),
        ('[models]\nembedder = "packaged"\n', "[http]\nport = 0\n", ["http.port", "models.embedder"]),
        ("", "", []),
    ],
)
def test_what_differs_is_named(here: str, there: str, expected: list[str]) -> None:
    assert relocated.differences(here, there) == expected


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ("", _TEXT, ["/old/docs", "~/Notes"]),
        ('sources = [{ path = "/old/./docs" }]\n', _TEXT, ["~/Notes"]),
        ("", 'sources = [{ path = "/a", mode = "inbox" }]\n', ["/a"]),
        (_TEXT, _TEXT, []),
        ("[[sources", _TEXT, []),
        (_TEXT, "", []),
    ],
)
def test_sources_that_are_not_named_are_given_to_be_written(here: str, there: str, expected: list[str]) -> None:
    text = relocated.lacking(here, there)
    entries = tomllib.loads(text).get("sources", [])
    assert [entry["path"] for entry in entries] == expected
    assert all(entry in tomllib.loads(there)["sources"] for entry in entries), "with all that they say"


def test_a_configuration_is_placed_where_there_is_none_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    assert place(str(path), "workers = 2\n")
    assert not place(str(path), "workers = 3\n")
    assert tomllib.loads(path.read_text()) == {"workers": 2}
    with pytest.raises(UsageError, match="workers"):
        place(str(tmp_path / "other.toml"), "workers = 0\n")
    assert sorted(name.name for name in tmp_path.iterdir()) == ["new"]
