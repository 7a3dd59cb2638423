"""A real daemon at work on a folder, told by its standard input what to do next: `python -m tests.faults.day_of_work`.

Arguments: its home and the folder. A line on the input is a thing to do; `done` on the output says that all is settled.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kbsync.compose import build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.model import IngestOptions
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams


def configure(home: Path, folder: str, more: str = "") -> None:
    home.mkdir(exist_ok=True)
    text = f"quiet_s = 0.2\nrescan_s = 3600\n[[sources]]\npath = {json.dumps(folder)}\n{more}\n"
    (home / "config.toml").write_text(text)


def settle(daemon: Daemon) -> None:
    ticket = daemon.rescan()
    while not daemon.settled(ticket):
        daemon.tick()
        time.sleep(0.02)


def started(home: Path) -> Daemon:
    locations = locate({"KBSYNC_HOME": str(home)})
    settings = load_settings(locations.config_file)
    daemon = build_daemon(open_engine(locations, settings, hashed_seams(HashDevice())))
    daemon.start()
    return daemon


def do(daemon: Daemon, deed: str, home: Path, folder: str) -> Daemon:
    """Do one thing and return the daemon that runs after it."""
    if deed == "restart":
        daemon.stop()
        return started(home)
    if deed == "leave out":
        configure(home, folder, 'ignore = ["*.csv"]\nocr = "always"')
        daemon.reload()
    elif deed == "take in":
        configure(home, folder)
        daemon.reload()
    elif deed == "add":
        for path in sorted(Path(folder).rglob("[0-9]*.md")):
            daemon.kb.adding.add_file(str(path), IngestOptions())
    elif deed == "remove":
        for document, _ in daemon.kb.documents()[0][:3]:
            daemon.kb.remove_document(document.id)
    elif deed == "search":
        for document, held in daemon.kb.documents()[0]:
            daemon.kb.search(document.title)
            for name in held:
                daemon.kb.why(name)
    elif deed != "settle":
        raise ValueError(deed)
    return daemon


def main() -> None:
    home, folder = Path(sys.argv[1]), sys.argv[2]
    configure(home, folder)
    daemon = started(home)
    for line in sys.stdin:
        daemon = do(daemon, line.strip(), home, folder)
        settle(daemon)
        print("done", *sorted({row.state for row in daemon.kb.sources()[0]}), len(daemon.kb.documents()[0]), flush=True)
    daemon.stop()


if __name__ == "__main__":
    main()
