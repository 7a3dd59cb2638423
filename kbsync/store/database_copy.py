"""Copies the database while it is in use: through the writing connection, a slice a turn, into a single file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import apsw

from kbsync.errors import RetryLater
from kbsync.failpoints import failpoint
from kbsync.reasons import Reason
from kbsync.store.connection import translated
from kbsync.store.writer import Writer

# A commit waits no longer than it takes to copy so many pages: a few milliseconds.
SLICE_PAGES = 500


def copy_database(writer: Writer, target: str, go_on: Callable[[], None], slice_pages: int = SLICE_PAGES) -> None:
    """Write the database as it is when this ends to a new file (0600) in DELETE journal mode. The caller syncs it.

    Commits in between go into the copy too, so that it never begins anew, and no reader holds on to the write-ahead
    log meanwhile. `go_on` is asked before each slice and raises to end it. Raises RetryLater for a target that is full.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    copy = _opened(target)
    try:
        copy.execute("PRAGMA journal_mode = OFF")
        # The caller syncs what is whole; what is not goes.
        copy.execute("PRAGMA synchronous = OFF")
        backup = writer.run_alone(lambda connection: copy.backup("main", connection, "main"))
        try:
            done = False
            while not done:
                go_on()
                done = writer.run_alone(partial(_slice, backup=backup, target=target, pages=slice_pages))
                failpoint("backup.slice_copied")
        finally:
            writer.run_alone(partial(_end, backup=backup))
    finally:
        copy.close()
    copy = _opened(target)
    try:
        with _told(target), translated(target, opening=True):
            # The copy says of itself that it has a write-ahead log: it is to be one file, readable on any disk.
            copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
    failpoint("backup.database_copied")


def _opened(target: str) -> apsw.Connection:
    with translated(target, opening=True):
        copy = apsw.Connection(target)
        # Nobody else has the file, and a stick or a share may not know shared memory.
        copy.execute("PRAGMA locking_mode = EXCLUSIVE")
    return copy


def _slice(_connection: apsw.Connection, backup: apsw.Backup, target: str, pages: int) -> bool:
    """Copy some pages and return whether that was all."""
    with _told(target):
        backup.step(pages)
    return bool(backup.done)


def _end(_connection: apsw.Connection, backup: apsw.Backup) -> None:
    backup.close(True)


@contextmanager
def _told(target: str) -> Iterator[None]:
    """Turn the driver's errors about the target into one that names it."""
    try:
        yield
    except apsw.FullError as error:
        raise RetryLater(
            Reason.NO_SPACE, f"The disk that holds {target} is full.", hint="Free some space, or name another folder."
        ) from error
    except apsw.IOError as error:
        raise RetryLater(Reason.IO, f"Copying the database to {target} failed: {error}.") from error
