"""Paths in JSON: percent-encoded from their raw bytes, since a name may be no UTF-8 and JSON carries nothing else."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from kbsync.errors import UsageError


def absolute_path(path: str) -> str:
    """Resolve the folders on the way, not the last name: a link that is named is told as a link. Raises UsageError."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError("A path must be absolute.")
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)


def encode(path: str) -> str:
    """Return a path (with surrogate escapes) in the form that travels."""
    return quote(os.fsencode(path), safe="/")


def decoded(path: str) -> str:
    """Return the path that was encoded."""
    return os.fsdecode(unquote_to_bytes(path))


def encoded(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of lists with every path in the form that travels: `path` of records, and bare paths."""
    return {key: [_encoded(item) for item in items] for key, items in record.items()}


def decoded_record(record: dict[str, Any]) -> dict[str, Any]:
    """Undo `encoded`."""
    return {
        key: [decoded(item) if isinstance(item, str) else {**item, "path": decoded(item["path"])} for item in items]
        for key, items in record.items()
    }


def _encoded(item: Any) -> Any:
    return encode(item) if isinstance(item, str) else {**item, "path": encode(item["path"])}
