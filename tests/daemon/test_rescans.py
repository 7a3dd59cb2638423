"""What a walk concludes: absence is a deletion only where everything was looked at; moves cost nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import RetryLater
from kbsync.filesystem import Entry
from kbsync.reasons import FileState, Reason
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

PATH = f"{NOTES}/trees/first.md"
OTHER = f"{NOTES}/trees/second.md"
DENIED = PermissionError(errno.EACCES, "Permission denied")
BROKEN = OSError(errno.EIO, "Input/output error")


class ActingFileSystem(SimulatedFileSystem):
    """Does what a test says right after a folder was listed, once."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.after_listing: dict[str, Callable[[], None]] = {}

    def list_directory(self, path: str) -> list[Entry]:
        entries = super().list_directory(path)
        self.after_listing.pop(path, lambda: None)()
        return entries


@pytest.fixture
def disk() -> ActingFileSystem:
    return ActingFileSystem(ManualClock())


@pytest.fixture
def world(tmp_path: Path, disk: ActingFileSystem) -> World:
    world = World(tmp_path / "home", disk.clock, disk, HashDevice())
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    return world


@pytest.fixture
def filled(engine: SimulatedEngine) -> SimulatedEngine:
    """Two files below a folder, indexed."""
    engine.write(PATH, "# Trees\n\nquince")
    engine.write(OTHER, "# Shrubs\n\nmedlar")
    engine.settle()
    return engine


def _take_away(engine: SimulatedEngine) -> None:
    engine.fs.rename(NOTES, "/simulated/away")


def _empty(engine: SimulatedEngine) -> None:
    engine.fs.rename(NOTES, "/simulated/away")
    engine.fs.make_directory(NOTES)


def _replace_by_file(engine: SimulatedEngine) -> None:
    engine.fs.rename(NOTES, "/simulated/away")
    engine.fs.write(NOTES, b"a file")


def _bring_back(engine: SimulatedEngine) -> None:
    if NOTES in [f"/simulated/{entry.name}" for entry in engine.fs.list_directory("/simulated")]:
        engine.fs.remove(NOTES)
    engine.fs.rename("/simulated/away", NOTES)


@pytest.mark.parametrize(
    ("harm", "heal", "reason"),
    [
        (_take_away, _bring_back, "missing"),
        (_replace_by_file, _bring_back, "missing"),
        (_empty, _bring_back, "empty"),
        (lambda engine: engine.fs.fail(NOTES, DENIED), lambda engine: engine.fs.heal(NOTES), "unreadable"),
        (lambda engine: engine.fs.fail(NOTES, BROKEN), lambda engine: engine.fs.heal(NOTES), "unreadable"),
    ],
    ids=["missing", "a file in its place", "empty", "denied", "i/o error"],
)
def test_a_root_that_cannot_be_looked_at_changes_nothing_and_pauses_its_source_until_it_can(
    filled: SimulatedEngine,
    harm: Callable[[SimulatedEngine], None],
    heal: Callable[[SimulatedEngine], None],
    reason: str,
) -> None:
    before, embedded = filled.index(), len(filled.embedded())
    harm(filled)
    for _ in range(2):
        filled.report(PATH, gone=True)
        filled.rescan()
        assert filled.source_state() == ("paused", reason)
        assert filled.index() == before
        assert filled.found("quince") == [PATH]
    heal(filled)
    filled.rescan()
    assert filled.source_state() == ("watching", None)
    assert filled.index() == before
    assert len(filled.embedded()) == embedded


def test_a_source_that_was_always_empty_is_not_paused(engine: SimulatedEngine) -> None:
    engine.rescan()
    assert engine.source_state() == ("watching", None)


def test_a_source_emptied_file_by_file_down_to_nothing_keeps_the_last_ones_until_something_is_there(
    filled: SimulatedEngine,
) -> None:
    filled.remove(PATH)
    filled.settle()
    filled.remove(OTHER)
    filled.settle()
    assert filled.found("medlar") == [OTHER]
    assert filled.source_state() == ("paused", "empty")
    filled.write(f"{NOTES}/new.md", "something")
    filled.rescan()
    assert filled.found("medlar") == []
    assert filled.source_state() == ("watching", None)


