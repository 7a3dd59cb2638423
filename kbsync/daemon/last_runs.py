"""When each job of the timetable ran last, kept in the database: a restart every morning puts nothing off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date

from kbsync.clock import written_moment
from kbsync.daemon.due import Run
from kbsync.store import meta
from kbsync.store.connection import Connection


def read(connection: Connection) -> dict[str, Run]:
    """Return the last runs by name; what cannot be read never was."""
    try:
        told = json.loads(meta.get(connection, meta.LAST_RUNS) or "{}")
        return {name: Run(written_moment(at), of and date.fromisoformat(of)) for name, (at, of) in told.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def since(connection: Connection, now: float) -> float:
    """Return when a daemon saw this database first, in seconds since 1970: that is noted the first time.

    One that lies ahead was written by a wrong clock, and is now.
    """
    try:
        noted = written_moment(meta.get(connection, meta.TIMETABLE_SINCE))
    except (ValueError, TypeError):
        noted = None
    if noted is None or noted > now:
        meta.put(connection, meta.TIMETABLE_SINCE, str(now))
        return now
    return noted


def write(connection: Connection, runs: Mapping[str, Run]) -> None:
    """Keep the last runs."""
    told = {name: (run.at, run.of and run.of.isoformat()) for name, run in runs.items()}
    meta.put(connection, meta.LAST_RUNS, json.dumps(told))
