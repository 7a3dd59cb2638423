"""`kbsync run`: the daemon in the foreground, with the HTTP API on its Unix socket and its port beside it."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import StopEngine
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import counted, line
from kbsync.interfaces.cli.reindex import said
from kbsync.interfaces.cli.wait import outcome_line

if TYPE_CHECKING:
    from kbsync.daemon.daemon import Daemon
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

# A signal is acted on within this many seconds.
_TICK_S = 0.2
# A command that holds the data folder is waited for this long.
_LOCK_WAIT_S = 60.0


class Signals:
    """What the operating system asked for. Handlers only set flags: anything more could deadlock the main thread."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop = True

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
        signals = Signals()
        signals.install()
        model_used = _serve(signals, once, sys.stderr.isatty() if progress is None else progress)
    if once and not model_used:
        raise typer.Exit(FAILED)


def _serve(signals: Signals, once: bool, show_progress: bool) -> bool:
    """Run the daemon until it is to end; return whether the model could be used, as far as it was needed."""
    from kbsync import log
    from kbsync.compose import build_daemon, open_engine
    from kbsync.config.settings import load_settings, unknown_variables
    from kbsync.daemon.lock import DataLock
    from kbsync.interfaces.cli.session import locations
    from kbsync.interfaces.http.app import build_app
    from kbsync.interfaces.http.door import open_door
    from kbsync.interfaces.http.server import Server
    from kbsync.interfaces.operations import Operations

    places = locations()
    settings = load_settings(places.config_file)
    for message in unknown_variables(os.environ):
        complain(message)
    places.make_folders()  # private before the lock makes one of them
    lock = DataLock(places.lock_file)
    lock.acquire("daemon", _LOCK_WAIT_S)
    try:
        log.configure(places.log_file, settings.log_level, terminal=True)
        places.forget_opened()
        engine = open_engine(places, settings)
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
                reindex = operations.reindex_status()
                if reindex["state"] != "idle":
                    complain(f"{said(reindex)}; search goes on meanwhile.")
                _turn(daemon, server, operations, signals, once, show_progress)
                return engine.batcher.error is None
            finally:
                # No new requests, then the loops from the front of the flow to its end, then what they write to.
                server.stop()
                places.forget_socket(socket_path)
                daemon.stop()
        finally:
            engine.close()
    finally:
        lock.release()


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
    daemon: Daemon, server: Server, operations: Operations, signals: Signals, once: bool, show_progress: bool
) -> None:
    from kbsync.interfaces.cli.progress import Progress

    begun = time.monotonic()
    ticket = daemon.rescan() if once else 0
    model = ModelWatch(daemon)
    bar = Progress(daemon.kb) if show_progress else None
    try:
        while not signals.stop:
            daemon.tick()
            if not server.alive():
                raise StopEngine("The HTTP server ended unexpectedly.", hint="The log tells why.")
            if signals.reload:
                signals.reload = False
                daemon.ask_reload()
            model.tell()
            if bar is not None:
                bar.update()
            if once and daemon.settled(ticket) and operations.reindex_status()["state"] != "running":
                break
            time.sleep(_TICK_S)
    finally:
        if bar is not None:
            bar.close()
    model.tell()
    if once:
        line(outcome_line({**operations.settled(ticket), "seconds": round(time.monotonic() - begun, 2)}))


class ModelWatch:
    """Says once that the model cannot be used, as soon as that is known."""

    def __init__(self, daemon: Daemon) -> None:
        self._batcher = daemon.loops.batcher
        self._told = False

    def tell(self) -> None:
        error = self._batcher.error
        if error is not None and not self._told:
            self._told = True
            complain(f"{error} Until then nothing new is indexed, and what is indexed is found by its words only.")
