"""What macOS keeps from a program until a person allows it, told apart from an empty folder and from a wrong mode.

Documents, Desktop, Downloads, iCloud Drive and removable disks are protected there: who has no permission gets EPERM
where the file's own mode would give EACCES.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EPERM

from kbsync.filesystem import Entry, FileSystem, OpenFile, Stat

WHERE = "System Settings > Privacy & Security > Full Disk Access"


class AccessWithheld(PermissionError):
    """macOS does not let this program in. `strerror` says which program is to be allowed, and where."""


def told(program: str) -> str:
    """Return what a person does about it; `program` is the file that runs, as the system sees it."""
    return (
        f"macOS keeps it from kbsync until {program} has Full Disk Access ({WHERE}, then `kbsync service restart`); "
        "another Python needs it anew"
    )


class MacFileSystem:
    """A file system under macOS: implements FileSystem, and raises AccessWithheld where its privacy settings refuse."""

    def __init__(self, fs: FileSystem, program: str) -> None:
        self._fs = fs
        self._told = told(program)

    def lstat(self, path: str) -> Stat:
        with self._telling(path):
            return self._fs.lstat(path)

    def list_directory(self, path: str) -> list[Entry]:
        with self._telling(path):
            return self._fs.list_directory(path)

    def open_file(self, path: str) -> OpenFile:
        with self._telling(path):
            return self._fs.open_file(path)

    def filesystem_id(self, path: str) -> int | None:
        with self._telling(path):
            return self._fs.filesystem_id(path)

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            if error.errno != EPERM:
                raise
            raise AccessWithheld(EPERM, self._told, path) from error


def on_platform(fs: FileSystem, platform: str, program: str) -> FileSystem:
    """Return the file system as it is to be asked on a platform (a value of `sys.platform`)."""
    return MacFileSystem(fs, program) if platform == "darwin" else fs
