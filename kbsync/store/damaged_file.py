"""Reads rows out of a database file that SQLite itself refuses: page by page, around whatever is damaged.

SQLite's file format is fixed and documented (sqlite.org/fileformat2.html); read are the tables with row ids, the
overflow chains of long rows, and the write-ahead log's committed frames. SQLite's own recovery tool is in no package
that kbsync stands on, and reading ranges of row ids through SQLite ends where the header or the schema is damaged.

Nothing is ever written, and no lock is taken: for a file that was set aside, never for one that is in use.
"""

from __future__ import annotations

import array
import mmap
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

Value = int | float | str | bytes | None
# Row id and values, in the order of the columns; those that were added to the table later may be missing at the end.
Row = tuple[int, tuple[Value, ...]]
# A table's columns: name, type in the SQL, and whether NULL, or nothing at all, may stand there.
Columns = Sequence[tuple[str, str, bool]]

# What SQLite makes where nobody says otherwise.
_PAGE_SIZE = 4096
_INTERIOR, _LEAF = 5, 13
_HEADER_BYTES = 100
_FRAME_HEADER, _LOG_HEADER = 24, 32
_MOST_COLUMNS = 200
_STORAGE: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (float, int),
    "TEXT": (str,),
    "BLOB": (bytes,),
}


class DamagedFile:
    """A database file and its write-ahead log, opened for reading. A context manager. `unread`: cells given up."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: mmap.mmap | bytes = b""
        self._log: mmap.mmap | bytes = b""
        self._frames: dict[int, int] = {}
        self._page_size = _PAGE_SIZE
        self.unread = 0

    def __enter__(self) -> DamagedFile:
        self._file, self._log = _mapped(self._path), _mapped(self._path + "-wal")
        told = int.from_bytes(self._file[16:18], "big")
        if 512 <= told <= 32768 and told.bit_count() == 1:
            self._page_size = told
        self._frames = _committed_frames(self._log, self._page_size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mapped in (self._file, self._log):
            if isinstance(mapped, mmap.mmap):
                mapped.close()

    def tables(self, wanted: Mapping[str, Columns]) -> dict[str, list[int]]:
        """Return the leaf pages of each of these tables.

        Those that no tree leads to any more, for a page above them is damaged, are known by the form of their rows.
        """
        roots = self._roots()
        seen: set[int] = set()
        found = {name: self._leaves(roots[name], seen) for name in wanted if name in roots}
        for name, root in roots.items():
            if name not in wanted:
                self._leaves(root, seen)
        seen |= self._free()
        for number in range(1, self._count() + 1):
            if number in seen or self._kind(number) != _LEAF:
                continue
            row = next(self.rows([number]), None)
            of = None if row is None else next((name for name, form in wanted.items() if fits(row[1], form)), None)
            if of is not None:
                found.setdefault(of, []).append(number)
        return found

    def names(self) -> list[str]:
        """Return the tables and indexes that the schema names, as far as it can be read."""
        return list(self._roots())

    def rows(self, leaves: Sequence[int]) -> Iterator[Row]:
        """Yield (row id, values) of every row on these pages that can be read."""
        for number in leaves:
            page = self._page(number)
            for position in self._cells(page, number):
                try:
                    yield self._row(page, position)
                except (ValueError, IndexError, struct.error):
                    self.unread += 1

    # ---- pages ----

    def _count(self) -> int:
        return max(-(-len(self._file) // self._page_size), max(self._frames, default=0))

    def _page(self, number: int) -> bytes:
        """Return a page, the newest committed version of it; short or empty where the file ends before."""
        frame = self._frames.get(number)
        if frame is not None:
            return bytes(self._log[frame : frame + self._page_size])
        start = (number - 1) * self._page_size
        return bytes(self._file[start : start + self._page_size])

    def _kind(self, number: int) -> int:
        page, start = self._page(number), _HEADER_BYTES if number == 1 else 0
        return page[start] if len(page) > start else 0

    def _cells(self, page: bytes, number: int) -> list[int]:
        """Return where the cells of a b-tree page begin."""
        start = _HEADER_BYTES if number == 1 else 0
        if len(page) < start + 8:
            return []
        first = start + (8 if page[start] == _LEAF else 12)
        count = min(int.from_bytes(page[start + 3 : start + 5], "big"), (self._page_size - first) // 2)
        pointers = page[first : first + 2 * count]
        return [int.from_bytes(pointers[at : at + 2], "big") for at in range(0, len(pointers) - 1, 2)]

    def _leaves(self, root: int, seen: set[int]) -> list[int]:
        """Return the leaf pages below a page, in order; `seen` gets every page that was come by."""
        leaves, waiting = [], [root]
        while waiting:
            number = waiting.pop()
            if number in seen or not 1 <= number <= self._count():
                continue
            kind = self._kind(number)
            if kind not in (_INTERIOR, _LEAF, 2, 10):
                continue  # damaged: what hangs below is looked for by its form
            seen.add(number)
            if kind in (_INTERIOR, 2):
                page, start = self._page(number), _HEADER_BYTES if number == 1 else 0
                below = [page[at : at + 4] for at in self._cells(page, number)] + [page[start + 8 : start + 12]]
                waiting += [int.from_bytes(child, "big") for child in reversed(below)]
            elif kind == _LEAF:
                leaves.append(number)
        return leaves

    def _free(self) -> set[int]:
        """Return the pages that belong to nothing: what they hold was deleted."""
        free: set[int] = set()
        number = int.from_bytes(self._page(1)[32:36], "big")
        while number and number not in free and number <= self._count():
            page = self._page(number)
            free.add(number)
            count = min(int.from_bytes(page[4:8], "big"), self._page_size // 4 - 2)
            free.update(int.from_bytes(page[8 + 4 * at : 12 + 4 * at], "big") for at in range(count))
            number = int.from_bytes(page[:4], "big")
        return free

    def _roots(self) -> dict[str, int]:
        """Return the root page of each table and index that the schema names, as far as it can be read."""
        roots = {}
        for _row_id, values in self.rows(self._leaves(1, set())):
            if len(values) == 5 and isinstance(values[1], str) and isinstance(values[3], int) and values[3] > 1:
                roots[values[1]] = values[3]
        return roots

    # ---- rows ----

    def _row(self, page: bytes, position: int) -> Row:
        """Read a cell of a table's leaf page. Raises ValueError and IndexError for what is none."""
        if position < 8:
            raise ValueError("a cell within the page's header")
        size, at = _varint(page, position)
        row_id, at = _varint(page, at)
        return row_id, _record(self._payload(page, at, size))

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        usable = self._page_size
        if size > len(self._file) + len(self._log):
            raise ValueError("longer than the file")
        most, least = usable - 35, (usable - 12) * 32 // 255 - 23
        here = size
        if size > most:
            here = least + (size - least) % (usable - 4)
            here = here if here <= most else least
        parts, length = [page[at : at + here]], here
        if at + here > len(page):
            raise ValueError("a cell beyond its page")
        following = int.from_bytes(page[at + here : at + here + 4], "big") if size > here else 0
        while length < size:
            if not 1 < following <= self._count():
                raise ValueError("a chain that leads nowhere")
            more = self._page(following)
            piece = more[4 : 4 + size - length]
            if not piece:
                raise ValueError("a chain beyond the file")
            parts.append(piece)
            length += len(piece)
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _mapped(path: str) -> mmap.mmap | bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    try:
        if os.fstat(descriptor).st_size == 0:
            return b""
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


