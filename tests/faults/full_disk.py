"""A disk that is filled to its last byte again and again while the whole engine works on it, and freed again.

`python -m tests.faults.full_disk DISK FOLDER SEED MOMENTS` runs in a mount namespace of its own, where DISK is a small
tmpfs for kbsync's home and FOLDER, elsewhere, holds the watched folders. It prints what it saw as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kbsync import failpoints, log
from kbsync.compose import Engine, build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.errors import StorageUnavailable
from kbsync.model import IngestOptions
from tests.fakes.eventually import eventually
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams

# Where the disk becomes full: any of these places, at a seeded hit.
MOMENTS = (
    "producer.flushed",
    "queue.inserted",
    "queue.leased",
    "worker.claimed",
    "worker.ended",
    "writer.asked",
    "writer.begun",
    "writer.worked",
    "writer.committed",
    "stored_files.staged",
    "stored_files.staged_synced",
    "stored_files.linked",
    "stored_files.documents_synced",
    "kept_conversions.written",
)
_WORDS = [
    "alder",
    "birch",
    "cedar",
    "fir",
    "hazel",
    "juniper",
    "larch",
    "maple",
    "oak",
    "pine",
    "quince",
    "rowan",
    "spruce",
    "willow",
    "yew",
]
_SETTINGS = "workers = 2\nquiet_s = 0.2\nrescan_s = 5.0\n"
_TICK_S = 0.05
# It stays as it is, and is searched for all the time.
_ALWAYS = "always.md"


@dataclass(slots=True)
class Seen:
    """What was done and what became of it."""

    moments: int = 0
    at_named_places: int = 0
    told: int = 0
    refused_by_hand: int = 0
    searches: int = 0
    documents: int = 0
    attempts: int = 0
    log_lines: int = 0
    longest_wait_s: float = 0.0
    problems: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class Ballast:
    """Fills a disk to its last byte, and frees it."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "ballast"

    def fill(self, *, leave: int = 0) -> None:
        """Take all room, then give so many bytes back."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        block = 1 << 20
        try:
            while block:
                try:
                    os.write(descriptor, b"\0" * block)
                except OSError:
                    block //= 2
            os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - leave))
        finally:
            os.close(descriptor)

    def free(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)


class Filler:
    """Fills the disk in whichever thread comes to the armed place."""

    def __init__(self, ballast: Ballast) -> None:
        self._ballast = ballast
        self._lock = threading.Lock()
        self._armed: tuple[str, int] | None = None
        self.filled = threading.Event()

    def arm(self, name: str, hit: int) -> None:
        self.filled.clear()
        self._armed = name, hit

    def fill(self) -> None:
        with self._lock:
            self._armed = None
            self._ballast.fill()
            self.filled.set()

    def came(self, name: str) -> None:
        armed = self._armed
        if armed is None or armed[0] != name:
            return
        with self._lock:
            if self._armed != armed:
                return
            if armed[1] > 1:
                self._armed = name, armed[1] - 1
                return
            self._armed = None
            self._ballast.fill()
            self.filled.set()


class Life:
    """A whole engine over two folders: its threads, its watchers, the model a hash of words."""

    def __init__(self, home: Path, folder: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        sources = f'[[sources]]\npath = "{folder}/notes"\n\n[[sources]]\npath = "{folder}/inbox"\nmode = "inbox"\n'
        (home / "config.toml").write_text(_SETTINGS + sources)
        places = locate({"KBSYNC_HOME": str(home)})
        self.settings = load_settings(places.config_file)
        self.log_file = Path(places.log_file)
        log.configure(places.log_file, "info", terminal=False)
        seams = hashed_seams(HashDevice())
        self.engine: Engine = open_engine(places, self.settings, seams)
        self.daemon: Daemon = build_daemon(self.engine)
        self.daemon.start()

    def until(self, looked: Callable[[], bool], within_s: float = 30.0) -> float:
        """Turn until it is so; return after how many seconds."""
        begun = time.monotonic()

        def turned() -> bool:
            self.daemon.tick()
            return looked()

        eventually(turned, within_s=within_s, every_s=_TICK_S)
        return time.monotonic() - begun

    def settle(self) -> None:
        ticket = self.daemon.rescan()
        self.until(lambda: self.daemon.settled(ticket), 60.0)

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        return self.engine.readers.read(lambda connection: connection.execute(sql).fetchall())

    def index(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what is found of the followed folder, of what was added and noted, in a form to be compared."""
        [(table,)] = self.read("SELECT id FROM embedders")
        held = (
            "(SELECT DISTINCT d.* FROM documents d JOIN origins o ON o.document_id = d.id AND o.live = 1 "
            "AND o.kind <> 'inbox' WHERE d.state = 'current')"
        )
        return {
            "documents": self.read(f"SELECT content_hash, title, type, language, reason FROM {held} ORDER BY 1"),
            "paths": self.read(
                "SELECT o.kind, o.path, d.content_hash FROM origins o JOIN documents d ON d.id = o.document_id "
                "WHERE o.live = 1 AND o.kind <> 'inbox' ORDER BY 1, 2, 3"
            ),
            "chunks": self.read(
                f"SELECT d.content_hash, c.position, c.text, c.enriched_text, v.embedding FROM {held} d "
                f"JOIN chunks c ON c.document_id = d.id JOIN vectors_{table} v ON v.chunk_id = c.id ORDER BY 1, 2"
            ),
            "files": self.read("SELECT path, state, reason, content_hash FROM files WHERE state <> 'gone' ORDER BY 1"),
        }

    def stop(self) -> None:
        self.daemon.stop()
        self.engine.close()


