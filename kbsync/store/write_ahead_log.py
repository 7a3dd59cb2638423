"""Keeps the write-ahead log of the writing connection small, and says where somebody who reads hinders that."""

from __future__ import annotations

import apsw

from kbsync.store.connection import BUSY_TIMEOUT_MS, WAL_LIMIT_BYTES

# As SQLite itself does: a log of about 4 MB is copied into the database after the commit that made it so long.
_CHECKPOINT_PAGES = 1000
# A log over its limit is looked at this often while nothing is asked of the writer, and never else.
LOOK_S = 5.0


class WriteAheadLog:
    """Belongs to the writer: one thread at a time. `bytes` and `held` may be read from any.

    SQLite writes to the log's end as long as anybody reads what was true before it, and only then begins it anew.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._page_bytes = int(connection.pragma("page_size"))
        self._pages = 0
        self.held = False
        # This takes the place of SQLite's own checkpoints, which tell nobody that they did not get through.
        connection.set_wal_hook(self._grown)

    @property
    def bytes(self) -> int:
        """How long the log is."""
        return self._pages * self._page_bytes

    @property
    def is_large(self) -> bool:
        """Return whether it is over its limit."""
        return self.bytes > WAL_LIMIT_BYTES

    def checkpoint(self) -> None:
        """Copy into the database what nobody needs in the log any more, where that is due; after each commit."""
        if self._pages < _CHECKPOINT_PAGES:
            self.held = False
            return
        try:
            pages, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            return  # a full disk, another's lock: all is in the log, and the next commit tries again
        self.held = self.is_large and copied < pages

    def shrink(self) -> None:
        """Empty a log that is over its limit, while nothing is asked; where somebody reads it now, the next time."""
        if not self.is_large:
            return
        self._connection.set_busy_timeout(0)
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._pages, self.held = 0, False
        except apsw.Error:
            self.held = True
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _grown(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK
