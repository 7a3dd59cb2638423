"""A command's way to the knowledge base: through the daemon where one runs, else by itself under the same lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kbsync.config.locations import Locations, locate
from kbsync.daemon.lock import DataLock
from kbsync.errors import EngineBusy, IndexDamaged
from kbsync.interfaces.cli.client import running
from kbsync.interfaces.cli.exits import complain
from kbsync.interfaces.cli.remote import Remote

if TYPE_CHECKING:
    from kbsync.compose import Engine
    from kbsync.interfaces.operations import Operations

# Another command ends within this many seconds, or the user is told about it.
_LOCK_WAIT_S = 60.0


def locations() -> Locations:
    """Return where this user's things lie."""
    return locate(os.environ)


@contextmanager
def session(*, may_rebuild: bool = False) -> Iterator[Remote | Operations]:
    """Yield the running daemon, or the operations of an engine that this process opens and closes.

    `may_rebuild`: where that finds the database damaged, it sets it aside and makes another one.
    """
    with session_with_engine(may_rebuild=may_rebuild) as (operations, _engine):
        yield operations


@contextmanager
def session_with_engine(
    workers: int | None = None, *, may_rebuild: bool = False
) -> Iterator[tuple[Remote | Operations, Engine | None]]:
    """Yield (operations, engine); the engine is None where the daemon has it. `workers` beats the setting."""
    places = locations()
    client = running(places)
    if client is not None:
        yield Remote(client), None
        return
    places.make_folders()  # private before the lock makes one of them
    lock = DataLock(places.lock_file)
    try:
        lock.acquire("command", _LOCK_WAIT_S)
    except EngineBusy:
        client = running(places)  # a daemon began between the look and the lock
        if client is None:
            raise
        yield Remote(client), None
        return
    try:
        with _opened(places, workers, may_rebuild) as (operations, engine):
            yield operations, engine
    finally:
        lock.release()


@contextmanager
def _opened(places: Locations, workers: int | None, may_rebuild: bool) -> Iterator[tuple[Operations, Engine]]:
    from kbsync import log
    from kbsync.compose import open_engine
    from kbsync.config.settings import is_written, load_settings
    from kbsync.config.variables import SOURCES_VARIABLE
    from kbsync.interfaces.operations import Operations
    from kbsync.knowledge_base.restore import carry_through

    if (said := carry_through(places)) is not None:
        complain(said)
    settings = load_settings(places.config_file)
    if workers is not None:
        settings = settings.model_copy(update={"workers": workers})
    log.configure(places.log_file, settings.log_level, terminal=False)
    engine = open_engine(places, settings, may_rebuild=may_rebuild)
    try:
        # Sources that one command's environment names take nothing away from those in the file.
        by_file = is_written(places.config_file) and SOURCES_VARIABLE not in os.environ
        engine.kb.checkup.in_spite_of_full_text(lambda: engine.sources.follow(settings, forget=by_file))
        yield Operations(engine, None), engine
    except IndexDamaged:
        engine.kb.checkup.mend_full_text()  # as it says; the next command finds it whole
        raise
    finally:
        engine.close()
