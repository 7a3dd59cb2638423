"""On macOS a refusal of the privacy settings is told as one, with the program that is to be allowed."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kbsync.errors import FailFile
from kbsync.reasons import Reason
from kbsync.sources.full_disk_access import AccessWithheld, MacFileSystem, on_platform
from kbsync.sources.snapshot import read_snapshot
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

FOLDER, FILE = "/Users/ann/Documents", "/Users/ann/Documents/a.md"
PYTHON = "/opt/homebrew/Cellar/python@3.12/3.12.4/Python.app/Contents/MacOS/Python"
REFUSED = PermissionError(errno.EPERM, "Operation not permitted")
CALLS: dict[str, Callable[[MacFileSystem], object]] = {
    "lstat": lambda fs: fs.lstat(FILE),
    "list_directory": lambda fs: fs.list_directory(FOLDER),
    "open_file": lambda fs: fs.open_file(FILE),
    "filesystem_id": lambda fs: fs.filesystem_id(FILE),
}


def disk(error: OSError | None = None) -> SimulatedFileSystem:
    fs = SimulatedFileSystem(ManualClock())
    fs.write(FILE, b"quince")
    if error is not None:
        fs.fail(FOLDER, error)
    return fs


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_macos_withholds_names_the_program_and_the_place(call: Callable[[MacFileSystem], object]) -> None:
    """S05: EPERM of a look, a listing or an opening."""
    call(MacFileSystem(disk(), PYTHON))
    with pytest.raises(AccessWithheld) as caught:
        call(MacFileSystem(disk(REFUSED), PYTHON))
    assert caught.value.errno == errno.EPERM
    assert caught.value.filename in (FOLDER, FILE)
    for words in (PYTHON, "Full Disk Access", "System Settings"):
        assert words in str(caught.value.strerror)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_mode_that_denies_is_no_matter_of_privacy(call: Callable[[MacFileSystem], object]) -> None:
    fs = MacFileSystem(disk(PermissionError(errno.EACCES, "Permission denied")), PYTHON)
    with pytest.raises(PermissionError) as caught:
        call(fs)
    assert not isinstance(caught.value, AccessWithheld)


def test_other_systems_mean_something_else_by_it() -> None:
    fs = disk()
    assert on_platform(fs, "linux", PYTHON) is fs
    assert isinstance(on_platform(fs, "darwin", PYTHON), MacFileSystem)


def test_a_file_that_is_withheld_fails_with_what_to_do() -> None:
    """S05: a file by itself is no passing failure either: its job ends, with the remedy."""
    with pytest.raises(FailFile) as caught:
        read_snapshot(MacFileSystem(disk(REFUSED), PYTHON), FILE, 100)
    assert caught.value.reason is Reason.PERMISSION
    assert f"until {PYTHON} has Full Disk Access" in str(caught.value)
