"""What the ledger says of a whole source, kept as raw rows: a rescan compares most of them and looks into few."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apsw

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.store import files


class KnownFiles:
    """Every path of a source that is not gone, until it is taken. One thread owns it."""

    def __init__(self, rows: dict[str, tuple[Any, ...]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, path: str) -> KnownFile | None:
        """Return what is known of a path, and let go of it; None where that is nothing."""
        row = self._rows.pop(path, None)
        return None if row is None else files.known_file(path, row)

    def take_indexed(self, path: str, stat: Stat, rules: str) -> bool:
        """Let go of a path whose very version is indexed by the same rules: nothing follows from the look at it."""
        row = self._rows.get(path)
        if row is None:
            return False
        size, mtime_ns, ctime_ns, inode, _, state, _, judged_by, hash_due = row
        if (
            size != stat.size
            or mtime_ns != stat.mtime_ns
            or ctime_ns != stat.ctime_ns
            or inode != stat.inode
            or state != "indexed"
            or judged_by != rules
            or hash_due
            or stat.kind != "file"
        ):
            return False
        del self._rows[path]
        return True


def of_source(connection: apsw.Connection, source_id: int) -> KnownFiles:
    """Return every path of a source that is not gone."""
    rows = connection.execute(
        f"SELECT path, {files.KNOWN} FROM files WHERE source_id = ? AND state <> 'gone'", (source_id,)
    )
    decode = os.fsdecode
    return KnownFiles({decode(row[0]): row[1:] for row in rows})
