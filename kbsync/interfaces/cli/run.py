"""`kbsync run`: the daemon in the foreground, with the HTTP API on its Unix socket and its port beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import (
    ConfigurationError,
    EngineBusy,
    KbsyncError,
    RetryLater,
    StopEngine,
    StorageUnavailable,
    UsageError,
)
from kbsync.interfaces.cli import surroundings
from kbsync.interfaces.cli.exits import BAD_CONFIGURATION, DONE, FAILED, USAGE, complain, errors_told
from kbsync.interfaces.cli.output import counted, line
from kbsync.interfaces.cli.reindex import said
from kbsync.interfaces.cli.signals import Signals
from kbsync.interfaces.cli.wait import outcome_line
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.compose import Engine
    from kbsync.config.locations import Locations
    from kbsync.config.settings import Settings
    from kbsync.daemon.daemon import Daemon
    from kbsync.daemon.lock import DataLock
    from kbsync.interfaces.cli.life import Life
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

# Everything is looked after this often: where somebody waits in front of it, and else. A signal ends every wait.
_TICK_S, _CALM_TICK_S = 0.2, 1.0
# A command that holds the data folder is waited for this long.
_LOCK_WAIT_S = 60.0
# Under a service manager, so is whatever else holds it, and for as long as it takes: looked at this often.
_BUSY_AGAIN_S = 5.0
# A start on a disk that cannot be used is tried again this often, and told about once in so many tries (10 minutes).
_START_AGAIN_S, _TRIES_BETWEEN_TOLD = 2.0, 300


def run(
    once: Annotated[bool, typer.Option("--once", help="End when everything is indexed.")] = False,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show a progress bar (default: on a terminal).")
    ] = None,
    service: Annotated[
        bool,
        typer.Option(
            "--service", help="As a service manager starts it: wait for another kbsync to end, and after early ends."
        ),
    ] = False,
    launchd: Annotated[
        bool, typer.Option("--launchd", hidden=True, help="End with 0 where another start would end in the same way.")
    ] = False,
) -> None:
    """Watch the configured folders and keep the index in step, until Ctrl+C or SIGTERM; SIGHUP reloads."""
    with _left_alone(launchd), errors_told():
        from kbsync.daemon.lock import DataLock
        from kbsync.daemon.log_rotation import Logs
        from kbsync.interfaces.cli.life import Life
        from kbsync.interfaces.cli.session import locations
        from kbsync.interfaces.service.notify import Notifier

        surroundings.never_wait_for_readers()
        signals = Signals()
        signals.install()
        places = locations()
        if launchd:
            Logs({}, (places.service_log,)).rotate()  # a daemon that never lives long leaves its messages too
        lock = DataLock(places.lock_file)
        early_ends_file = places.early_ends_file if service else None
        life = Life(lock, Notifier.taken_from(os.environ), signals.asked_to_stop, early_ends_file)
        try:
            life.begin(signals.wait)
            shows_progress = sys.stderr.isatty() if progress is None else progress
            model_used = signals.stop or _served(places, lock, life, signals, once, shows_progress)
            life.ended_in_order()
        except (ConfigurationError, UsageError) as error:
            life.ended_in_order()
            if life.is_served:
                _written_down(places, error)
            raise
        finally:
            lock.release()
            signals.ended()
    if once and not model_used:
        raise typer.Exit(FAILED)


@contextmanager
def _left_alone(launchd: bool) -> Iterator[None]:
    """Have launchd, which starts anew whatever ends with an error, leave alone what no other start would mend."""
    try:
        yield
    except typer.Exit as ended:
        if launchd and ended.exit_code in (USAGE, BAD_CONFIGURATION):
            raise typer.Exit(DONE) from None
        raise


def _written_down(places: Locations, error: KbsyncError) -> None:
    """Write why the service does not start into the log too: where no journal is kept, `service logs` shows that."""
    import structlog

    from kbsync import log

    log.configure(places.log_file, "info", terminal=False)
    structlog.stdlib.get_logger(__name__).error("start_refused", error=str(error))


def _served(places: Locations, lock: DataLock, life: Life, signals: Signals, once: bool, show_progress: bool) -> bool:
    """Serve as `_serve` does; where our own disk cannot be used from the beginning, as soon as it can."""
    tries = 0
    while True:
        try:
            return _serve(places, lock, life, signals, once, show_progress)
        except StorageUnavailable as error:
            if tries % _TRIES_BETWEEN_TOLD == 0:
                complain(f"{error} Until then kbsync waits; Ctrl+C ends it.")
            tries += 1
            # A full disk stays where it is; one that cannot be used otherwise must be free to go and come back.
            if error.reason is not Reason.NO_SPACE:
                lock.release()
            life.says(str(error), is_held_up=True)
        until = time.monotonic() + _START_AGAIN_S
        while time.monotonic() < until:
            if life.is_to_end():
                return True
            signals.wait(_TICK_S)


def _serve(places: Locations, lock: DataLock, life: Life, signals: Signals, once: bool, show_progress: bool) -> bool:
    """Run the daemon until it is to end; return whether the model could be used, as far as it was needed."""
    from kbsync import log
    from kbsync.config.settings import load_settings, unknown_variables
    from kbsync.knowledge_base.restore import carry_through

    settings = load_settings(places.config_file)
    for message in unknown_variables(os.environ):
        complain(message)
    places.make_folders()  # private before the lock makes one of them
    if not _taken(lock, life, signals):
        return True
    log.configure(places.log_file, settings.log_level, terminal=True)
    log.tell_the_end()
    places.forget_opened()
    if (said := carry_through(places)) is not None:
        complain(said)
    settings = load_settings(places.config_file)  # restored just now, or changed while another kbsync was waited for
    while (used := _live(places, settings, lock, life, signals, once, show_progress)) is None:
        complain("The embedding model is back, or another one now: starting anew with it.")
        settings = load_settings(places.config_file)
    return used


def _taken(lock: DataLock, life: Life, signals: Signals) -> bool:
    """Take the lock; return whether we have it: where we were told to end meanwhile, nobody has to.

    Raises EngineBusy. Under a service manager whoever else has it, a daemon too, is waited for: ours comes after it.
    """
    if lock.is_held:
        lock.keep()
        return True
    while True:
        try:
            lock.acquire("daemon", _LOCK_WAIT_S, life.is_to_end)
            return True
        except EngineBusy as busy:
            if signals.stop:
                return False
            if not life.is_served:
                raise
            life.says(f"waiting for another kbsync to end: {busy.message}")
        until = time.monotonic() + _BUSY_AGAIN_S
        while time.monotonic() < until and not life.is_to_end():
            signals.wait(_CALM_TICK_S)


def _live(
    places: Locations,
    settings: Settings,
    lock: DataLock,
    life: Life,
    signals: Signals,
    once: bool,
    show_progress: bool,
) -> bool | None:
    """Open an engine and run it to its end; return as `_serve`, None where it is to be opened anew for its model."""
    from kbsync.compose import build_daemon, open_engine
    from kbsync.interfaces.http.app import build_app
    from kbsync.interfaces.http.door import open_door
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

    try:
        life.says("getting ready")
        engine = open_engine(
            places, settings, ends=life.is_to_end, may_rebuild=True, models_apart=True, tells=life.says
        )
    except RetryLater:
        if signals.stop:
            return True  # told to end before it was there, in the middle of a migration perhaps
        raise
    try:
        daemon = build_daemon(engine, rests=not once)
        socket_path = places.socket_path()
        door, shut = open_door(settings.http, places.token_file)
        if shut is not None:
            complain(shut)
        endpoints = [f"unix:{socket_path}"] if door is None else [door.url, f"unix:{socket_path}"]
        operations = Operations(engine, daemon, endpoints, [] if shut is None else [shut])
        server = Server(build_app(operations, None if door is None else door.access), socket_path, door)
        try:
            daemon.start()
            server.start()
            life.stands(socket_path, _hello(len(settings.sources)))
            _say_hello(len(settings.sources), once)
            if (set_aside := engine.kb.set_aside(places.data_dir)) is not None:
                complain(set_aside)
            reindex = operations.reindex_status()
            if reindex["state"] != "idle":
                complain(f"{said(reindex)}; search goes on meanwhile.")
            _turn(engine, lock, daemon, server, operations, life, signals, once, show_progress)
            if _is_to_start_anew(daemon, signals):
                return None
            return engine.embedders.problem() is None and engine.batcher.error is None
        finally:
            if not _is_to_start_anew(daemon, signals):
                signals.end_in_time()
                life.stops()
            # No new requests, then the loops from the front of the flow to its end, then what they write to.
            server.stop()
            places.forget_socket(socket_path)
            daemon.stop()
    finally:
        engine.close()


def _is_to_start_anew(daemon: Daemon, signals: Signals) -> bool:
    return daemon.wants_restart and not signals.stop


def _hello(folders: int) -> str:
    return f"watching {counted(folders, 'folder')}" if folders else "no folder is watched yet"


def _say_hello(folders: int, once: bool) -> None:
    if once and folders:
        complain(f"looking through {counted(folders, 'folder')}; it ends when everything is indexed.")
    elif once:
        complain("no folder is configured; `kbsync sources add FOLDER` adds one.")
    elif folders:
        complain(f"{_hello(folders)}; Ctrl+C ends it.")
    else:
        complain(f"{_hello(folders)}; `kbsync sources add FOLDER` adds one. Ctrl+C ends this.")


def _turn(
    engine: Engine,
    lock: DataLock,
    daemon: Daemon,
    server: Server,
    operations: Operations,
    life: Life,
    signals: Signals,
    once: bool,
    show_progress: bool,
) -> None:
    from kbsync.interfaces.cli.progress import Progress

    begun = time.monotonic()
    ticket = daemon.rescan() if once else 0
    watch = EngineWatch(engine)
    bar = Progress(daemon.kb) if show_progress else None
    try:
        while not signals.stop:
            if signals.reload:
                signals.reload = False
                life.reloads()
                daemon.ask_reload()
            daemon.tick()
            lock.keep()
            server.keep()
            if not server.alive():
                raise StopEngine("The HTTP server ended unexpectedly.", hint="The log tells why.")
            life.turns(_hello(len(engine.sources.all())))
            watch.tell()
            if bar is not None:
                bar.update()
            if once and daemon.settled(ticket) and operations.reindex_status()["state"] != "running":
                break
            # What waits for a model would keep `--once` for ever.
            if (once and daemon.held_up(ticket) is not None) or (not once and daemon.wants_restart):
                break
            signals.wait(_TICK_S if once or bar is not None else _CALM_TICK_S)
    finally:
        if bar is not None:
            bar.close()
    watch.tell()
    if once:
        line(outcome_line({**operations.settled(ticket), "seconds": round(time.monotonic() - begun, 2)}))


class EngineWatch:
    """Says once what cannot be used as it was meant to be, as soon as that is known: the model, its devices, more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: set[str] = set()

    def tell(self) -> None:
        from kbsync.interfaces.notices import of_model

        problem = self._engine.embedders.problem() or self._engine.batcher.error
        found = self._engine.shortcomings() if problem is None else [of_model(problem), *self._engine.shortcomings()]
        for sentence in found:
            if sentence not in self._told:
                self._told.add(sentence)
                complain(sentence)
