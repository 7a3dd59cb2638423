"""Whole trees that come, go and move while they are watched, on a real disk."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.watched_disk import WatchedDisk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")

MANY = 500


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "ground"


@pytest.fixture
def disk(home: Path, ground: Path) -> Iterator[WatchedDisk]:
    roots = [ground / "a", ground / "b"]
    for folder in (*roots, ground / "outside"):
        folder.mkdir(parents=True)
    disk = WatchedDisk(home, roots)
    disk.rescan()
    yield disk
    disk.close()


def word(number: int) -> str:
    """Return a word of letters alone, another for each number."""
    return "q" + "".join("bcdfghjkmn"[int(digit)] for digit in f"{number:03}") + "q"


def fill(folder: Path) -> None:
    """Make many small files, a word of its own in each."""
    for number in range(MANY):
        inner = folder / f"part{number % 10}"
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{number}.md").write_text(f"# Number {number}\n\nsprout {word(number)}\n")


def live_paths(disk: WatchedDisk, below: Path) -> int:
    prefix = os.fsencode(below) + b"/"
    return sum(path.startswith(prefix) for (path,) in disk.read("SELECT path FROM origins WHERE live = 1"))


def test_w08_no_file_is_missed_in_folders_made_at_once(
    disk: WatchedDisk, ground: Path, told: Callable[[str], None]
) -> None:
    """W08: 200 chains of random depth; by the walk that the new folders ask for, with no timer."""
    depths = random.Random(8)
    wanted = set()
    for number in range(200):
        folder = ground / "a" / f"top{number}" / "/".join("abcdefgh"[: depths.randint(1, 8)])
        folder.mkdir(parents=True)
        (folder / "file.md").write_text(f"chain{number}\n")
        wanted.add(str(folder / "file.md"))
    disk.hear()
    heard = len(wanted & disk.told)
    disk.settle()
    told(f"W08: {heard} of {len(wanted)} files told by events alone")
    assert wanted <= {os.fsdecode(path) for (path,) in disk.read("SELECT path FROM files WHERE state = 'indexed'")}


def test_w09_a_folder_of_500_files_moved_in_within_and_out_is_read_once(disk: WatchedDisk, ground: Path) -> None:
    """W09: between two sources and out of both; nothing is embedded again, what is gone is found no more."""
    fill(ground / "outside" / "tree")
    (ground / "outside" / "tree").rename(ground / "a" / "tree")
    disk.hear()
    disk.settle()
    disk.rescan()
    assert live_paths(disk, ground / "a" / "tree") == MANY
    ids, embedded = disk.read("SELECT id FROM documents ORDER BY 1"), len(disk.embedded())
    (ground / "a" / "tree").rename(ground / "b" / "moved")
    disk.hear()
    disk.settle()
    disk.rescan()
    assert live_paths(disk, ground / "b" / "moved") == MANY
    assert live_paths(disk, ground / "a" / "tree") == 0
    assert disk.found(word(77)) == [str(ground / "b" / "moved" / "part7" / "77.md")]
    cookies = sum(path.name.startswith("cookie") for root in disk.roots for path in root.iterdir())
    assert len(disk.read("SELECT id FROM documents")) <= len(ids) + cookies
    assert sum("sprout" in text for text in disk.embedded()[embedded:]) == 0
    # Put a part of it out: so few of all that nobody has to confirm it.
    (ground / "b" / "moved" / "part3").rename(ground / "outside" / "part3")
    disk.hear()
    disk.settle()
    disk.rescan()
    assert live_paths(disk, ground / "b" / "moved") == MANY - MANY // 10
    assert disk.found(word(33)) == []


def test_w10_what_is_written_in_a_renamed_folder_is_indexed_under_the_new_name_only(
    disk: WatchedDisk, ground: Path
) -> None:
    """W10: the watches move along, without waiting for a rescan."""
    (ground / "a" / "old" / "deep").mkdir(parents=True)
    (ground / "a" / "old" / "deep" / "first.md").write_text("planted early\n")
    disk.hear()
    disk.settle()
    (ground / "a" / "old").rename(ground / "a" / "new")
    (ground / "a" / "new" / "deep" / "second.md").write_text("planted late\n")
    disk.hear()
    disk.settle()
    assert disk.found("late") == [str(ground / "a" / "new" / "deep" / "second.md")]
    assert disk.found("early") == [str(ground / "a" / "new" / "deep" / "first.md")]
    (ground / "a" / "new" / "deep" / "third.md").write_text("planted later still\n")
    disk.hear()
    disk.settle()
    assert disk.found("still") == [str(ground / "a" / "new" / "deep" / "third.md")]
    assert str(ground / "a" / "old" / "deep" / "third.md") not in disk.told


def test_w11_a_tree_removed_and_made_anew_within_a_moment_holds_the_new_content_once(
    disk: WatchedDisk, ground: Path
) -> None:
    """W11: the same names, other text, before anything was quiet."""
    tree = ground / "a" / "tree"

    def make(when: str) -> None:
        for number in range(30):
            folder = tree / f"part{number % 3}" / "deep"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.md").write_text(f"# Number {number}\n\n{when}{word(number)}\n")

    make("before")
    disk.hear()
    disk.settle()
    shutil.rmtree(tree)
    make("after")
    disk.hear()
    disk.settle()
    disk.rescan()
    for number in (0, 13, 29):
        path = str(tree / f"part{number % 3}" / "deep" / f"{number}.md")
        assert disk.found(f"after{word(number)}") == [path]
        assert disk.found(f"before{word(number)}") == []
    versions = disk.read("SELECT count(*) FROM documents WHERE title LIKE 'Number %'")
    assert versions == [(60,)], "two versions of each, no third"
    (tree / "part0" / "deep" / "0.md").write_text("and a third word\n")
    disk.hear()
    disk.settle()
    assert disk.found("third") == [str(tree / "part0" / "deep" / "0.md")], "the new folder is watched"
