"""`kbsync run`: the daemon in the foreground, with the HTTP API on its Unix socket and its port beside it."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import EngineBusy, RetryLater, StopEngine, StorageUnavailable
from kbsync.interfaces.cli import surroundings
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import counted, line
from kbsync.interfaces.cli.reindex import said
from kbsync.interfaces.cli.wait import outcome_line

if TYPE_CHECKING:
    from kbsync.compose import Engine
    from kbsync.config.locations import Locations
    from kbsync.config.settings import Settings
    from kbsync.daemon.daemon import Daemon
    from kbsync.daemon.lock import DataLock
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

# Everything is looked after this often: where somebody waits in front of it, and else. A signal ends every wait.
_TICK_S, _CALM_TICK_S = 0.2, 1.0
# A command that holds the data folder is waited for this long.
_LOCK_WAIT_S = 60.0
# A start on a disk that cannot be used is tried again this often, and told about once in so many tries (10 minutes).
_START_AGAIN_S, _TRIES_BETWEEN_TOLD = 2.0, 300
# What has not ended by then after a signal never will: the process ends all the same, and the next start puts right
# what it left, as after a crash.
_END_S = 9.5


class Signals:
    """What the operating system asked for. Handlers only set flags: anything more could deadlock the main thread."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._timed = False
        self._rung: int | None = None

    def asked_to_stop(self) -> bool:
        return self.stop

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        # A handler cannot wake who sleeps; the interpreter writes into this pipe as soon as a signal comes.
        self._rung, ringing = os.pipe()
        for descriptor in (self._rung, ringing):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(ringing, warn_on_full_buffer=False)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes."""
        if self._rung is None:
            time.sleep(seconds)
        elif select.select([self._rung], [], [], seconds)[0]:
            os.read(self._rung, 512)

    def end_in_time(self) -> None:
        """Have the process end within `_END_S` seconds from now, whatever hangs: it tells where, then exits with 1.

        The timer is no Python and needs no lock. From the first call on it runs; a second one changes nothing.
        """
        if not self._timed:
            self._timed = True
            try:
                told = surroundings.opened_anew(2)  # a pipe that nobody empties would hold up the timer as well
            except OSError:
                # Some have closed their stderr; the timer insists on a file.
                told = os.dup(2) if _is_open(2) else os.open(os.devnull, os.O_WRONLY)
            faulthandler.dump_traceback_later(_END_S, exit=True, file=told)

    def ended(self) -> None:
        """All has ended in time."""
        if self._timed:
            self._timed = False
            faulthandler.cancel_dump_traceback_later()

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop = True
        self.end_in_time()

    def _on_reload(self, _number: int, _frame: object) -> None:
        self.reload = True


def run(
    once: Annotated[bool, typer.Option("--once", help="End when everything is indexed.")] = False,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show a progress bar (default: on a terminal).")
    ] = None,
) -> None:
    """Watch the configured folders and keep the index in step, until Ctrl+C or SIGTERM; SIGHUP reloads."""
    with errors_told():
        surroundings.never_wait_for_readers()
        signals = Signals()
        signals.install()
        model_used = _served(signals, once, sys.stderr.isatty() if progress is None else progress)
    if once and not model_used:
        raise typer.Exit(FAILED)


def _served(signals: Signals, once: bool, show_progress: bool) -> bool:
    """Serve as `_serve` does; where our own disk cannot be used from the beginning, as soon as it can."""
    tries = 0
    while True:
        try:
            return _serve(signals, once, show_progress)
        except StorageUnavailable as error:
            if tries % _TRIES_BETWEEN_TOLD == 0:
                complain(f"{error} Until then kbsync waits; Ctrl+C ends it.")
            tries += 1
        until = time.monotonic() + _START_AGAIN_S
        while time.monotonic() < until:
            if signals.stop:
                signals.ended()
                return True
            signals.wait(_TICK_S)


def _serve(signals: Signals, once: bool, show_progress: bool) -> bool:
    """Run the daemon until it is to end; return whether the model could be used, as far as it was needed."""
    from kbsync import log
    from kbsync.config.settings import load_settings, unknown_variables
    from kbsync.daemon.lock import DataLock
    from kbsync.interfaces.cli.session import locations
    from kbsync.knowledge_base.restore import carry_through

    places = locations()
    settings = load_settings(places.config_file)
    for message in unknown_variables(os.environ):
        complain(message)
    places.make_folders()  # private before the lock makes one of them
    lock = DataLock(places.lock_file)
    try:
        lock.acquire("daemon", _LOCK_WAIT_S, signals.asked_to_stop)
    except EngineBusy:
        if signals.stop:
            return True
        raise
    try:
        log.configure(places.log_file, settings.log_level, terminal=True)
        places.forget_opened()
        if (said := carry_through(places)) is not None:
            complain(said)
            settings = load_settings(places.config_file)
        while (used := _live(places, settings, lock, signals, once, show_progress)) is None:
            complain("The embedding model is back, or another one now: starting anew with it.")
            lock.publish("daemon", None)
            settings = load_settings(places.config_file)
        return used
    finally:
        lock.release()
        signals.ended()


def _live(
    places: Locations, settings: Settings, lock: DataLock, signals: Signals, once: bool, show_progress: bool
) -> bool | None:
    """Open an engine and run it to its end; return as `_serve`, None where it is to be opened anew for its model."""
    from kbsync.compose import build_daemon, open_engine
    from kbsync.interfaces.http.app import build_app
    from kbsync.interfaces.http.door import open_door
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

    try:
        engine = open_engine(places, settings, ends=signals.asked_to_stop, may_rebuild=True)
    except RetryLater:
        if signals.stop:
            return True  # told to end before it was there, in the middle of a migration perhaps
        raise
    try:
        daemon = build_daemon(engine)
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
            lock.publish("daemon", socket_path)
            _say_hello(len(settings.sources), once)
            if (set_aside := engine.kb.set_aside(places.data_dir)) is not None:
                complain(set_aside)
            reindex = operations.reindex_status()
            if reindex["state"] != "idle":
                complain(f"{said(reindex)}; search goes on meanwhile.")
            _turn(engine, lock, daemon, server, operations, signals, once, show_progress)
            if _is_to_start_anew(daemon, signals):
                return None
            return engine.embedders.problem() is None and engine.batcher.error is None
        finally:
            if not _is_to_start_anew(daemon, signals):
                signals.end_in_time()
            # No new requests, then the loops from the front of the flow to its end, then what they write to.
            server.stop()
            places.forget_socket(socket_path)
            daemon.stop()
    finally:
        engine.close()


def _is_to_start_anew(daemon: Daemon, signals: Signals) -> bool:
    return daemon.wants_restart and not signals.stop


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _say_hello(folders: int, once: bool) -> None:
    if once and folders:
        complain(f"looking through {counted(folders, 'folder')}; it ends when everything is indexed.")
    elif once:
        complain("no folder is configured; `kbsync sources add FOLDER` adds one.")
    elif folders:
        complain(f"watching {counted(folders, 'folder')}; Ctrl+C ends it.")
    else:
        complain("no folder is watched yet; `kbsync sources add FOLDER` adds one. Ctrl+C ends this.")


def _turn(
    engine: Engine,
    lock: DataLock,
    daemon: Daemon,
    server: Server,
    operations: Operations,
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
            daemon.tick()
            lock.keep()
            server.keep()
            if not server.alive():
                raise StopEngine("The HTTP server ended unexpectedly.", hint="The log tells why.")
            if signals.reload:
                signals.reload = False
                daemon.ask_reload()
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