def _committed_frames(log: mmap.mmap | bytes, page_size: int) -> dict[int, int]:
    """Return page -> where its newest committed version begins in a write-ahead log."""
    header = log[:_LOG_HEADER]
    magic = int.from_bytes(header[:4], "big")
    if len(header) < _LOG_HEADER or magic not in (0x377F0682, 0x377F0683):
        return {}
    order: str = "big" if magic & 1 else "little"
    sums = _checksum(header[:24], order, (0, 0))
    if sums != struct.unpack(">II", header[24:32]) or int.from_bytes(header[8:12], "big") != page_size:
        return {}
    committed: dict[int, int] = {}
    begun: dict[int, int] = {}
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - page_size + 1, _FRAME_HEADER + page_size):
        frame, content = log[at : at + _FRAME_HEADER], log[at + _FRAME_HEADER : at + _FRAME_HEADER + page_size]
        if frame[8:16] != header[16:24]:
            break  # of an earlier round
        sums = _checksum(content, order, _checksum(frame[:8], order, sums))
        if sums != struct.unpack(">II", frame[16:24]):
            break
        begun[int.from_bytes(frame[:4], "big")] = at + _FRAME_HEADER
        if int.from_bytes(frame[4:8], "big"):  # a transaction's last frame
            committed.update(begun)
            begun.clear()
    return committed


def _checksum(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    words = array.array("I", content)
    if order != sys.byteorder:
        words.byteswap()
    first, second = sums
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(9):
        byte = content[at + count]
        if count == 8:
            value = (value << 8) | byte
            break
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    if value >= 1 << 63:
        value -= 1 << 64
    return value, at + count + 1


def _record(payload: bytes) -> tuple[Value, ...]:
    """Return the values of a record. Raises ValueError and IndexError for what is none."""
    end, at = _varint(payload, 0)
    if not 1 <= end <= len(payload):
        raise ValueError("a record without its columns")
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if len(kinds) > _MOST_COLUMNS or at != end:
        raise ValueError("no record")
    values: list[Value] = []
    for kind in kinds:
        value, end = _value(payload, end, kind)
        values.append(value)
    if end > len(payload):
        raise ValueError("a record that is cut off")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if 1 <= kind <= 6:
        length = (1, 2, 3, 4, 6, 8)[kind - 1]
        return int.from_bytes(payload[at : at + length], "big", signed=True), at + length
    if kind == 7:
        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("a column of no kind")
    length = (kind - 12) // 2
    content = payload[at : at + length]
    return content if kind % 2 == 0 else content.decode("utf-8", "replace"), at + length


def fits(values: Sequence[Value], columns: Columns) -> bool:
    """Return whether a row may be one of a table; columns that were added later may be missing from it."""
    if not 1 <= len(values) <= len(columns):
        return False
    if any(not may_be_null for _name, _kind, may_be_null in columns[len(values) :]):
        return False
    return all(
        # NULL stands for the row's id where a column is one.
        may_be_null or (position == 0 and kind == "INTEGER") if value is None else isinstance(value, _STORAGE[kind])
        for position, (value, (_name, kind, may_be_null)) in enumerate(zip(values, columns, strict=False))
    )
