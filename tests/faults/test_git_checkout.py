"""W12, F18: a large repository is checked out to and fro while somebody searches: nothing flashes, nothing is held.

Real disk, real watcher, real threads; only the model is a hash of words.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import structlog

from kbsync.compose import Engine, build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.store.connection import Connection
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams
from tests.faults.made_repository import FILES, git, in_both, make_repository, on_main, on_other, word_of

ROUNDS = 10
_PATIENCE_S = 200.0
# Between two looks of the one who searches: a moment in which something is not found is longer.
_LOOK_S = 0.02

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@contextmanager
def running(home: Path, root: Path, device: HashDevice) -> Iterator[tuple[Engine, Daemon]]:
    home.mkdir()
    locations = locate({"KBSYNC_HOME": str(home)})
    Path(locations.config_file).write_text(f"[[sources]]\npath = '{root}'\n", encoding="utf-8")
    engine = open_engine(locations, load_settings(locations.config_file), hashed_seams(device))
    daemon = build_daemon(engine)
    daemon.start()
    try:
        yield engine, daemon
    finally:
        daemon.stop()
        engine.close()


def settle(daemon: Daemon) -> None:
    ticket, until = daemon.rescan(), time.monotonic() + _PATIENCE_S
    while not daemon.settled(ticket):
        daemon.tick()
        assert time.monotonic() < until, "it never settles"
        time.sleep(0.05)


def read(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    def rows(connection: Connection) -> list[tuple[Any, ...]]:
        return connection.execute(sql).fetchall()

    return engine.readers.read(rows)


def index(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is current, in a form that two moments can be compared in."""
    return {
        "paths": read(
            engine,
            "SELECT path, content_hash, title FROM origins JOIN documents ON documents.id = document_id "
            "WHERE live = 1 ORDER BY 1",
        ),
        "chunks": read(
            engine,
            "SELECT content_hash, position, enriched_text FROM chunks JOIN documents ON documents.id = document_id "
            "WHERE state = 'current' ORDER BY 1, 2",
        ),
        "files": read(engine, "SELECT path, state, content_hash FROM files WHERE state <> 'gone' ORDER BY 1"),
    }


class Watcher:
    """Searches all the time for what both branches hold, and remembers what was not found and what was held."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.searches = 0
        self.missed: list[str] = []

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        both = ", ".join(f"'{row}'" for row in self._hashes())
        for number in cycle(in_both()[::7]):
            if self._stop.wait(_LOOK_S):
                return
            if not self._engine.kb.search(word_of(number), "lexical").hits:
                self.missed.append(f"{word_of(number)} is not found")
            gone = read(
                self._engine,
                f"SELECT title, state FROM documents WHERE content_hash IN ({both}) AND state <> 'current'",
            )
            held = read(self._engine, "SELECT state, reason, detail FROM sources WHERE state IN ('held', 'paused')")
            self.missed += [str(row) for row in [*gone, *held]]
            self.searches += 1

    def _hashes(self) -> list[str]:
        first = in_both()[0]
        rows = read(self._engine, "SELECT content_hash, path FROM documents JOIN origins ON documents.id = document_id")
        return [row[0] for row in rows if int(Path(row[1].decode()).stem) >= first]


def test_branches_checked_out_to_and_fro_leave_the_index_of_a_clean_run(
    tmp_path: Path, home: Path, told: Callable[[str], None]
) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    root, device = tmp_path / "repository", HashDevice()
    make_repository(root)
    main, other = on_main(), on_other()
    assert len(main) == FILES
    assert len(main) - len(other) < 0.3 * FILES
    with running(home / "kbsync", root, device) as (engine, daemon):
        settle(daemon)
        clean = index(engine)
        assert len(clean["paths"]) == FILES, "the first run over the folder is a clean one"
        begun = time.monotonic()
        with Watcher(engine) as watcher:
            for branch in ("other", "main") * ROUNDS:
                git(root, "checkout", "--quiet", branch)
                daemon.tick()
            settle(daemon)
            seconds = time.monotonic() - begun
        reached, problems = index(engine), engine.kb.check()
        texts = [text for texts, query in device.batches if not query for text in texts]
    told(f"{2 * ROUNDS} checkouts of {FILES} files: settled after {seconds:.0f} s, {watcher.searches} searches beside")
    assert watcher.missed == []
    assert watcher.searches > 20
    assert problems == []
    assert reached == clean
    # What was just being read when it changed comes too late, and is embedded again should it come back.
    assert len(texts) - len(set(texts)) < FILES / 100, "nothing else is embedded twice"
