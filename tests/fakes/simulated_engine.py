"""The whole engine in one thread: a disk in memory, a clock that is told, a real database."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kbsync.compose import Engine, Seams, build_daemon, open_engine
from kbsync.config.locations import Locations, locate
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.embed.embedder import Device
from kbsync.embed.model_files import ModelFiles, absent_model
from kbsync.errors import RetryLater, Unready
from kbsync.filesystem import FileSystem
from kbsync.knowledge_base.conversion import Cage
from kbsync.knowledge_base.embedders import ModelAtHand, model_at_hand
from kbsync.knowledge_base.explain import Explanation
from kbsync.model import Change, IngestOptions, Source
from kbsync.reasons import FileState, Reason
from kbsync.sources.coverage import WalkedFolders
from kbsync.sources.inbox import Inbox
from kbsync.sources.watcher import Watcher
from kbsync.store.connection import Connection
from kbsync.store.jobs import JobRow
from kbsync.store.reindexes import VectorTable
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_filesystem import SimulatedFileSystem
from tests.fakes.simulated_inbox import SimulatedInboxes
from tests.fakes.word_counter import WordCounter

NOTES = "/simulated/notes"
# Longer than all attempts of a job together: what is not settled by then never will be.
_PATIENCE_S = 3 * 3600.0
# A walk that was asked for begins within so many seconds of the one before.
_LONGEST_GAP_S = 1.5


class ReportingWatcher:
    """A watcher that reports what a test hands it while it runs."""

    def __init__(
        self, source: Source, sink: Callable[[Change], None], dirty: Callable[[int, str], None], refused: set[str]
    ) -> None:
        self.source = source
        self._sink = sink
        self._dirty = dirty
        self._refused = refused
        self.running = False
        self.alive = True
        # Whether a beat comes back; how many folders the system refuses to watch; what walks told.
        self.hears = True
        self.pulse = 0
        self.unwatched = 0
        self.followed: list[WalkedFolders] = []

    def start(self) -> None:
        if self.source.path in self._refused:
            raise RetryLater(Reason.IO, f"{self.source.path} cannot be watched.")
        self.running = True

    def stop(self) -> None:
        self.running = False

    def healthy(self) -> bool:
        return self.alive

    def beat(self) -> None:
        self.pulse += self.hears

    def follow(self, walked: WalkedFolders) -> None:
        self.followed.append(walked)

    @property
    def folders(self) -> int:
        return 1

    def report(self, path: str, *, closed: bool = False, gone: bool = False) -> None:
        if self.running and self.alive:
            self._sink(Change(self.source.id, path, closed=closed, gone=gone))

    def lose_events(self) -> None:
        if self.running and self.alive:
            self._dirty(self.source.id, "overflow")


@dataclass(slots=True)
class Power:
    """Where the machine has its power from now, and how often it was asked."""

    on_battery: bool = False
    looks: int = 0

    def look(self) -> bool:
        self.looks += 1
        return self.on_battery


@dataclass(frozen=True, slots=True)
class World:
    """What outlives a process: the disk, the time and kbsync's home. `device` runs the model that is configured.

    `shelf`: devices of models that are on this machine too. `missing_model`: why the configured one is not there.
    """

    home: Path
    clock: ManualClock
    fs: SimulatedFileSystem
    device: HashDevice
    shelf: tuple[HashDevice, ...] = ()
    missing_model: str | None = None
    power: Power = field(default_factory=Power)

    @staticmethod
    def new(home: Path, device: HashDevice | None = None) -> World:
        clock = ManualClock()
        return World(home, clock, SimulatedFileSystem(clock), device or HashDevice())

    def with_model(self, dimension: int, *, keep: bool = True) -> World:
        """Return the same world with another model configured, and the one before still on the disk or not."""
        shelf = (*self.shelf, self.device) if keep else ()
        return replace(self, device=HashDevice(dimension), shelf=shelf)

    def without_model(self, why: str = "The folder of the model is gone.") -> World:
        """Return the same world while the configured model is not there."""
        return replace(self, missing_model=why)

    @property
    def locations(self) -> Locations:
        return locate({"KBSYNC_HOME": str(self.home)})

    def configure(self, *folders: str, ignore: Sequence[str] = (), text: str = "") -> None:
        """Write config.toml with these sources, the same ignore patterns in each."""
        self.home.mkdir(exist_ok=True)
        entries = [f"[[sources]]\npath = {json.dumps(path)}\nignore = {json.dumps(list(ignore))}\n" for path in folders]
        (self.home / "config.toml").write_text("\n".join([text, *entries]), encoding="utf-8")


def model_of(device: HashDevice) -> ModelFiles:
    """Return what a device's model says of itself."""
    name = f"hashed words {device.dimension}"
    fingerprint = f"hashed-words-{device.dimension}"
    return ModelFiles("/simulated/model", name, device.dimension, 120, frozenset(), "", "", fingerprint)


