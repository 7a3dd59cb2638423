"""What a question of the integrity check finds: how often something is wrong, and where first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from kbsync.filesystem import as_text


@dataclass(frozen=True, slots=True)
class Found:
    """How often something is wrong, and where first: a path, or `document 3`."""

    count: int
    first: str


Question = Callable[[apsw.Connection], Found | None]


def found_rows(connection: apsw.Connection, what: str, *asked: str) -> Found | None:
    """Count the rows that these queries return as `id`; `what` they are."""
    if not asked:
        return None
    count, first = connection.execute(f"SELECT count(*), min(id) FROM ({' UNION ALL '.join(asked)})").fetchall()[0]
    return Found(int(count), f"{what} {first}") if count else None


def found_paths(connection: apsw.Connection, asked: str) -> Found | None:
    """Count the rows that a query returns as `path`."""
    row: Any = connection.execute(f"SELECT count(*), min(path) FROM ({asked})").fetchall()[0]
    return Found(int(row[0]), as_text(os.fsdecode(row[1]))) if row[0] else None


def first_of(found: Iterable[str]) -> Found | None:
    """Count what was found one by one."""
    every = list(found)
    return Found(len(every), every[0]) if every else None
