"""Indexes a folder with the real engine in a process that is short of everything; prints how much it took.

`python -m tests.faults.squeezed FOLDER HOME [MEGABYTES]`: with a number all threads share one core with two programs
that take all they get, and memory ends there.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_RIVALS = 2
_PATIENCE_S = 120.0


@contextmanager
def rivals(count: int) -> Iterator[None]:
    """Have programs of no use run beside this one, on the same cores."""
    with ExitStack() as stack:
        for _ in range(count):
            rival = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(rival.kill)
        yield


def main(folder: Path, home: Path, megabytes: int | None) -> None:
    """Print {"queued": the most jobs at once, "resident": bytes at the most}."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(f"[[sources]]\npath = {json.dumps(str(folder))}\n", encoding="utf-8")
    if megabytes is not None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    with rivals(0 if megabytes is None else _RIVALS):
        from kbsync.compose import build_daemon, open_engine
        from kbsync.config.locations import locate
        from kbsync.config.settings import load_settings
        from tests.fakes.hash_embedder import HashDevice
        from tests.fakes.hashed_seams import hashed_seams

        places = locate({"KBSYNC_HOME": str(home)})
        engine = open_engine(places, load_settings(places.config_file), hashed_seams(HashDevice()))
        daemon = build_daemon(engine)
        daemon.start()
        ticket, until, queued = daemon.rescan(), time.monotonic() + _PATIENCE_S, 0
        while not daemon.settled(ticket):
            daemon.tick()
            queued = max(queued, engine.kb.unsettled())
            assert time.monotonic() < until, "it does not settle"
            time.sleep(0.05)
        assert engine.kb.check() == []
        daemon.stop()
        engine.close()
    # Not what getrusage says: that counts what the process was a copy of before it became this one.
    told = Path("/proc/self/status").read_text(encoding="ascii")
    resident = int(told.partition("VmHWM:")[2].split()[0]) << 10
    sys.stdout.write("\n" + json.dumps({"queued": queued, "resident": resident}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