class SimulatedEngine:
    """One life of the daemon in a world, without its threads. Writes of a test are reported like a watcher would."""

    def __init__(self, world: World, cage: Cage | None = None) -> None:
        self.world = world
        self.fs, self.clock, self.device = world.fs, world.clock, world.device
        self.watchers: list[ReportingWatcher] = []
        self.refused: set[str] = set()
        missing = world.missing_model
        model = model_of(world.device) if missing is None else absent_model("/simulated/model")
        # What is found where the configured model should lie, when the daemon looks.
        self.lies_there = None if missing is not None else model

        def open_devices() -> list[Device]:
            if missing is not None:
                raise Unready(Reason.MODEL, missing)
            return [world.device]

        self.cage = ReadingCage()
        # Fails where anything but an inbox is opened: no test can pass in which a mirror's file could be removed.
        self.inboxes = SimulatedInboxes(world.fs)
        seams = Seams(
            self.seen(world.fs),
            world.clock,
            model,
            WordCounter(),
            open_devices,
            self.make_watcher,
            lambda _slots, _folder: cage or self.cage,
            self._find_earlier,
            self.open_inbox,
            missing_model=missing,
            find_model=lambda: self.lies_there,
            is_on_battery=world.power.look,
        )
        settings = load_settings(world.locations.config_file)
        self.engine: Engine = open_engine(world.locations, settings, seams, may_rebuild=True)
        self.kb = self.engine.kb
        self.daemon: Daemon = build_daemon(self.engine)
        self.loops = self.daemon.loops
        self.daemon.reload()

    def seen(self, fs: SimulatedFileSystem) -> FileSystem:
        """Return the disk as the engine sees it. A subclass may have another platform's refusals told."""
        return fs

    def make_watcher(
        self, source: Source, sink: Callable[[Change], None], dirty: Callable[[int, str], None]
    ) -> Watcher:
        """Return what reports the source's changes. A subclass may have them told by the system."""
        self.watchers.append(ReportingWatcher(source, sink, dirty, self.refused))
        return self.watchers[-1]

    def open_inbox(self, source: Source) -> Inbox:
        """Return the door by which files leave an inbox. A subclass on another disk has another one."""
        return self.inboxes.open(source)

    def _find_earlier(self, table: VectorTable) -> ModelAtHand | None:
        device = next((one for one in self.world.shelf if model_of(one).fingerprint == table.fingerprint), None)
        return None if device is None else model_at_hand(model_of(device), WordCounter(), lambda: [device])

    # ---- the disk, with its events ----

    def write(self, path: str, text: str | bytes) -> None:
        self.fs.write(path, text.encode() if isinstance(text, str) else text)
        self.report(path, closed=True)

    def remove(self, path: str) -> None:
        self.fs.remove(path)
        self.report(path, gone=True)

    def rename(self, old: str, new: str) -> None:
        self.fs.rename(old, new)
        self.report(old, gone=True)
        self.report(new, closed=True)

    def report(self, path: str, *, closed: bool = False, gone: bool = False) -> None:
        for watcher in self.watchers:
            if path.startswith(watcher.source.path + "/"):
                watcher.report(path, closed=closed, gone=gone)

    # ---- turning the loops ----

    def turn(self) -> bool:
        """Turn every loop once; return whether any had something to do."""
        busy = self.loops.producer.step() > 0
        busy |= self.loops.rescans.step()
        for worker in self.loops.workers:
            busy |= worker.step()
        busy |= self.loops.reindexer.step()
        busy |= self.loops.scrub.step()
        return busy

    def settle(self, ticket: int = 0) -> None:
        """Turn the loops and the clock until nothing is left to do and no mark asks for another walk."""
        waited = idle = 0.0
        while True:
            if self.turn():
                idle = 0.0
            elif idle > _LONGEST_GAP_S and self.daemon.settled(ticket):
                return
            else:
                assert waited < _PATIENCE_S, "it never settles"
                pause = min(max(idle, 0.25), 60.0)
                self.clock.advance(pause)
                waited, idle = waited + pause, idle + pause

    def rescan(self) -> None:
        """Have every source walked, as the timer does, and settle. Time has passed: nothing is fresh any more."""
        self.clock.advance(300.0)
        self.settle(self.daemon.rescan())

    def configure(self, *folders: str, ignore: Sequence[str] = (), text: str = "") -> None:
        """Change config.toml and have it followed."""
        self.world.configure(*folders, ignore=ignore, text=text)
        self.daemon.reload()

    def add(self, path: str, options: IngestOptions | None = None) -> JobRow:
        """Add a file by hand, settle, and return how its job ended."""
        job_id = self.kb.adding.add_file(path, options or IngestOptions())
        self.settle()
        return self.job(job_id)

    def note(self, text: str, title: str | None = None) -> JobRow:
        """Add a note, settle, and return how its job ended."""
        job_id = self.kb.adding.add_note(text, title)
        self.settle()
        return self.job(job_id)

    def close(self) -> None:
        self.engine.close()

    # ---- looking ----

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        def rows(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values).fetchall()

        return self.engine.readers.read(rows)

    def job(self, job_id: int) -> JobRow:
        return self.kb.jobs_by_id([job_id])[0]

    def found(self, words: str) -> list[str | None]:
        """Return the paths of the hits for these words."""
        return [hit.path for hit in self.kb.search(words, "lexical").hits]

    def why(self, path: str) -> Explanation:
        return self.kb.why(path)

    def state(self, path: str) -> tuple[FileState, str | None]:
        explanation = self.kb.why(path)
        return explanation.state, explanation.reason

    def source_state(self, path: str = NOTES) -> tuple[str, str | None]:
        return next((row.state, row.reason) for row in self.kb.sources()[0] if row.path == path)

    def documents(self, state: str | None = None) -> list[tuple[int, str, str]]:
        """Return (id, title, state) of documents, oldest first."""
        return [
            (row[0], row[1], row[2])
            for row in self.read("SELECT id, title, state FROM documents WHERE ?1 IS NULL OR state = ?1", state)
        ]

    def embedded(self) -> list[str]:
        """Return every text that the device was given in this world, queries left out."""
        return [text for texts, query in self.device.batches if not query for text in texts]

    def index(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what is searchable and what is known of each path, in a form that two engines can compare.

        Also proves that what was indexed is whole.
        """
        assert self.kb.check() == []
        vectors = f"vectors_{self.read('SELECT id FROM embedders')[0][0]}"
        current = "documents WHERE state = 'current'"
        return {
            "documents": self.read(f"SELECT content_hash, title, type, language, reason FROM {current} ORDER BY 1"),
            "paths": self.read(
                "SELECT kind, path, content_hash FROM origins JOIN documents ON documents.id = document_id "
                "WHERE live = 1 ORDER BY 1, 2, 3"
            ),
            "chunks": self.read(
                f"SELECT content_hash, position, text, enriched_text, chunks.metadata, token_count, embedding "
                f"FROM chunks JOIN (SELECT id, content_hash FROM {current}) AS live ON live.id = document_id "
                f"JOIN {vectors} ON chunk_id = chunks.id ORDER BY 1, 2"
            ),
            "files": self.read("SELECT path, state, reason, content_hash FROM files WHERE state <> 'gone' ORDER BY 1"),
        }

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table, except when the sources were last walked."""
        tables = [
            name
            for (name,) in self.read("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        ]
        rows = {name: self.read(f'SELECT * FROM "{name}"') for name in tables if not name.endswith("_fts")}
        rows["sources"] = self.read("SELECT id, path, state, reason, detail, files_seen FROM sources")
        return rows
