"""SQLite as the driver brings it, and kbsync's database as the daemon or its file tells of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kbsync.errors import KbsyncError
from kbsync.interfaces.doctor.finding import Finding, fine, problem, unknown, warning
from kbsync.interfaces.doctor.subject import Record, Subject

if TYPE_CHECKING:
    from kbsync.store.capabilities import Capabilities
    from kbsync.store.connection import Connection

REPAIR = "kbsync check --repair"
# A check is made once a day while the daemon runs; what waits longer was not running, or fails.
_LONG_S = 8 * 86400.0


def look_at_sqlite(subject: Subject) -> list[Finding]:
    """Examine the database's library."""
    from kbsync.store.capabilities import capabilities

    return judge_sqlite(capabilities(), subject.pip)


def judge_sqlite(found: Capabilities, pip: Callable[..., str]) -> list[Finding]:
    """Say what SQLite lacks."""
    again = pip("install", "--force-reinstall", f"apsw>={found.oldest}")
    if _parts(found.sqlite) < _parts(found.oldest):
        return [problem(f"SQLite {found.sqlite} is older than {found.oldest}, and can corrupt a database.", again)]
    if not found.has_full_text:
        return [problem(f"SQLite {found.sqlite} has no full-text index (FTS5).", again)]
    if found.no_vectors is not None:
        return [warning(found.no_vectors, pip("install", "--force-reinstall", "sqlite-vec"))]
    return [fine(f"SQLite {found.sqlite} with full text (apsw {found.driver}), sqlite-vec {found.vectors}.")]


@dataclass(frozen=True, slots=True)
class Database:
    """`size` in bytes, None where there is no file. `noted`: what looked damaged in it, for its next start.

    `checked_at`: seconds since 1970; `wrong`: what the last check left unrepaired. `refused`: why it cannot be read.
    """

    path: str
    size: int | None
    noted: str | None = None
    refused: KbsyncError | None = None
    checked_at: float | None = None
    wrong: tuple[str, ...] = ()
    is_busy: bool = False


def look_at_database(subject: Subject) -> list[Finding]:
    """Examine the database: by the daemon's answer, else by the file. Neither is locked or written."""
    from kbsync.store import damage
    from kbsync.store.glance import glance

    path, daemon = subject.places.database, subject.daemon
    size, noted = damage.size_of(path), damage.noted(path)
    if daemon.status is not None:
        at, wrong = _of_status(daemon.status.get("last_check") or {})
        found = Database(path, size, noted, None, at, wrong)
    elif not size or daemon.owner is not None:
        found = Database(path, size, noted, is_busy=daemon.owner is not None)
    else:
        try:
            at, wrong = glance(path, _of_file)
            found = Database(path, size, noted, None, at, wrong)
        except KbsyncError as error:
            found = Database(path, size, noted, error)
    return judge_database(found, subject.clock.now())


def judge_database(found: Database, now: float) -> list[Finding]:
    """Say whether the database can be read, and what the last check of it found. `now` in seconds since 1970."""
    if found.refused is not None:
        hint = found.refused.hint
        return [problem(found.refused.message, REPAIR if "check --repair" in hint else hint or REPAIR)]
    if found.noted is not None:
        return [problem(f"The database {found.path} looked damaged: {found.noted}.", REPAIR)]
    if found.size is None:
        return [fine(f"There is no database yet; the first start makes {found.path}.")]
    if found.wrong:
        return [problem(f"The last check found: {' '.join(found.wrong)}", REPAIR)]
    if found.is_busy:
        return [unknown(f"Another kbsync works on {found.path} just now.", "Run `kbsync doctor` when it has ended.")]
    megabytes = f"{found.size / 1e6:,.1f} MB"
    if found.checked_at is None:
        return [fine(f"{found.path}, {megabytes}; not checked yet, which `kbsync run` does once a day.")]
    if now - found.checked_at > _LONG_S:
        days = int((now - found.checked_at) / 86400)
        return [warning(f"{found.path} was checked {days} days ago, and all was whole.", "kbsync check")]
    return [fine(f"{found.path}, {megabytes}; the last check found all whole.")]


def _of_file(connection: Connection) -> tuple[float | None, tuple[str, ...]]:
    from kbsync.knowledge_base.checkup import last_problems
    from kbsync.store import meta, migrations

    if not migrations.accept(connection):
        return None, ()
    told = (meta.get(connection, meta.LAST_CHECK) or "").split()
    return float(told[0]) if told else None, tuple(one.detail for one in last_problems(connection) if not one.repaired)


def _of_status(check: Record) -> tuple[float | None, tuple[str, ...]]:
    problems: Sequence[Record] = check.get("problems") or ()
    at = check.get("at")
    wrong = tuple(str(one["detail"]) for one in problems if not one["repaired"])
    return None if at is None else datetime.fromisoformat(at).timestamp(), wrong


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])


def shown_size(path: str) -> int:
    """Return the bytes of a file and of those that SQLite lays beside it."""
    from kbsync.store.damage import COMPANIONS, size_of

    return sum(size_of(path + ending) or 0 for ending in COMPANIONS)


def nearest(folder: str) -> str:
    """Return a folder, or the first one above it that is there."""
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder):
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return folder
