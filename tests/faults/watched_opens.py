"""A day of the real engine in a process of its own, whose every open() is watched; prints those of the database.

Its data lie in the very folder that it follows: walks, watchers and hashing come by the database again and again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_NAMES = frozenset("kb.sqlite3" + ending for ending in ("", "-wal", "-shm", "-journal"))
# Whatever opens a file by its name tells it first; SQLite's own calls are not Python's.
_EVENTS = frozenset(("open", "os.truncate", "os.link", "os.rename", "shutil.copyfile", "shutil.move"))
_PATIENCE_S = 60.0


def watched() -> list[str]:
    """Return the list in which every such call will stand from now on."""
    found: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            if os.path.basename(path) in _NAMES:
                found.append(f"{event} {path}")

    sys.addaudithook(hook)
    return found


def main(home: Path) -> None:
    """Index, change, search, check, purge, reindex and restart; print {"opens": [...], "documents": n}."""
    opens = watched()
    from kbsync.compose import build_daemon, open_engine
    from kbsync.config.locations import locate
    from kbsync.config.settings import load_settings
    from tests.fakes.hash_embedder import HashDevice
    from tests.fakes.hashed_seams import hashed_seams

    places = locate({"KBSYNC_HOME": str(home)})
    folder = home.parent
    (home / "config.toml").write_text(f"[[sources]]\npath = {json.dumps(str(folder))}\n", encoding="utf-8")
    documents = 0
    for life in range(2):
        engine = open_engine(places, load_settings(places.config_file), hashed_seams(HashDevice()))
        daemon = build_daemon(engine)
        daemon.start()
        for number in range(20):
            (folder / f"{life}-{number}.md").write_text(f"# Note {number}\n\nThe medlar number {number} of {life}.\n")
        if life:
            (folder / "0-3.md").rename(folder / "moved.md")
            (folder / "0-4.md").unlink()
        ticket, until = daemon.rescan(), time.monotonic() + _PATIENCE_S
        while not daemon.settled(ticket):
            daemon.tick()
            assert time.monotonic() < until, "it does not settle"
            time.sleep(0.02)
        assert engine.kb.search("medlar").hits
        assert engine.kb.check() == []
        engine.kb.retention.purge()
        documents = engine.kb.documents()[1]
        daemon.stop()
        engine.close()
    print(json.dumps({"opens": opens, "documents": documents}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
