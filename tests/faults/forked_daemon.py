"""Real daemons that begin in no time, to be killed: `python -m tests.faults.forked_daemon`.

The process imports everything once, starts no thread, and for each line on its standard input (JSON: `home`, `trouble`)
forks a `kbsync run`, one at a time: the whole program, with a hash of words for the model and a cheap converter in its
real child. On its output: `begun PID`, `ended STATUS`, and `forked` where a daemon with threads forked once more.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbsync.compose import Engine, Seams
    from kbsync.config.locations import Locations
    from kbsync.config.settings import Settings
    from kbsync.filesystem import RealOpenFile
    from kbsync.model import Conversion, ConversionRequest

_PR_SET_PDEATHSIG = 1
# A document that begins so takes for ever, or longer than an orphan may live; one of this name kills whoever opens it.
HANGS, NAPS, POISON = b"hang", b"# nap", "poison.md"
_NAP_S = 3
# In the data folder: the statement that never ends has begun.
ASKED = "asked"
_ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


def convert(request: ConversionRequest) -> Conversion:
    """Do as the fakes' cage does, in a real child."""
    from tests.fakes.reading_cage import ReadingCage

    with open(request.kept or request.path, "rb") as file:
        begin = file.read(len(NAPS))
    if begin.startswith((HANGS, NAPS)) and not request.kept:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # In native code, with the interpreter's lock.
        ctypes.PyDLL(None).sleep(_NAP_S if begin == NAPS else 1_000)
    return ReadingCage().run(request, 0.0)


def seams() -> Seams:
    """Return the real disk, clock, watchers and cage, and a model that costs nothing."""
    from kbsync.clock import SystemClock
    from kbsync.filesystem import RealFileSystem
    from kbsync.pipelines.isolation import Cage
    from kbsync.pipelines.isolation_plan import Slots
    from tests.fakes.hash_embedder import HashDevice
    from tests.fakes.hashed_seams import hashed_seams

    class Deadly(RealFileSystem):
        def open_file(self, path: str) -> RealOpenFile:
            if os.path.basename(path) == POISON:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().open_file(path)

    def cage(_slots: Slots, folder: str) -> Cage[ConversionRequest, Conversion]:
        return Cage(convert, Slots(2, 1), folder, SystemClock())

    return replace(hashed_seams(HashDevice()), fs=Deadly(), make_cage=cage)


# ---- what is wrong with a daemon from its start ----


def _ask_for_ever(engine: Engine) -> None:
    import threading

    from kbsync.errors import RetryLater
    from kbsync.store.connection import Connection

    def endless(connection: Connection) -> object:
        open(os.path.join(engine.locations.data_dir, ASKED), "x").close()
        return connection.execute(_ENDLESS).get

    def ask() -> None:
        while not os.path.exists(engine.locations.socket_path()):
            time.sleep(0.01)
        with suppress(RetryLater):
            engine.writer.run_alone(endless)

    threading.Thread(target=ask, daemon=True).start()


def _hang_in_stop(_engine: Engine) -> None:
    from kbsync.daemon.daemon import Daemon

    def hang_in_stop(_self: Daemon) -> None:
        time.sleep(1_000)

    _replace(Daemon, "stop", hang_in_stop)


def _writer_dies(engine: Engine) -> None:
    def listener(_jobs: frozenset[int]) -> None:
        raise RuntimeError("a mistake in the program")

    engine.writer.listen(listener)


def _embedder_dies(engine: Engine) -> None:
    _replace(engine.batcher, "_next_batch", _fail)


def _producer_dies(_engine: Engine) -> None:
    from kbsync.daemon.producer import Producer

    _replace(Producer, "step", _fail)


def _scheduler_dies(_engine: Engine) -> None:
    from apscheduler.schedulers.base import BaseScheduler

    _replace(BaseScheduler, "_process_jobs", _fail)


def _server_dies(_engine: Engine) -> None:
    import uvicorn

    _replace(uvicorn.Server, "main_loop", _fail)


def _replace(owner: Any, name: str, deed: Callable[..., object]) -> None:
    setattr(owner, name, deed)


def _fail(*_arguments: object) -> Any:
    raise RuntimeError("a mistake in the program")


def _migrate_for_ever() -> None:
    from kbsync.store import migrations

    known = migrations.migrations
    _replace(migrations, "migrations", lambda: [*known(), (9999, "endless", _ENDLESS)])


# Done before its engine is opened, or after.
_BEFORE: Mapping[str, Callable[[], None]] = {"endless migration": _migrate_for_ever}
_AFTER: Mapping[str, Callable[[Engine], None]] = {
    "endless statement": _ask_for_ever,
    "hangs at its end": _hang_in_stop,
    "writer dies": _writer_dies,
    "embedder dies": _embedder_dies,
    "producer dies": _producer_dies,
    "scheduler dies": _scheduler_dies,
    "server dies": _server_dies,
}


def _live(home: str, trouble: str) -> None:
    """Be a daemon, in the forked process: never returns normally."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    told = os.dup(1)
    os.set_inheritable(told, False)
    messages = os.open(os.path.join(home, "daemon-messages"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (messages, 1), (messages, 2)):
        os.dup2(descriptor, standard)
    os.environ["KBSYNC_HOME"] = home
    sys.argv = ["kbsync", "run", "--no-progress"]

    from kbsync import compose
    from kbsync.__main__ import main

    real = compose.open_engine

    def open_engine(locations: Locations, settings: Settings, **options: Any) -> Engine:
        if trouble in _BEFORE:
            _BEFORE[trouble]()
        engine = real(locations, settings, seams(), **options)
        if trouble in _AFTER:
            _AFTER[trouble](engine)
        os.register_at_fork(before=lambda: os.write(told, b"forked\n"))
        return engine

    _replace(compose, "open_engine", open_engine)
    main()


def _import_all() -> None:
    """Import what a daemon imports, so that it need not."""
    import apscheduler.schedulers.base
    import pebble
    import psutil
    import sqlite_vec
    import uvicorn.loops.auto
    import uvicorn.protocols.http.h11_impl
    import watchdog.observers

    import kbsync.compose
    import kbsync.daemon.lock
    import kbsync.interfaces.cli.app
    import kbsync.interfaces.cli.session
    import kbsync.interfaces.http.app
    import kbsync.interfaces.http.server
    import kbsync.interfaces.operations

    assert all((apscheduler, pebble, psutil, sqlite_vec, uvicorn, watchdog, kbsync))
    seams()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def serve() -> int:
    """Fork a daemon for each line; return when there are no more lines, the last daemon killed."""
    _import_all()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork beside threads may hang"
    pending = b""
    while line := pending or os.read(0, 1 << 16):
        pending = b""
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                _live(order["home"], order["trouble"])
            except SystemExit as ended:
                return int(ended.code or 0)
            return 0
        _say(f"begun {pid}")
        handle = os.pidfd_open(pid)
        readable, _, _ = select.select([handle, 0], [], [])
        if 0 in readable and not (pending := os.read(0, 1 << 16)):
            os.kill(pid, signal.SIGKILL)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")
    return 0


if __name__ == "__main__":
    sys.exit(serve())
