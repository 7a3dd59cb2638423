"""Copies that kbsync keeps: on the disk before anything counts on them, never removed while something needs them."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from kbsync.errors import StorageUnavailable
from kbsync.filesystem import RealFileSystem
from kbsync.reasons import Reason
from kbsync.sources.snapshot import read_snapshot
from kbsync.store.stored_files import StagedFile, StoredFiles


@pytest.fixture
def stored(tmp_path: Path) -> StoredFiles:
    for name in ("staging", "documents"):
        (tmp_path / name).mkdir()
    return StoredFiles(str(tmp_path / "staging"), str(tmp_path / "documents"))


def stage(stored: StoredFiles, content: bytes = b"apples", name: str = "a.md") -> str:
    with stored.staging(name) as (path, file):
        file.write(content)
    return path


def fail_inside(stored: StoredFiles, error: BaseException) -> None:
    with stored.staging("a.md") as (_path, file):
        file.write(b"half")
        raise error


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("a.md", ".md"),
        ("A.MD", ".md"),
        ("archive.tar.gz", ".gz"),
        ("none", ""),
        ("odd.m/d", ""),
        ("long." + "x" * 17, ""),
        ("caf\udce9.md", ".md"),
        ("a.md\n", ""),
        ("文.文", ""),
    ],
)
def test_a_staged_copy_keeps_a_plain_ending_only(stored: StoredFiles, name: str, ending: str) -> None:
    path = stage(stored, name=name)
    assert os.path.dirname(path) == stored.staging_dir
    assert os.path.splitext(path)[1] == ending
    assert Path(path).read_bytes() == b"apples"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_two_copies_of_one_name_are_two_files(stored: StoredFiles) -> None:
    assert stage(stored) != stage(stored)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_a_copy_that_was_not_finished_is_removed(stored: StoredFiles, error: BaseException) -> None:
    with pytest.raises(type(error)):
        fail_inside(stored, error)
    assert os.listdir(stored.staging_dir) == []


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, Reason.NO_SPACE),
        (errno.EDQUOT, Reason.NO_SPACE),
        (errno.EROFS, Reason.IO),
        (errno.EIO, Reason.IO),
        (errno.EACCES, Reason.IO),
        (errno.ESTALE, Reason.IO),
        (errno.EMFILE, Reason.IO),
        (errno.ENOMEM, Reason.IO),
    ],
)
def test_a_disk_of_ours_that_takes_nothing_is_told_as_such(stored: StoredFiles, number: int, reason: Reason) -> None:
    with pytest.raises(StorageUnavailable) as caught:
        fail_inside(stored, OSError(number, "no"))
    assert caught.value.reason is reason
    assert os.listdir(stored.staging_dir) == []


def test_a_copy_without_room_is_not_taken_for_a_file_that_cannot_be_read(stored: StoredFiles, tmp_path: Path) -> None:
    """F29: what stands between is the copy's disk, not the file's."""
    (tmp_path / "a.md").write_bytes(b"apples")

    class Full(io.BytesIO):
        def write(self, _block: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageUnavailable) as caught:
        read_snapshot(RealFileSystem(), str(tmp_path / "a.md"), 0, StagedFile(Full(), stored.staging_dir).write)
    assert caught.value.reason is Reason.NO_SPACE


def test_room_is_proved_by_writing_and_nothing_is_left(stored: StoredFiles) -> None:
    stored.prove_room()
    assert os.listdir(stored.staging_dir) == []
    assert (stored.room() or 0) > 0
    os.rmdir(stored.staging_dir)
    assert stored.room() is None


@pytest.mark.parametrize("folder", ["staging", "documents"])
def test_a_stored_copy_that_cannot_be_removed_is_told_and_a_staged_one_left_to_the_next_start(
    stored: StoredFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    def refuse(_path: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StorageUnavailable) if folder == "documents" else nullcontext():
        stored.discard(str(tmp_path / folder / "a.md"))


def test_another_error_of_the_disk_stays_what_it_is(stored: StoredFiles) -> None:
    with pytest.raises(OSError, match="too long") as caught:
        fail_inside(stored, OSError(errno.ENAMETOOLONG, "too long"))
    assert caught.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize("folder", ["staging", "documents"])
def test_a_folder_that_somebody_removed_is_waited_for_and_made_anew_in_the_data_folder(
    stored: StoredFiles, tmp_path: Path, folder: str
) -> None:
    """P18: none of its files is to blame, and none of what it held is taken for lost meanwhile."""
    staged = stage(stored) if folder == "documents" else ""
    shutil.move(tmp_path / folder, tmp_path / "away")
    for use in (lambda: stored.store(staged, "0123abcd", "a.md") if staged else stage(stored), stored.names):
        with pytest.raises(StorageUnavailable, match="is gone"):
            use()
    assert stored.in_hand() == ({staged} if staged else set())
    stored.prove_room()
    stored.store(staged or stage(stored), "0123abcd", "a.md")
    shutil.rmtree(tmp_path / folder)
    gone = StoredFiles(str(tmp_path / "moved" / "staging"), str(tmp_path / "moved" / "documents"))
    with pytest.raises(StorageUnavailable, match="is gone"):
        gone.prove_room()
    assert not (tmp_path / "moved").exists()


def test_storing_twice_does_no_harm(stored: StoredFiles) -> None:
    first, second = stage(stored), stage(stored)
    path = stored.store(first, "0123abcd", "A.MD")
    assert path == os.path.join(stored.documents_dir, "0123abcd.md")
    assert stored.store(first, "0123abcd", "A.MD") == path
    assert stored.store(second, "0123abcd", "A.MD") == path
    stored.discard(first)
    stored.discard(first)
    assert Path(path).read_bytes() == b"apples"


def test_the_sweep_removes_only_what_nothing_needs(stored: StoredFiles) -> None:
    waiting, orphan = stage(stored), stage(stored)
    kept = stored.store(orphan, "aa", "a.md")
    stored_too_soon = stored.store(waiting, "bb", "a.md")
    assert stored.sweep({waiting, kept}) == []
    assert [os.path.exists(path) for path in (waiting, kept, orphan, stored_too_soon)] == [True, True, False, False]
    assert stored.sweep({waiting, kept}) == []


def test_the_sweep_removes_what_was_to_take_the_place_of_a_damaged_copy(stored: StoredFiles) -> None:
    staged = stage(stored)
    beside = os.path.join(stored.documents_dir, "0123456789abcdef0123456789abcdef.new")
    os.link(staged, beside)
    assert stored.sweep(set()) == []
    assert os.listdir(stored.documents_dir) == []


def test_the_sweep_keeps_a_stored_copy_whose_staged_twin_waits_for_nobody(stored: StoredFiles) -> None:
    """As where the database was deleted while a stored copy was to be read again: then it may be the only one."""
    orphan = stage(stored)
    path = stored.store(orphan, "aa", "a.md")
    assert stored.sweep(set()) == []
    assert (os.path.exists(orphan), Path(path).read_bytes()) == (False, b"apples")
    assert stored.sweep(set()) == [path]


def test_the_sweep_keeps_and_names_a_stored_copy_that_may_be_the_only_one(stored: StoredFiles) -> None:
    staged = stage(stored)
    path = stored.store(staged, "aa", "a.md")
    stored.discard(staged)
    assert stored.sweep(set()) == [path]
    assert Path(path).read_bytes() == b"apples"


def test_the_sweep_spares_the_copies_of_a_data_folder_that_was_moved(stored: StoredFiles, tmp_path: Path) -> None:
    staged = stage(stored)
    kept = stored.store(staged, "aa", "a.md")
    moved = tmp_path / "moved"
    moved.mkdir()
    for folder in ("staging", "documents"):
        os.rename(tmp_path / folder, moved / folder)
    after = StoredFiles(str(moved / "staging"), str(moved / "documents"))
    assert after.sweep({staged, kept}) == []
    assert (moved / "documents" / "aa.md").read_bytes() == b"apples"


def test_the_sweep_leaves_folders_alone(stored: StoredFiles) -> None:
    os.mkdir(os.path.join(stored.documents_dir, "mine"))
    assert stored.sweep(set()) == []
    assert os.listdir(stored.documents_dir) == ["mine"]