@pytest.mark.parametrize("error", [DENIED, BROKEN], ids=["denied", "i/o error"])
def test_a_folder_that_cannot_be_listed_hides_nothing_below_it(filled: SimulatedEngine, error: OSError) -> None:
    """F04, F26: what could be looked at is concluded about, or one such folder would keep ghosts for ever."""
    filled.write(f"{NOTES}/top.md", "cherry")
    filled.settle()
    filled.fs.remove(f"{NOTES}/top.md")
    filled.fs.fail(f"{NOTES}/trees", error)
    filled.rescan()
    for word, path in (("quince", PATH), ("medlar", OTHER)):
        assert filled.found(word) == [path]
    assert filled.found("cherry") == []
    assert filled.source_state() == ("watching", "unreadable")
    assert filled.state(f"{NOTES}/trees")[0] is FileState.FAILED
    filled.fs.heal(f"{NOTES}/trees")
    filled.rescan()
    assert filled.source_state() == ("watching", None)
    assert filled.found("cherry") == []
    assert filled.found("quince") == [PATH]
    assert filled.state(f"{NOTES}/trees")[0] is FileState.GONE


@pytest.mark.parametrize("told", [True, False], ids=["events", "rescans only"])
def test_a_move_within_a_source_embeds_nothing_and_keeps_the_document(filled: SimulatedEngine, told: bool) -> None:
    document, embedded = filled.kb.search("quince").hits[0].document_id, len(filled.embedded())
    if told:
        filled.rename(PATH, f"{NOTES}/new/place.md")
        filled.settle()
    else:
        filled.fs.rename(PATH, f"{NOTES}/new/place.md")
        filled.rescan()
    hit = filled.kb.search("quince", "lexical").hits[0]
    assert (hit.document_id, hit.paths) == (document, (f"{NOTES}/new/place.md",))
    assert filled.state(PATH)[0] is FileState.GONE
    assert len(filled.embedded()) == embedded


def test_a_moved_folder_embeds_nothing_and_keeps_every_document(filled: SimulatedEngine) -> None:
    documents, embedded = filled.documents(), len(filled.embedded())
    filled.fs.rename(f"{NOTES}/trees", f"{NOTES}/deep/er")
    filled.watchers[-1].lose_events()
    filled.settle()
    assert filled.found("quince") == [f"{NOTES}/deep/er/first.md"]
    assert filled.found("medlar") == [f"{NOTES}/deep/er/second.md"]
    assert filled.documents() == documents
    assert len(filled.embedded()) == embedded


