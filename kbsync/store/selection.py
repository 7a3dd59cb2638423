"""Which chunks a search may find at all: conditions over `documents` and `chunks`, put together before anything ranks.

A condition that cannot be met matches nothing, never everything.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Value = str | bytes | float


@dataclass(frozen=True, slots=True)
class Selection:
    """A condition as SQL over the tables `documents` and `chunks` (joined), with its bindings in order."""

    sql: str
    bindings: tuple[Value, ...] = ()


CURRENT = Selection("documents.state = 'current'")
EVERY_VERSION = Selection("1")


def all_of(selections: Sequence[Selection]) -> Selection:
    """Return what meets every one of the conditions."""
    return _joined(selections, " AND ", "1")


def any_of(selections: Sequence[Selection]) -> Selection:
    """Return what meets at least one of the conditions."""
    return _joined(selections, " OR ", "0")


def none_of(selection: Selection) -> Selection:
    """Return what does not meet the condition; a value that is not known does not meet it either."""
    return Selection(f"NOT coalesce(({selection.sql}), 0)", selection.bindings)


def types(values: Iterable[str]) -> Selection:
    """Return the documents of these types."""
    return Selection("documents.type IN (SELECT value FROM json_each(?))", (_json(values),))


def languages(values: Iterable[str]) -> Selection:
    """Return the documents in these languages, as `documents.language` names them, in any case."""
    folded = _json(value.lower() for value in values)
    return Selection("lower(documents.language) IN (SELECT value FROM json_each(?))", (folded,))


def sources(paths: Sequence[str], every_version: bool) -> Selection:
    """Return what lies, or with `every_version` ever lay, in the sources with these paths."""
    found = ", ".join("?" * len(paths))
    return _by_origin(
        Selection(f"source_id IN (SELECT id FROM sources WHERE path IN ({found}))", tuple(map(_raw, paths))),
        every_version,
    )


def under(paths: Iterable[str], every_version: bool) -> Selection:
    """Return what lies at or below these absolute paths; a path ends at a separator: /a/b does not hold /a/bc."""
    ranges = []
    for path in paths:
        for written in _written(path.rstrip(os.sep)):
            whole = _raw(written)
            ranges.append(Selection("path = ? OR (path > ? AND path < ?)", (whole, whole + b"/", whole + b"0")))
    return _by_origin(any_of(ranges), every_version)


def in_folders(names: Iterable[str], every_version: bool) -> Selection:
    """Return what lies in folders of these names (`letters`, `work/letters`), wherever they are; ASCII in any case."""
    found = [
        Selection("instr(lower(CAST(path AS TEXT)), lower(CAST(? AS TEXT))) > 0", (b"/" + _raw(written) + b"/",))
        for name in names
        for written in _written(name.strip(os.sep))
    ]
    return _by_origin(any_of(found), every_version)


def since(seconds: float) -> Selection:
    """Return the documents whose file changed at a time or later; without a file: that came then."""
    return Selection(f"{_CHANGED} >= ?", (seconds,))


def before(seconds: float) -> Selection:
    """Return the documents whose file changed before a time; without a file: that came then."""
    return Selection(f"{_CHANGED} < ?", (seconds,))


def documents(ids: Iterable[int]) -> Selection:
    """Return the chunks of these documents."""
    return Selection("documents.id IN (SELECT value FROM json_each(?))", (_json(ids),))


def chunks(ids: Iterable[int]) -> Selection:
    """Return these chunks."""
    return Selection("chunks.id IN (SELECT value FROM json_each(?))", (_json(ids),))


def matching(match: str) -> Selection:
    """Return the chunks that match an FTS5 expression."""
    return Selection("chunks.id IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?)", (match,))


_CHANGED = (
    "coalesce((SELECT max(files.mtime_ns) / 1e9 FROM files WHERE files.document_id = documents.id), "
    "documents.created_at)"
)


def _by_origin(selection: Selection, every_version: bool) -> Selection:
    live = "" if every_version else " AND live = 1"
    return Selection(
        f"documents.id IN (SELECT document_id FROM origins WHERE ({selection.sql}){live})", selection.bindings
    )


def _raw(path: str) -> bytes:
    """Return a path's bytes; what no file can be called becomes what no file is called."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")


def _written(path: str) -> list[str]:
    """Return a path as typed and in both forms of Unicode: file systems differ in which one they keep."""
    return list(dict.fromkeys((path, *(unicodedata.normalize(form, path) for form in ("NFC", "NFD")))))


def _joined(selections: Sequence[Selection], word: str, nothing: str) -> Selection:
    if not selections:
        return Selection(nothing)
    sql = word.join(f"({selection.sql})" for selection in selections)
    return Selection(sql, tuple(value for selection in selections for value in selection.bindings))


def _json(values: Iterable[str | int]) -> str:
    return json.dumps(list(values))
