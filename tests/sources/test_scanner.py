"""The walk over a source, on a simulated disk with faults and on the real one."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.filesystem import Entry, RealFileSystem
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.scanner import judge_path, scan
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem, SimulatedOpenFile

SOURCE = Source(1, "/notes")
NOTHING_OWN: frozenset[tuple[int, int]] = frozenset()


@pytest.fixture
def fs() -> SimulatedFileSystem:
    fs = SimulatedFileSystem(ManualClock())
    fs.make_directory("/notes")
    return fs


def verdicts(fs: SimulatedFileSystem | RealFileSystem, source: Source = SOURCE) -> dict[str, Reason | None]:
    return {os.path.relpath(seen.path, source.path): seen.reason for seen in scan(fs, source)}


def test_every_path_is_told_once_in_order_with_its_verdict(fs: SimulatedFileSystem) -> None:
    for name in (
        "z.md",
        "b/2.md",
        "b/1.md",
        "b/c/3.py",
        "a.xyz",
        ".git/config",
        ".ssh/id_rsa",
        ".env",
        "b/node_modules/x.md",
    ):
        fs.write(f"/notes/{name}", b"1")
    fs.write("/notes/empty.md", b"")
    fs.symlink("/notes/link", "/elsewhere")
    fs.fifo("/notes/pipe.md")
    walk = scan(fs, SOURCE)
    assert [(seen.path.removeprefix("/notes/"), seen.reason) for seen in walk] == [
        (".env", Reason.SECRET),
        (".git", Reason.IGNORED),
        (".ssh", Reason.SECRET),
        ("a.xyz", Reason.UNSUPPORTED),
        ("empty.md", Reason.EMPTY),
        ("link", Reason.SYMLINK),
        ("pipe.md", Reason.SPECIAL),
        ("z.md", None),
        ("b/1.md", None),
        ("b/2.md", None),
        ("b/node_modules", Reason.IGNORED),
        ("b/c/3.py", None),
    ]
    assert (walk.complete, walk.errors, walk.files, walk.folders) == (True, (), 9, 3)


def test_what_is_seen_carries_its_own_stat(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"123")
    fs.symlink("/notes/b.md", "/notes/a.md")
    assert {seen.path: seen.stat for seen in scan(fs, SOURCE)} == {
        "/notes/a.md": fs.lstat("/notes/a.md"),
        "/notes/b.md": fs.lstat("/notes/b.md"),
    }


def test_rule_files_hold_below_their_folder(fs: SimulatedFileSystem) -> None:
    for name in ("a.log", "keep.log", "sub/a.log", "sub/keep.log", "sub/x.md", "other/x.md", "drafts/d.md"):
        fs.write(f"/notes/{name}", b"1")
    fs.write("/notes/.gitignore", b"*.log\ndrafts/\n")
    fs.write("/notes/.kbignore", b"!keep.log\n")
    fs.write("/notes/sub/.gitignore", b"keep.log\nx.md\n")
    fs.write("/notes/drafts/.kbignore", b"!d.md\n")
    assert {path for path, reason in verdicts(fs).items() if reason is None} == {"keep.log", "other/x.md"}
    assert verdicts(fs)["drafts"] is Reason.IGNORED


def test_the_rules_that_judged_are_named_and_move_with_the_rule_files(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    fs.write("/notes/sub/b.md", b"1")
    before = {seen.path: seen.rules for seen in scan(fs, SOURCE)}
    fs.write("/notes/sub/.gitignore", b"nothing\n")
    after = {seen.path: seen.rules for seen in scan(fs, SOURCE)}
    assert before["/notes/a.md"] == before["/notes/sub/b.md"] == after["/notes/a.md"]
    assert after["/notes/sub/b.md"] != before["/notes/sub/b.md"]


def test_a_rule_file_that_is_a_link_is_not_followed(fs: SimulatedFileSystem) -> None:
    fs.write("/elsewhere", b"*.md\n")
    fs.symlink("/notes/.gitignore", "/elsewhere")
    fs.write("/notes/a.md", b"1")
    assert verdicts(fs)["a.md"] is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(errno.EACCES, "denied"), Reason.PERMISSION),
        (OSError(errno.EIO, "broken"), Reason.IO),
        (OSError(errno.ESTALE, "stale"), Reason.IO),
    ],
)
def test_a_folder_that_cannot_be_read_is_told_and_nothing_is_concluded(
    fs: SimulatedFileSystem, error: OSError, reason: Reason
) -> None:
    fs.write("/notes/a.md", b"1")
    fs.write("/notes/locked/b.md", b"1")
    fs.write("/notes/z/c.md", b"1")
    fs.fail("/notes/locked", error)
    walk = scan(fs, SOURCE)
    assert {seen.path: seen.reason for seen in walk} == {
        "/notes/a.md": None,
        "/notes/locked": reason,
        "/notes/z/c.md": None,
    }
    assert not walk.complete
    assert walk.errors == (("/notes/locked", error),)
    fs.heal("/notes/locked")
    again = scan(fs, SOURCE)
    assert len(list(again)) == 3
    assert again.complete


def test_a_folder_whose_rules_cannot_be_read_is_not_entered(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/sub/.gitignore", b"private.md\n")
    fs.write("/notes/sub/private.md", b"1")
    fs.fail("/notes/sub/.gitignore", PermissionError(errno.EACCES, "denied"))
    walk = scan(fs, SOURCE)
    assert [(seen.path, seen.reason) for seen in walk] == [("/notes/sub", Reason.PERMISSION)]
    assert not walk.complete


@pytest.mark.parametrize("fault", ["missing", "a file", "a link", "unreadable"])
def test_a_root_that_cannot_be_read_gives_nothing_and_an_error(fs: SimulatedFileSystem, fault: str) -> None:
    fs.write("/notes/a.md", b"1")
    if fault == "unreadable":
        fs.fail("/notes", PermissionError(errno.EACCES, "denied"))
    else:
        fs.rename("/notes", "/moved")
    if fault == "a file":
        fs.write("/notes", b"1")
    if fault == "a link":
        fs.symlink("/notes", "/moved")
    walk = scan(fs, SOURCE)
    assert list(walk) == []
    assert not walk.complete
    assert [path for path, _ in walk.errors] == ["/notes"]


def test_a_root_that_is_replaced_during_the_walk_leaves_it_incomplete(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    walk = scan(fs, SOURCE)
    for _ in walk:
        fs.rename("/notes", "/moved")
        fs.write("/notes/a.md", b"1")
    assert not walk.complete
    assert [path for path, _ in walk.errors] == ["/notes"]


def test_a_root_that_goes_during_the_walk_leaves_it_incomplete(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    walk = scan(fs, SOURCE)
    for _ in walk:
        fs.remove("/notes")
    assert not walk.complete


def test_a_folder_that_goes_during_the_walk_is_just_gone(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    fs.write("/notes/sub/b.md", b"1")
    walk = scan(fs, SOURCE)
    seen = []
    for found in walk:
        seen.append(found.path)
        fs.remove("/notes/sub")
    assert seen == ["/notes/a.md"]
    assert walk.complete


def test_a_folder_swapped_for_a_link_during_the_walk_is_not_followed(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    fs.write("/notes/sub/b.md", b"1")
    fs.write("/elsewhere/secret.md", b"1")
    walk = scan(fs, SOURCE)
    seen = []
    for found in walk:
        seen.append(found.path)
        if found.path == "/notes/a.md":
            fs.remove("/notes/sub")
            fs.symlink("/notes/sub", "/elsewhere")
    assert seen == ["/notes/a.md", "/notes/sub"]
    assert not walk.complete


def test_a_walk_that_is_stopped_is_incomplete(fs: SimulatedFileSystem) -> None:
    for number in range(10):
        fs.write(f"/notes/{number}.md", b"1")
    seen: list[str] = []
    walk = scan(fs, SOURCE, stop=lambda: len(seen) == 3)
    seen.extend(found.path for found in walk)
    assert not walk.complete
    assert len(seen) <= 10
    seen = []
    walk = scan(fs, SOURCE, stop=lambda: len(seen) == 3)
    for found in walk:
        seen.append(found.path)
    assert len(seen) == 3
    assert not walk.complete


def test_kbsyncs_own_folder_is_one_ignored_path(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/data/kb.md", b"1")
    own = fs.lstat("/notes/data")
    walk = scan(fs, SOURCE, frozenset({(own.device, own.inode)}))
    assert [(seen.path, seen.reason) for seen in walk] == [("/notes/data", Reason.IGNORED)]


def test_without_recursion_only_the_roots_files_are_seen(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/a.md", b"1")
    fs.write("/notes/sub/b.md", b"1")
    fs.write("/notes/.git/b.md", b"1")
    flat = replace(SOURCE, recursive=False)
    assert verdicts(fs, flat) == {"a.md": None}
    assert judge_path(fs, flat, NOTHING_OWN, "/notes/sub/b.md") is None
    assert judge_path(fs, flat, NOTHING_OWN, "/notes/.git") is None


class CountingFileSystem(SimulatedFileSystem):
    listings = 0
    opened = 0

    def list_directory(self, path: str) -> list[Entry]:
        self.listings += 1
        return super().list_directory(path)

    def open_file(self, path: str) -> SimulatedOpenFile:
        self.opened += 1
        return super().open_file(path)


def test_each_folder_is_listed_once_and_no_document_is_opened() -> None:
    fs = CountingFileSystem(ManualClock())
    for number in range(30):
        fs.write(f"/notes/{number % 5}/{number}.md", b"1")
    fs.write("/notes/node_modules/deep/x.md", b"1")
    fs.write("/notes/1/.gitignore", b"x\n")
    walk = scan(fs, SOURCE)
    assert len(list(walk)) == 32
    assert (fs.listings, fs.opened) == (6, 1)


def test_a_very_deep_tree_is_walked(fs: SimulatedFileSystem) -> None:
    fs.write("/notes" + "/d" * 1500 + "/a.md", b"1")
    walk = scan(fs, SOURCE)
    assert len(list(walk)) == 1
    assert walk.folders == 1501


# ---- one path ----


def test_one_path_has_the_verdict_of_the_folder_that_leaves_it_out(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/web/node_modules/lib/x.md", b"1")
    seen = judge_path(fs, SOURCE, NOTHING_OWN, "/notes/web/node_modules/lib/x.md")
    assert seen is not None
    assert (seen.path, seen.reason) == ("/notes/web/node_modules", Reason.IGNORED)


def test_below_a_link_the_link_is_the_answer(fs: SimulatedFileSystem) -> None:
    fs.write("/elsewhere/secret.md", b"1")
    fs.symlink("/notes/sub", "/elsewhere")
    seen = judge_path(fs, SOURCE, NOTHING_OWN, "/notes/sub/secret.md")
    assert seen is not None
    assert (seen.path, seen.reason) == ("/notes/sub", Reason.SYMLINK)


@pytest.mark.parametrize(
    "path",
    [
        *("/notes/missing.md", "/notes/missing/a.md", "/notes/a.md/below", "/notes/sub", "/notes", "/notes/"),
        *("/elsewhere/a.md", "/notesbook/a.md", "/notes/../elsewhere/a.md", "notes/a.md"),
    ],
)
def test_there_is_no_verdict_where_there_is_nothing_to_judge(fs: SimulatedFileSystem, path: str) -> None:
    fs.write("/notes/a.md", b"1")
    fs.make_directory("/notes/sub")
    fs.write("/elsewhere/a.md", b"1")
    fs.write("/notesbook/a.md", b"1")
    assert judge_path(fs, SOURCE, NOTHING_OWN, path) is None


def test_a_missing_root_is_no_verdict_on_its_files(fs: SimulatedFileSystem) -> None:
    fs.remove("/notes")
    with pytest.raises(FileNotFoundError):
        judge_path(fs, SOURCE, NOTHING_OWN, "/notes/a.md")


def test_an_unreadable_folder_on_the_way_is_the_answer(fs: SimulatedFileSystem) -> None:
    fs.write("/notes/locked/sub/a.md", b"1")
    fs.fail("/notes/locked", PermissionError(errno.EACCES, "denied"))
    seen = judge_path(fs, SOURCE, NOTHING_OWN, "/notes/locked/sub/a.md")
    assert seen is not None
    assert (seen.path, seen.reason) == ("/notes/locked", Reason.PERMISSION)


_NAMES = st.sampled_from(["a.md", "b.py", "c.xyz", "keep.log", "x.log", ".env", ".hidden.md", "id_rsa", "t.tmp"])
_FOLDERS = st.sampled_from(["", "sub/", "sub/deep/", ".git/", "node_modules/", "own/", ".ssh/", "drafts/", "link/"])
_RULES = st.sampled_from(["*.log", "!keep.log", "drafts/", "!.hidden.md", "deep", "/sub/deep/", "*", "!*/", "!*.md"])


@settings(max_examples=150, deadline=None)
@given(
    files=st.sets(st.tuples(_FOLDERS, _NAMES), max_size=15),
    rules=st.dictionaries(
        st.sampled_from([".gitignore", "sub/.gitignore", ".kbignore", "sub/.kbignore"]), st.lists(_RULES, max_size=3)
    ),
    ignore=st.lists(_RULES, max_size=2).map(tuple),
    recursive=st.booleans(),
    failing=st.sampled_from([None, None, "/notes/sub", "/notes/sub/.gitignore"]),
)
def test_a_walk_and_an_event_give_every_path_the_same_verdict(
    files: set[tuple[str, str]],
    rules: dict[str, list[str]],
    ignore: tuple[str, ...],
    recursive: bool,
    failing: str | None,
) -> None:
    fs = SimulatedFileSystem(ManualClock())
    fs.make_directory("/notes/own")
    fs.make_directory("/elsewhere")
    fs.symlink("/notes/link", "/elsewhere")
    for folder, name in files:
        if folder != "link/":
            fs.write(f"/notes/{folder}{name}", b"1")
    for name, lines in rules.items():
        fs.write(f"/notes/{name}", "\n".join(lines).encode())
    if failing is not None:
        fs.fail(failing, PermissionError(errno.EACCES, "denied"))
    stat = fs.lstat("/notes/own")
    own = frozenset({(stat.device, stat.inode)})
    source = replace(SOURCE, ignore=ignore, recursive=recursive)
    walked = {seen.path: seen for seen in scan(fs, source, own)}
    # Each path that the walk told is told alike by itself ...
    for path, seen in walked.items():
        if seen.reason is not Reason.PERMISSION:
            assert judge_path(fs, source, own, path) == seen
    # ... and a path that it did not tell has no verdict but that of something it did tell.
    for folder, name in files:
        by_event = judge_path(fs, source, own, f"/notes/{folder}{name}")
        assert by_event is None or walked[by_event.path] == by_event


def test_a_real_tree_with_names_of_any_bytes_is_walked(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path.resolve())
    names = [b"caf\xe9.md", b"tab\there.md", b"new\nline.md", b"\x1b[31mred.md", "\u202eright.md".encode(), b"-rf.md"]
    names.append(b"n" * 252 + b".md")
    for name in names:
        with open(root + b"/" + name, "wb") as file:
            file.write(b"1")
    source = Source(1, os.fsdecode(root))
    walk = scan(RealFileSystem(), source)
    seen = list(walk)
    assert {os.fsencode(os.path.basename(found.path)) for found in seen} == set(names)
    assert {found.reason for found in seen} == {None}
    assert walk.complete
    assert [judge_path(RealFileSystem(), source, NOTHING_OWN, found.path) for found in seen] == seen


def test_links_that_go_round_end_the_walk(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "loop").symlink_to(".")
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "broken").symlink_to("nowhere")
    assert verdicts(RealFileSystem(), Source(1, str(root))) == dict.fromkeys(
        ("loop", "a", "b", "broken"), Reason.SYMLINK
    )