def test_a_move_between_two_sources_embeds_nothing_and_keeps_the_document(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    archive = "/simulated/archive"
    world.fs.write(f"{archive}/old.md", b"an old one")
    world.fs.write(f"{NOTES}/stays.md", b"one that stays")
    world.configure(NOTES, archive)
    engine = started()
    engine.write(PATH, "# Trees\n\nquince")
    engine.settle()
    document, embedded = engine.kb.search("quince").hits[0].document_id, len(engine.embedded())
    engine.rename(PATH, f"{archive}/first.md")
    engine.settle()
    hit = engine.kb.search("quince", "lexical").hits[0]
    assert (hit.document_id, hit.paths) == (document, (f"{archive}/first.md",))
    assert len(engine.embedded()) == embedded
    assert engine.kb.check() == []


def test_an_ignore_file_is_respected_and_a_file_that_becomes_ignored_is_hidden(filled: SimulatedEngine) -> None:
    filled.write(f"{NOTES}/.gitignore", "second.md\ncellar/\n")
    filled.write(f"{NOTES}/cellar/wine.md", "riesling")
    filled.rescan()
    assert filled.found("medlar") == filled.found("riesling") == []
    assert filled.found("quince") == [PATH]
    assert filled.state(OTHER) == (FileState.SKIPPED, Reason.IGNORED)
    assert filled.state(f"{NOTES}/cellar") == (FileState.SKIPPED, Reason.IGNORED)
    embedded = len(filled.embedded())
    filled.remove(f"{NOTES}/.gitignore")
    filled.rescan()
    assert filled.found("medlar") == [OTHER]
    assert filled.found("riesling") == [f"{NOTES}/cellar/wine.md"]
    assert len(filled.embedded()) == embedded + 1


def test_files_in_a_folder_that_becomes_ignored_are_hidden(filled: SimulatedEngine) -> None:
    filled.write(f"{NOTES}/top.md", "cherry")
    filled.configure(NOTES, ignore=["trees/"])
    filled.settle()
    assert filled.found("quince") == []
    assert filled.state(PATH)[0] is FileState.GONE
    assert filled.found("cherry") == [f"{NOTES}/top.md"]


def test_a_source_taken_out_is_hidden_and_put_back_is_current_with_nothing_embedded(filled: SimulatedEngine) -> None:
    documents, embedded = filled.documents(), len(filled.embedded())
    filled.configure()
    filled.settle()
    assert filled.found("quince") == []
    assert filled.kb.sources() == ([], {})
    assert [state for _, _, state in filled.documents()] == ["missing", "missing"]
    assert filled.kb.check() == []
    assert not filled.watchers[-1].running
    filled.configure(NOTES)
    filled.settle()
    assert filled.found("quince") == [PATH]
    assert filled.documents() == documents
    assert len(filled.embedded()) == embedded


def test_two_places_that_swap_their_contents_are_found_by_what_they_say_now(filled: SimulatedEngine) -> None:
    embedded = len(filled.embedded())
    filled.fs.rename(PATH, f"{NOTES}/middle.md")
    filled.fs.rename(OTHER, PATH)
    filled.fs.rename(f"{NOTES}/middle.md", OTHER)
    filled.rescan()
    assert filled.found("quince") == [OTHER]
    assert filled.found("medlar") == [PATH]
    assert len(filled.embedded()) == embedded


def test_a_file_that_becomes_a_folder_and_back_is_followed(filled: SimulatedEngine) -> None:
    filled.fs.remove(PATH)
    filled.fs.write(f"{PATH}/inside.md", b"cherry")
    filled.rescan()
    assert filled.found("quince") == []
    assert filled.found("cherry") == [f"{PATH}/inside.md"]
    filled.fs.remove(PATH)
    filled.fs.write(PATH, b"# Trees\n\nquince")
    filled.rescan()
    assert filled.found("quince") == [PATH]
    assert filled.found("cherry") == []


def test_a_size_and_time_kept_by_a_change_still_show_by_ctime(filled: SimulatedEngine) -> None:
    mtime = filled.fs.lstat(PATH).mtime
    filled.clock.advance(50)
    filled.fs.write(PATH, b"# Trees\n\ncherry")
    filled.fs.set_mtime(PATH, mtime)
    filled.rescan()
    assert filled.found("cherry") == [PATH]


def test_marks_that_keep_coming_do_not_make_a_source_walk_all_the_time(engine: SimulatedEngine) -> None:
    rescans, source = engine.loops.rescans, engine.watchers[-1].source
    walks = 0
    for _ in range(100):
        rescans.mark(source.id, "told")
        walks += rescans.step()
        engine.clock.advance(0.1)
    assert 5 <= walks <= 10


def test_a_request_is_answered_only_by_a_walk_that_began_after_it(engine: SimulatedEngine) -> None:
    rescans = engine.loops.rescans
    first = rescans.request_all()
    assert not rescans.answered(first)
    rescans.step()
    assert rescans.answered(first)
    second = rescans.request_all()
    assert not rescans.answered(second)
    assert rescans.answered(first), "whoever asked before has his answer"
    rescans.step()
    assert rescans.answered(second)


def test_a_walk_that_finds_the_disk_full_is_made_again(filled: SimulatedEngine) -> None:
    for number in range(120):
        filled.fs.write(f"{NOTES}/{'long' * 50}{number}.md", b"# Sloe\n\nthe same in each")
    filled.clock.advance(10)
    ticket = filled.loops.rescans.request_all()
    filled.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1))  # no page more than now
    for _ in range(3):
        with pytest.raises(RetryLater) as full:
            filled.loops.rescans.step()
        assert full.value.reason is Reason.NO_SPACE
        assert not filled.loops.rescans.answered(ticket)
        assert not filled.loops.rescans.step(), "not at once"
        filled.clock.advance(1.1)
    filled.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1 << 30))
    filled.settle(ticket)
    assert filled.read("SELECT count(*) FROM files WHERE state = 'indexed'") == [(122,)]


def test_a_mark_during_a_walk_asks_for_another(filled: SimulatedEngine, disk: ActingFileSystem) -> None:
    rescans, source = filled.loops.rescans, filled.watchers[-1].source
    filled.clock.advance(100)
    disk.after_listing[NOTES] = lambda: rescans.mark(source.id, "told")
    rescans.mark(source.id, "told")
    assert rescans.step()
    filled.clock.advance(1.1)
    assert rescans.step()
    assert not rescans.step()


def test_a_file_that_comes_back_behind_the_walk_is_not_hidden(filled: SimulatedEngine, disk: ActingFileSystem) -> None:
    disk.rename(PATH, "/simulated/elsewhere.md")
    disk.after_listing[f"{NOTES}/trees"] = lambda: disk.rename("/simulated/elsewhere.md", PATH)
    filled.clock.advance(100)
    filled.daemon.rescan()
    assert filled.loops.rescans.step()
    assert filled.found("quince") == [PATH]


def test_a_root_swapped_during_the_walk_hides_nothing(filled: SimulatedEngine, disk: ActingFileSystem) -> None:
    def swap() -> None:
        disk.rename(NOTES, "/simulated/away")
        disk.write(f"{NOTES}/stranger.md", b"somebody else")

    disk.after_listing[NOTES] = swap
    filled.clock.advance(100)
    filled.daemon.rescan()
    assert filled.loops.rescans.step()
    assert filled.found("quince") == [PATH]
