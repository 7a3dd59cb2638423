"""SQLite's way to its files, with what it does to them written down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from tests.faults.power_log import DiskLog

_NAME = "recorded"
# SQLite's own access to files syncs the folder of such a file along with the file's first sync.
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@contextmanager
def recorded(log: DiskLog, folder: str) -> Iterator[None]:
    """Have whatever is done to the database files of a folder in this block be told to the log.

    Every connection that is opened meanwhile is concerned, in all of the process; close them before the block ends.
    """
    before = apsw.vfs_names()[0]  # the default one comes first
    vfs = _RecordingVFS(log, folder, before)
    try:
        yield
    finally:
        apsw.set_default_vfs(before)
        vfs.unregister()


class _RecordingVFS(apsw.VFS):
    def __init__(self, log: DiskLog, folder: str, base: str) -> None:
        self._log, self._folder, self._base = log, folder, base
        super().__init__(_NAME, base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if name is None or path is None or os.path.dirname(path) != self._folder:
            return apsw.VFSFile(self._base, name, flags)
        if flags[0] & apsw.SQLITE_OPEN_CREATE:
            self._log.create(path)
        return _RecordingFile(self._base, self._log, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        if os.path.dirname(filename) == self._folder and filename in self._log.names:
            self._log.unlink(filename)
            if syncdir:
                self._log.sync_folder(self._folder)


class _RecordingFile(apsw.VFSFile):
    def __init__(self, base: str, log: DiskLog, path: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._log, self._inode, self._folder = log, log.names[path], os.path.dirname(path)
        self._is_named_at_sync = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        super().__init__(base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._log.write(self._inode, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._log.truncate(self._inode, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._log.sync(self._inode)
        if self._is_named_at_sync:
            self._log.sync_folder(self._folder)
            self._is_named_at_sync = False