class Changer:
    """Changes the folders, seeded, and remembers what has to be found in the end."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._notes, self._inbox, self._chance = folder / "notes", folder / "inbox", chance
        self._outside = folder / "outside"
        for one in (self._notes, self._inbox, self._outside):
            one.mkdir(parents=True, exist_ok=True)
        self._number = 0
        self.taken_in: dict[str, str] = {}
        self.added: list[Path] = []
        self.notes: list[str] = []

    def change(self) -> None:
        """Write, overwrite, append, rename and delete some files, and put one into the inbox."""
        for ending in ("md", "md", "txt", "pdf"):
            self._write(self._notes / f"file{self._next()}.{ending}")
        there = sorted(path for path in self._notes.iterdir() if path.name != _ALWAYS)
        self._write(self._chance.choice(there))
        one, other, third = self._chance.sample(there, 3) if len(there) > 8 else (None, None, None)
        if one is not None and other is not None and third is not None:
            one.unlink()
            with other.open("a") as file:
                file.write(f"\nand {self._text()}\n")
            third.rename(self._notes / f"moved{self._next()}{third.suffix}")
        path = self._inbox / f"taken{self._next()}.txt"
        self._write(path)
        self.taken_in[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()

    def by_hand(self, engine: Engine) -> int:
        """Add a file and a note; return how many were refused for want of room. Refused ones are not counted on."""
        refused = 0
        path = self._outside / f"added{self._next()}.md"
        self._write(path)
        try:
            engine.kb.adding.add_file(str(path), IngestOptions())
            self.added.append(path)
        except StorageUnavailable:
            refused += 1
        note = f"a note of {self._text()}"
        try:
            engine.kb.adding.add_note(note, None)
            self.notes.append(note)
        except StorageUnavailable:
            refused += 1
        engine.work.ring()
        return refused

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _write(self, path: Path) -> None:
        lines = [f"{path.stem} {self._text()}" for _ in range(self._chance.randrange(3, 60))]
        path.write_text("# Trees\n\n" + "\n\n".join(lines) + "\n")

    def _text(self) -> str:
        return " ".join(self._chance.choices(_WORDS, k=12))


def main(disk: Path, folder: Path, seed: int, moments: int) -> Seen:
    """Fill and free the disk at so many moments, then compare with a run that never knew want."""
    seen, chance = Seen(), random.Random(seed)
    ballast, changer = Ballast(disk), Changer(folder, random.Random(seed))
    filler = Filler(ballast)
    (folder / "notes" / _ALWAYS).write_text("# Always\n\nThe medlar ripens late.\n")
    life = Life(disk / "home", folder)
    try:
        life.settle()
        failpoints.listen(filler.came)
        for _ in range(moments):
            _one_moment(life, filler, ballast, changer, chance, seen)
        failpoints.listen(None)
        life.settle()
        seen.problems = tuple(problem.kind for problem in life.engine.kb.check())
        seen.attempts = int(life.read("SELECT max(attempts) FROM jobs")[0][0])
        found = life.index()
        kept = {row[0] for row in life.read("SELECT content_hash FROM documents WHERE state = 'current'")}
        unended = life.read("SELECT path, state, error FROM jobs WHERE state NOT IN ('done', 'skipped')")
        stored = life.read("SELECT stored_path FROM documents WHERE stored_path IS NOT NULL")
    finally:
        life.stop()
    lost = [f"not ended: {row}" for row in unended]
    lost += [f"taken in and lost: {name}" for name, held in changer.taken_in.items() if held not in kept]
    lost += [f"still in the inbox: {name}" for name in os.listdir(folder / "inbox")]
    lost += [f"stored copy gone: {path}" for (path,) in stored if not os.path.exists(path)]
    lost += [f"left in staging: {name}" for name in os.listdir(disk / "home" / "data" / "staging")]
    seen.log_lines = sum(b"storage_unavailable" in line for line in life.log_file.read_bytes().splitlines())
    seen.documents = len(kept)
    seen.lost = (*lost, *_differences(found, folder, changer))
    return replace(seen, longest_wait_s=round(seen.longest_wait_s, 1))


def _one_moment(
    life: Life, filler: Filler, ballast: Ballast, changer: Changer, chance: random.Random, seen: Seen
) -> None:
    outage = life.engine.outage
    filler.arm(chance.choice(MOMENTS), chance.randrange(1, 6))
    changer.change()
    seen.refused_by_hand += changer.by_hand(life.engine)
    with suppress(AssertionError):
        life.until(filler.filled.is_set, 2.5)
    seen.at_named_places += filler.filled.is_set()
    if not filler.filled.is_set():
        filler.fill()
    changer.change()
    seen.refused_by_hand += changer.by_hand(life.engine)
    with suppress(AssertionError):  # what came before may have been all there was to write
        life.until(lambda: outage.lasts, 2.0)
    seen.told += "is full" in (outage.notice() or "")
    assert life.engine.kb.search("medlar", "lexical").hits, "search goes on"
    seen.searches += 1
    ballast.free()
    seen.longest_wait_s = max(seen.longest_wait_s, life.until(lambda: not outage.lasts))
    seen.moments += 1


def _differences(found: dict[str, list[tuple[Any, ...]]], folder: Path, changer: Changer) -> list[str]:
    clean = Life(folder / "clean", folder)
    try:
        for path in changer.added:
            clean.engine.kb.adding.add_file(str(path), IngestOptions())
        for note in changer.notes:
            clean.engine.kb.adding.add_note(note, None)
        clean.engine.work.ring()
        clean.settle()
        wanted = clean.index()
    finally:
        clean.stop()
    differences = []
    for table, rows in wanted.items():
        differences += [f"{table} lacks {row!r:.200}" for row in rows if row not in found[table]]
        differences += [f"{table} has {row!r:.200}" for row in found[table] if row not in rows]
    return differences


if __name__ == "__main__":
    told = main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    print("SEEN " + json.dumps(asdict(told)))
