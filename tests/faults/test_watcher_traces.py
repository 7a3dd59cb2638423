"""Recorded rows of events, in the order and the form in which systems send them: what they say is never believed."""

from __future__ import annotations

import random
import sys
import types
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
)
from watchdog.observers.api import EventQueue, ObservedWatch

from kbsync.sources.watcher import NativeWatcher
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

Play = Callable[..., None]


@pytest.fixture
def play(engine: SimulatedEngine) -> Play:
    """Return a function that hands events to the watcher of the notes, as watchdog does, and lets all come to rest."""
    source = engine.watchers[0].source
    watcher = NativeWatcher(source, engine.loops.producer.take, engine.loops.rescans.mark)

    def play(*events: FileSystemEvent) -> None:
        for event in events:
            watcher.dispatch(event)
        engine.settle()

    return play


# ---- any system ----


@pytest.mark.parametrize("seed", range(5))
def test_w02_events_doubled_lost_and_shuffled_and_one_rescan_make_the_index_of_a_clean_run(
    engine: SimulatedEngine, world: World, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """W02: and no text is embedded twice."""
    chance = random.Random(seed)
    paths = [f"{NOTES}/{folder}file{number}.md" for folder in ("", "sub/", "sub/deep/") for number in range(6)]
    there: set[str] = set()
    for _ in range(6):
        events: list[tuple[str, bool]] = []
        for _ in range(25):
            path = chance.choice(paths)
            if path in there and chance.random() < 0.3:
                engine.fs.remove(path)
                there.discard(path)
                events.append((path, True))
            else:
                engine.fs.write(path, f"# Note\n\nversion {chance.randrange(40)}\n".encode())
                there.add(path)
                events.append((path, False))
        events = [event for event in events for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        chance.shuffle(events)
        for path, gone in events:
            engine.report(path, gone=gone, closed=not gone and chance.random() < 0.5)
        for _ in range(chance.randrange(12)):
            engine.turn()
            engine.clock.advance(0.2)
    engine.rescan()
    texts = engine.embedded()
    assert len(texts) == len(set(texts))
    clean = World(tmp_path_factory.mktemp("clean"), engine.clock, engine.fs, engine.device)
    clean.configure(NOTES)
    other = SimulatedEngine(clean)
    try:
        other.rescan()
        assert engine.index() == other.index()
    finally:
        other.close()


def test_w13_a_log_that_grows_for_ever_is_read_now_and_then_and_starves_nobody(engine: SimulatedEngine) -> None:
    """W13: ten lines a second for ten minutes."""
    log, lines = f"{NOTES}/server.log", bytearray()
    waits: list[int] = []
    for second in range(600):
        for _ in range(10):
            lines += b"one more line\n"
            engine.fs.write(log, bytes(lines[-4_000:]) + str(len(lines)).encode())
            engine.report(log)
            engine.loops.producer.step()
            engine.clock.advance(0.1)
        for worker in engine.loops.workers:
            worker.step()
        if second % 100 == 50:
            engine.write(f"{NOTES}/note{second}.md", f"note{second}x is fresh")
            begun = second
        if (
            second % 100 > 50
            and len(waits) <= second // 100
            and engine.state(f"{NOTES}/note{begun}.md")[0] == "indexed"
        ):
            waits.append(second - begun)
    reads = engine.read("SELECT count(*) FROM events WHERE kind = 'indexed' AND path = CAST(? AS BLOB)", log)[0][0]
    assert 8 <= reads <= 12, "about once a minute"
    assert len(waits) == 6
    assert max(waits) <= 3


def test_w14_a_hundred_thousand_events_of_ten_paths_are_ten_jobs(engine: SimulatedEngine) -> None:
    """W14: and what waits in memory is ten paths."""
    for number in range(10):
        engine.fs.write(f"{NOTES}/{number}.md", f"note {number}".encode())
    producer = engine.loops.producer
    most = 0
    for number in range(100_000):
        engine.report(f"{NOTES}/{number % 10}.md")
        if number % 500 == 0:
            producer.step()
            engine.clock.advance(0.02)
            most = max(most, len(producer._debounce), len(producer._debounce._steps) - 84)
    for _ in range(10):
        producer.step()
        engine.clock.advance(0.3)
    assert most <= 10
    assert engine.read("SELECT count(*) FROM jobs WHERE state = 'queued'") == [(10,)]


# ---- Windows: ReadDirectoryChangesW ----


def test_w18_a_folder_s_end_that_is_told_as_a_file_s_hides_all_that_was_below(
    engine: SimulatedEngine, play: Play
) -> None:
    """W18: Windows does not say what the name was."""
    for name in ("stays.md", "sub/a.md", "sub/deep/b.md"):
        engine.write(f"{NOTES}/{name}", f"apple of {name}")
    engine.settle()
    engine.fs.remove(f"{NOTES}/sub")
    play(FileModifiedEvent(f"{NOTES}/sub"), FileDeletedEvent(f"{NOTES}/sub"))
    assert engine.found("apple") == [f"{NOTES}/stays.md"]


def test_w18_a_read_that_brings_nothing_is_made_up_for_by_the_next_rescan(engine: SimulatedEngine, play: Play) -> None:
    """W18: a read of zero bytes is how Windows says that events were lost; watchdog passes no event on."""
    engine.fs.write(f"{NOTES}/a.md", b"apple")
    play()
    assert engine.found("apple") == []
    engine.rescan()
    assert engine.found("apple") == [f"{NOTES}/a.md"]


# ---- macOS: FSEvents, through watchdog's own translation ----

CREATED, REMOVED, META, RENAMED, MODIFIED = 0x100, 0x200, 0x400, 0x800, 0x1000
IS_FILE, IS_FOLDER = 0x10000, 0x20000
BITS = {
    "is_created": CREATED,
    "is_removed": REMOVED,
    "is_inode_meta_mod": META,
    "is_renamed": RENAMED,
    "is_modified": MODIFIED,
    "is_root_changed": 0x20,
    "is_directory": IS_FOLDER,
    "is_xattr_mod": 0x8000,
    "is_owner_change": 0x4000,
}
MUST_SCAN, USER_DROPPED, KERNEL_DROPPED = 0x1, 0x2, 0x4


@dataclass(frozen=True)
class NativeEvent:
    """One event as the system's library hands it over."""

    path: str
    inode: int
    flags: int
    event_id: int

    def __getattr__(self, name: str) -> bool:
        if name not in BITS:
            raise AttributeError(name)
        return bool(self.flags & BITS[name])


class Stream:
    """The system's stream, which is never begun here."""

    def __init__(self, paths: list[str], latency: float) -> None:
        self.paths = paths

    def stop(self) -> None:
        pass


Stream_of = Callable[[list[tuple[str, int]]], None]


@pytest.fixture
def overflows() -> list[str]:
    return []


@pytest.fixture
def mac(play: Play, overflows: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream_of]:
    """Return a function that plays (path, flags) through watchdog's macOS emitter into the watcher."""
    library = types.ModuleType("_watchdog_fsevents")
    library.NativeEvent, library.Stream = NativeEvent, Stream  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_watchdog_fsevents", library)
    from kbsync.sources.fsevents import FlagEmitter

    queue = EventQueue()
    emitter = FlagEmitter(
        queue,
        ObservedWatch(NOTES, recursive=True),
        timeout=1.0,
        latency=0.01,
        overflowed=lambda: overflows.append("overflow"),
    )
    inodes: dict[str, int] = {}

    def stream(events: list[tuple[str, int]]) -> None:
        numbers = [inodes.setdefault(path, len(inodes) + 100) for path, _ in events]
        # As text, which is what the library really hands over.
        paths: list[Any] = [path for path, _ in events]
        emitter.events_callback(paths, numbers, [flags for _, flags in events], list(range(len(events))))
        told = []
        while not queue.empty():
            told.append(queue.get()[0])
        play(*told)

    yield stream
    for name in ("kbsync.sources.fsevents", "watchdog.observers.fsevents"):
        sys.modules.pop(name, None)


def test_w17_created_and_removed_in_one_event_is_judged_by_what_is_there(
    engine: SimulatedEngine, mac: Stream_of
) -> None:
    """W17: macOS folds a file's whole life into one event, in which the order is lost."""
    engine.fs.write(f"{NOTES}/there.md", b"apple")
    both = CREATED | REMOVED | MODIFIED | IS_FILE
    mac([(f"{NOTES}/there.md", both), (f"{NOTES}/never.md", both)])
    assert engine.found("apple") == [f"{NOTES}/there.md"]
    assert engine.read("SELECT count(*) FROM files") == [(1,)]


def test_w17_events_from_before_the_start_change_nothing(engine: SimulatedEngine, mac: Stream_of) -> None:
    """W17: the history of half a minute comes along, also of files that are as they were."""
    engine.write(f"{NOTES}/a.md", "apple")
    engine.write(f"{NOTES}/b.md", "peach")
    engine.settle()
    embedded = len(engine.embedded())
    mac(
        [
            (f"{NOTES}/a.md", REMOVED | IS_FILE),
            (f"{NOTES}/b.md", CREATED | MODIFIED | META | IS_FILE),
            (f"{NOTES}/sub", REMOVED | IS_FOLDER),
        ]
    )
    assert engine.found("apple") == [f"{NOTES}/a.md"]
    assert len(engine.embedded()) == embedded
    assert len(engine.documents()) == 2


def test_w17_one_row_of_events_in_both_spellings_of_a_name_is_one_document(
    engine: SimulatedEngine, mac: Stream_of
) -> None:
    """W17: composed as it was written, decomposed as older disks keep it; five rescans later as well."""
    name = f"{NOTES}/Überblick née.md"
    engine.fs.write(name, b"apple")
    both = [(unicodedata.normalize(form, name), MODIFIED | IS_FILE) for form in ("NFD", "NFC", "NFD")]
    mac(both)
    for _ in range(5):
        engine.rescan()
    assert engine.found("apple") == [name]
    assert len(engine.documents()) == 1
    assert engine.read("SELECT count(*) FROM events WHERE kind = 'gone'") == [(0,)]


def test_w17_a_save_by_rename_and_a_moved_folder(engine: SimulatedEngine, mac: Stream_of) -> None:
    """W17: both halves of a rename are events of their own, the moved folder's files are none at all."""
    engine.write(f"{NOTES}/a.md", "apple")
    engine.write(f"{NOTES}/old/b.md", "peach")
    engine.settle()
    engine.fs.write(f"{NOTES}/a.md.sb-1-x", b"cherry")
    engine.fs.rename(f"{NOTES}/a.md.sb-1-x", f"{NOTES}/a.md")
    engine.fs.rename(f"{NOTES}/old", f"{NOTES}/new")
    mac(
        [
            (f"{NOTES}/a.md.sb-1-x", CREATED | RENAMED | MODIFIED | IS_FILE),
            (f"{NOTES}/a.md", RENAMED | IS_FILE),
            (f"{NOTES}/old", RENAMED | IS_FOLDER),
            (f"{NOTES}/new", RENAMED | IS_FOLDER),
        ]
    )
    assert engine.found("cherry") == [f"{NOTES}/a.md"]
    assert engine.found("apple") == []
    assert engine.found("peach") == [f"{NOTES}/new/b.md"]


@pytest.mark.parametrize("flag", [MUST_SCAN, USER_DROPPED, MUST_SCAN | KERNEL_DROPPED])
def test_w17_dropped_events_are_told_as_an_overflow(mac: Stream_of, overflows: list[str], flag: int) -> None:
    """W17: watchdog reads none of these flags."""
    mac([(NOTES, flag | IS_FOLDER)])
    assert overflows == ["overflow"]
    mac([(f"{NOTES}/a.md", MODIFIED | IS_FILE)])
    assert overflows == ["overflow"]


# ---- Linux, as watchdog hands it over ----


def test_a_file_told_twice_and_a_folder_told_late_is_one_version(engine: SimulatedEngine, play: Play) -> None:
    engine.fs.write(f"{NOTES}/new/a.md", b"apple")
    play(
        FileCreatedEvent(f"{NOTES}/new/a.md"),
        FileCreatedEvent(f"{NOTES}/new/a.md"),
        DirCreatedEvent(f"{NOTES}/new"),
        FileModifiedEvent(f"{NOTES}/new/a.md"),
        FileClosedEvent(f"{NOTES}/new/a.md"),
    )
    assert engine.found("apple") == [f"{NOTES}/new/a.md"]
    assert len(engine.documents()) == 1


def test_a_move_told_after_the_file_moved_on_is_judged_by_what_is_there(engine: SimulatedEngine, play: Play) -> None:
    engine.write(f"{NOTES}/a.md", "apple")
    engine.settle()
    engine.fs.rename(f"{NOTES}/a.md", f"{NOTES}/c.md")
    play(FileMovedEvent(f"{NOTES}/a.md", f"{NOTES}/b.md"), DirDeletedEvent(f"{NOTES}/never"))
    assert engine.found("apple") == [f"{NOTES}/c.md"]
    assert len(engine.documents()) == 1
