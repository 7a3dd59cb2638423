"""A backup: everything that a restore needs, of one moment, whole or not there at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.errors import EngineBusy, KbsyncError, RetryLater, UsageError
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base import manifest
from kbsync.reasons import Reason
from tests.fakes.backed_up import backed_up, disk_world, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine

_PDF = b"%PDF-1.7 rowan\fhawthorn"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    write_notes(folder, 5)
    (folder / "tree.pdf").write_bytes(_PDF)
    return folder


@pytest.fixture
def engine(tmp_path: Path, folder: Path) -> Iterator[SimulatedEngine]:
    engine = SimulatedEngine(disk_world(tmp_path / "home", folder))
    engine.rescan()
    (tmp_path / "brought.md").write_text("# Brought\n\nA quince by hand.\n")
    engine.add(str(tmp_path / "brought.md"))
    yield engine
    failpoints.listen(None)
    engine.close()


def at(name: str, deed: Callable[[], object], *, times: int = 1) -> None:
    """Have something happen when the work comes to a named place."""
    left = times

    def listen(place: str) -> None:
        nonlocal left
        if place == name and left:
            left -= 1
            deed()

    failpoints.listen(listen)


def documents_in(backup: Path) -> list[str]:
    return sorted(name.name for name in (backup / "documents").iterdir())


def test_it_holds_all_that_a_restore_needs_and_its_account_is_right(engine: SimulatedEngine, tmp_path: Path) -> None:
    engine.kb.adding.add_note("A note that waits.", "Waiting")
    answer = backed_up(engine, tmp_path / "backup")
    assert answer == {
        "path": str(tmp_path / "backup"),
        "documents": 7,
        "chunks": 8,
        "stored_files": 1,
        "size_bytes": answer["size_bytes"],
        "seconds": answer["seconds"],
        "problems": [],
    }
    names = sorted(tree(tmp_path / "backup"))
    assert [name.split("/")[0] for name in names] == [
        "config.toml",
        "conversions",
        "documents",
        "kb.sqlite3",
        "manifest.json",
        "staging",
    ]
    found = manifest.read(str(tmp_path / "backup"))
    manifest.verify(str(tmp_path / "backup"), found)
    assert {*found.files, "manifest.json"} == set(names)
    assert (found.sources, found.home) == ({str(tmp_path / "notes"): str(tmp_path / "notes")}, os.path.expanduser("~"))


def test_nobody_else_can_read_it_and_it_shares_no_file_with_what_it_was_made_of(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    backed_up(engine, tmp_path / "backup")
    for path, folders, names in os.walk(tmp_path / "backup"):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        for name in names:
            stated = os.stat(os.path.join(path, name))
            assert (stat.S_IMODE(stated.st_mode), stated.st_nlink) == (0o600, 1), name
        assert set(folders) <= {"documents", "staging", "conversions"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("full", "not empty"),
        ("file", "is a file"),
        ("absent/backup", "There is no folder"),
        ("notes/backup", "lies in the source"),
        ("notes", "not empty"),
        ("home/data/backup", "kbsync's own folder"),
        ("home/state/backup", "kbsync's own folder"),
        ("link/backup", "lies in the source"),
    ],
)
def test_a_folder_that_cannot_take_one_is_refused_and_left_alone(
    engine: SimulatedEngine, tmp_path: Path, place: str, said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("notes")
    before = tree(tmp_path / "full") | tree(tmp_path / "notes")
    with pytest.raises(UsageError, match=said):
        backed_up(engine, tmp_path / place)
    assert before == tree(tmp_path / "full") | tree(tmp_path / "notes")
    assert not list(tmp_path.rglob("*.partial-*"))


def test_an_empty_folder_takes_one(engine: SimulatedEngine, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    backed_up(engine, tmp_path / "backup")
    manifest.read(str(tmp_path / "backup"))


def test_a_disk_s_own_folder_is_refused(
    engine: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stick").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(tmp_path / "stick"))
    with pytest.raises(UsageError, match="new folder in it"):
        backed_up(engine, tmp_path / "stick")


def test_what_an_interrupted_one_left_is_none_and_goes_with_the_next(engine: SimulatedEngine, tmp_path: Path) -> None:
    left = tmp_path / "backup.partial-0123abcd"
    shutil.copytree(tmp_path / "notes", left)
    with pytest.raises(UsageError, match="no backup"):
        manifest.read(str(left))
    (tmp_path / "backup.partial-mine").mkdir()
    backed_up(engine, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.glob("backup*")) == ["backup", "backup.partial-mine"]


def test_a_full_disk_is_told_and_nothing_is_left(engine: SimulatedEngine, tmp_path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place in ("backup.slice_copied", "backup.file_copied", "backup.manifest_written", "backup.synced"):
        at(place, full)
        with pytest.raises(RetryLater, match="full") as told:
            backed_up(engine, tmp_path / "backup")
        assert told.value.reason is Reason.NO_SPACE
        assert not list(tmp_path.glob("backup*"))
    backed_up(engine, tmp_path / "backup")


def test_a_process_that_is_to_end_ends_it_and_nothing_is_left(engine: SimulatedEngine, tmp_path: Path) -> None:
    at("backup.slice_copied", engine.engine.stop.set)
    with pytest.raises(RetryLater, match="stopping"):
        backed_up(engine, tmp_path / "backup")
    assert not list(tmp_path.glob("backup*"))
    engine.engine.stop.clear()
    assert engine.kb.check() == []


def test_two_at_once_are_one_too_many(engine: SimulatedEngine, tmp_path: Path) -> None:
    operations = Operations(engine.engine, engine.daemon)
    refused: list[KbsyncError] = []

    def another() -> None:
        with pytest.raises(EngineBusy) as told:
            operations.backup(str(tmp_path / "other"))
        refused.append(told.value)

    at("backup.begun", another)
    operations.backup(str(tmp_path / "backup"))
    assert refused
    assert not (tmp_path / "other").exists()


def test_a_document_that_is_removed_while_its_copy_is_copied_is_in_neither(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    number = next(found for found, title, _ in engine.documents() if title == "Brought")
    at("backup.snapshot_checked", lambda: engine.kb.remove_document(number))
    answer = backed_up(engine, tmp_path / "backup")
    assert (answer["documents"], answer["stored_files"], answer["problems"]) == (6, 0, [])
    assert documents_in(tmp_path / "backup") == []


def test_a_document_that_was_copied_before_it_was_removed_leaves_no_copy_of_an_earlier_try(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    (tmp_path / "second.md").write_text("# Second\n\nA medlar by hand.\n")
    engine.add(str(tmp_path / "second.md"))
    for title in ("Brought", "Second"):
        number = next(found for found, name, _ in engine.documents() if name == title)
        name = os.path.basename(engine.read("SELECT stored_path FROM documents WHERE id = ?", number)[0][0])
        if name == max(path.name for path in Path(engine.world.locations.documents_dir).iterdir()):
            last = number
        else:
            first = number

    def remove() -> None:
        engine.kb.remove_document(first)
        engine.kb.remove_document(last)

    # The first one is copied already, the second one is not.
    at("backup.file_copied", remove)
    answer = backed_up(engine, tmp_path / "backup")
    assert (answer["documents"], answer["stored_files"], answer["problems"]) == (6, 0, [])
    assert documents_in(tmp_path / "backup") == []
    manifest.verify(str(tmp_path / "backup"), manifest.read(str(tmp_path / "backup")))


def test_removals_without_end_end_it(engine: SimulatedEngine, tmp_path: Path) -> None:
    brought = tmp_path / "brought.md"

    def remove_and_bring() -> None:
        number = next(found for found, title, _ in engine.documents() if title == "Brought")
        engine.kb.remove_document(number)
        brought.write_text(brought.read_text() + "Again.\n")
        engine.add(str(brought))

    at("backup.snapshot_checked", remove_and_bring, times=100)
    with pytest.raises(RetryLater, match="were removed"):
        backed_up(engine, tmp_path / "backup")
    assert not list(tmp_path.glob("backup*"))


def test_a_job_that_ends_meanwhile_waits_in_the_backup_with_its_copy(engine: SimulatedEngine, tmp_path: Path) -> None:
    engine.kb.adding.add_note("A note that waits.", "Waiting")
    at("backup.snapshot_checked", engine.settle)
    backed_up(engine, tmp_path / "backup")
    assert len(list((tmp_path / "backup" / "staging").iterdir())) == 1
    assert os.listdir(engine.world.locations.staging_dir) == []
    assert "Waiting" in {title for _, title, _ in engine.documents()}


def test_a_damaged_or_missing_stored_copy_is_told_and_the_rest_is_backed_up(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    [stored] = Path(engine.world.locations.documents_dir).iterdir()
    good = stored.read_bytes()
    stored.write_bytes(b"X" + good[1:])
    damaged = backed_up(engine, tmp_path / "damaged")
    assert [problem for problem in damaged["problems"] if f"{stored.name} is damaged" in problem]  # type: ignore[attr-defined]
    assert documents_in(tmp_path / "damaged") == [stored.name]
    stored.unlink()
    missing = backed_up(engine, tmp_path / "missing")
    assert [problem for problem in missing["problems"] if f"{stored.name} is missing" in problem]  # type: ignore[attr-defined]
    assert missing["documents"] == 7
    stored.write_bytes(good)
    assert backed_up(engine, tmp_path / "good")["problems"] == []


def test_parts_of_the_index_that_do_not_agree_are_told(engine: SimulatedEngine, tmp_path: Path) -> None:
    engine.engine.writer.run(
        lambda connection: connection.execute("DELETE FROM chunks_fts_docsize WHERE id = 1").fetchall()
    )
    problems = backed_up(engine, tmp_path / "backup")["problems"]
    assert [problem for problem in problems if "without a full-text row" in problem]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("documents/gone", "not whole"),
        ("kb.sqlite3", "holds other bytes"),
        ("manifest.json", "is damaged"),
    ],
)
def test_a_backup_that_was_changed_is_refused(engine: SimulatedEngine, tmp_path: Path, name: str, said: str) -> None:
    backup = tmp_path / "backup"
    backed_up(engine, backup)
    if name == "documents/gone":
        next((backup / "documents").iterdir()).unlink()
    else:
        content = bytearray((backup / name).read_bytes())
        content[len(content) // 2] ^= 1
        (backup / name).write_bytes(content if name != "manifest.json" else content[:-9])
    with pytest.raises(UsageError, match=said):
        manifest.verify(str(backup), manifest.read(str(backup)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "form 2"),
        ({"schema": 99}, "schema 99"),
        ({"files": {"../../etc/passwd": ["", 0], "kb.sqlite3": ["", 0]}}, "is damaged"),
        ({"files": {"documents/..": ["", 0], "kb.sqlite3": ["", 0]}}, "is damaged"),
        ({"files": {}}, "is damaged"),
        ({"made_at": "yesterday"}, "is damaged"),
    ],
)
def test_a_newer_backup_and_a_made_up_one_are_refused(
    engine: SimulatedEngine, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    backup = tmp_path / "backup"
    backed_up(engine, backup)
    content = json.loads((backup / "manifest.json").read_text())
    (backup / "manifest.json").write_text(json.dumps(content | changes))
    with pytest.raises(UsageError, match=said):
        manifest.read(str(backup))
