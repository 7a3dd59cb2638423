"""Which folder it is: a root or a disk below it that is away, or is another one, hides nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

DISK = f"{NOTES}/disk"
AWAY = [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN]


def word(number: int) -> str:
    """Return a word of letters only: what is counted in digits is found by its first part too."""
    return "quince" + "".join(chr(ord("a") + int(digit)) * 2 for digit in str(number))


def _fill(engine: SimulatedEngine, folder: str = NOTES, files: int = 3) -> None:
    for number in range(files):
        engine.write(f"{folder}/n{number}.md", f"# Note {number}\n\n{word(number)}")
    engine.settle()
    engine.rescan()


@pytest.fixture
def on_disk(world: World, started: Callable[[], SimulatedEngine]) -> SimulatedEngine:
    """A source that is a disk of its own, three files on it."""
    world.fs.remove(NOTES)
    world.fs.attach_disk(NOTES)
    engine = started()
    engine.settle()
    _fill(engine)
    return engine


def test_a_disk_that_is_taken_out_pauses_its_source_over_restarts_and_comes_back_by_itself(
    on_disk: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    """F25: the mount point is left empty."""
    engine = on_disk
    before, embedded = engine.index(), len(engine.embedded())
    engine.fs.unmount(NOTES)
    for _ in range(4):
        engine.rescan()
        assert engine.source_state() == ("paused", "empty")
        assert engine.index() == before
        assert engine.found(word(1)) == [f"{NOTES}/n1.md"]
        engine = started()
    engine.clock.advance(30 * 86400)
    for _ in range(4):
        engine.clock.advance(12 * 3600)
        engine.rescan()
    assert engine.index() == before, "an empty mount point is never taken for the emptied disk"
    engine.fs.mount(NOTES)
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert (engine.index(), len(engine.embedded())) == (before, embedded)


def test_a_mount_point_with_nothing_but_a_hidden_file_is_as_good_as_empty(on_disk: SimulatedEngine) -> None:
    """F25: it is not learned as the folder to follow either, while its files are looked for once more."""
    before = on_disk.index()
    on_disk.fs.unmount(NOTES)
    on_disk.fs.write(f"{NOTES}/.keep", b"")
    for _ in range(3):
        on_disk.rescan()
        assert on_disk.source_state() == ("paused", "empty")
        assert on_disk.index()["documents"] == before["documents"]
    on_disk.fs.write(f"{NOTES}/other.md", b"a stranger")
    on_disk.rescan()
    assert on_disk.source_state() == ("paused", "replaced")
    on_disk.fs.mount(NOTES)
    on_disk.rescan()
    assert on_disk.source_state() == ("watching", None)
    assert on_disk.index() == before


def test_a_disk_that_is_taken_out_with_one_that_was_mounted_in_it_leaves_an_empty_folder(
    on_disk: SimulatedEngine,
) -> None:
    """F25, F26"""
    on_disk.fs.attach_disk(f"{NOTES}/inner")
    on_disk.write(f"{NOTES}/inner/medlar.md", "medlar")
    on_disk.rescan()
    before = on_disk.index()
    on_disk.fs.unmount(f"{NOTES}/inner")
    on_disk.fs.unmount(NOTES)
    for _ in range(3):
        on_disk.rescan()
        assert on_disk.source_state() == ("paused", "empty")
        assert on_disk.index() == before
    on_disk.fs.mount(NOTES)
    on_disk.fs.mount(f"{NOTES}/inner")
    on_disk.rescan()
    assert on_disk.source_state() == ("watching", None)
    assert on_disk.index() == before


def test_a_mount_point_with_files_of_its_own_is_another_folder(on_disk: SimulatedEngine) -> None:
    """F25, W06: what lies below the mount is not indexed in its place, not by an event, a job nor a walk."""
    engine = on_disk
    before = engine.index()
    engine.fs.unmount(NOTES)
    engine.fs.write(f"{NOTES}/n1.md", b"a stranger")
    engine.fs.write(f"{NOTES}/other.md", b"a stranger")
    for _ in range(3):
        engine.rescan()
        engine.report(f"{NOTES}/n1.md", closed=True)
        engine.settle()
        assert engine.source_state() == ("paused", "replaced")
        assert (engine.index(), engine.found("stranger")) == (before, [])
    engine.fs.mount(NOTES)
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert engine.index() == before


def test_a_root_that_another_folder_takes_the_place_of_waits_until_a_person_says_yes(engine: SimulatedEngine) -> None:
    """W06"""
    _fill(engine)
    engine.fs.rename(NOTES, "/simulated/away")
    engine.write(f"{NOTES}/other.md", "medlar")
    engine.rescan()
    assert engine.source_state() == ("paused", "replaced")
    assert (engine.found(word(1)), engine.found("medlar")) == ([f"{NOTES}/n1.md"], [])
    detail = next(row.detail for row in engine.kb.sources()[0])
    assert detail is not None
    assert f"kbsync sources confirm {NOTES}" in detail
    engine.engine.source_control.confirm(NOTES)
    engine.settle()
    assert engine.source_state() == ("watching", None)
    assert (engine.found(word(1)), engine.found("medlar")) == ([], [f"{NOTES}/other.md"])
    engine.rescan()
    assert engine.source_state() == ("watching", None)


def test_a_root_restored_with_new_inodes_is_the_same_by_its_names(engine: SimulatedEngine) -> None:
    """W05: deleted and made again, as by a restore."""
    _fill(engine)
    documents, embedded = engine.documents(), len(engine.embedded())
    engine.fs.remove(NOTES)
    engine.rescan()
    assert engine.source_state() == ("paused", "missing")
    for number in range(3):
        engine.fs.write(f"{NOTES}/n{number}.md", f"# Note {number}\n\n{word(number)}".encode())
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert (engine.documents(), len(engine.embedded())) == (documents, embedded)


@pytest.mark.parametrize("named", [True, False], ids=["a disk with a name", "a disk without"])
def test_disks_with_other_numbers_after_a_start_are_the_same(
    on_disk: SimulatedEngine, started: Callable[[], SimulatedEngine], named: bool
) -> None:
    """The device's number is learned anew, and moves are told by it right away."""
    on_disk.fs.names_disks = named
    on_disk.fs.rename(f"{NOTES}/n0.md", f"{NOTES}/m0.md")  # what is remembered is written without the disk's name
    on_disk.rescan()
    on_disk.fs.renumber_disks()
    engine = started()
    jobs = engine.read("SELECT count(*) FROM jobs")
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert engine.read("SELECT count(*) FROM jobs") == jobs
    assert engine.read("SELECT DISTINCT device FROM files WHERE state <> 'gone'") == [(engine.fs.lstat(NOTES).device,)]
    engine.fs.rename(f"{NOTES}/n1.md", f"{NOTES}/sub/n1.md")
    engine.clock.advance(300)
    engine.daemon.rescan()
    engine.loops.rescans.step()
    assert engine.found(word(1)) == [f"{NOTES}/sub/n1.md"]


def _unmount(engine: SimulatedEngine) -> None:
    engine.fs.unmount(DISK)


def _eject(engine: SimulatedEngine) -> None:
    """Take the disk out and its mount point away, as desktops do."""
    engine.fs.unmount(DISK)
    engine.fs.rename(DISK, "/simulated/mount point")


@pytest.mark.parametrize("harm", [_unmount, _eject], ids=["bare mount point", "no mount point"])
def test_a_disk_below_the_root_that_is_away_hides_nothing_of_it_and_all_else_goes_on(
    engine: SimulatedEngine, started: Callable[[], SimulatedEngine], harm: Callable[[SimulatedEngine], None]
) -> None:
    """F26: the folder is not on the disk any more on which its files were."""
    engine.fs.attach_disk(DISK)
    _fill(engine)
    _fill(engine, DISK, files=4)
    harm(engine)
    engine.fs.remove(f"{NOTES}/n0.md")
    engine.write(f"{NOTES}/new.md", "medlar")
    for _ in range(3):
        engine.rescan()
        assert engine.source_state() == ("watching", "detached")
        assert engine.found(word(3)) == [f"{DISK}/n3.md"]
        assert engine.found("medlar") == [f"{NOTES}/new.md"]
        assert engine.found(word(0)) == [f"{DISK}/n0.md"]
        engine = started()
    if harm is _eject:
        engine.fs.rename("/simulated/mount point", DISK)
    engine.fs.mount(DISK)
    engine.fs.remove(f"{DISK}/n3.md")
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert engine.found(word(3)) == []
    assert engine.found(word(2)) == [f"{DISK}/n2.md", f"{NOTES}/n2.md"][:1]


def test_a_disk_below_the_root_that_is_away_for_good_is_let_go_by_a_persons_word(engine: SimulatedEngine) -> None:
    engine.fs.attach_disk(DISK)
    _fill(engine)
    _fill(engine, DISK, files=4)
    engine.fs.unmount(DISK)
    engine.rescan()
    engine.engine.source_control.confirm(NOTES)
    engine.settle()
    assert engine.source_state() == ("watching", None)
    assert engine.found(word(3)) == []
    assert engine.found(word(2)) == [f"{NOTES}/n2.md"]


def test_a_disk_below_the_root_that_a_rule_leaves_out_is_not_waited_for(engine: SimulatedEngine) -> None:
    engine.fs.attach_disk(DISK)
    _fill(engine)
    _fill(engine, DISK, files=4)
    engine.configure(NOTES, ignore=["disk/"])
    engine.settle()
    assert engine.found(word(3)) == []
    assert engine.source_state() == ("watching", None)
    engine.fs.unmount(DISK)
    engine.rescan()
    assert engine.source_state() == ("watching", None)


@pytest.mark.parametrize("number", AWAY)
def test_a_subtree_that_fails_hides_nothing_below_it(engine: SimulatedEngine, number: int) -> None:
    """F26"""
    _fill(engine)
    _fill(engine, f"{NOTES}/share", files=4)
    engine.fs.fail(f"{NOTES}/share", OSError(number, "away"))
    for _ in range(3):
        engine.rescan()
        assert engine.found(word(3)) == [f"{NOTES}/share/n3.md"]
        assert engine.source_state() == ("watching", "unreadable")
    engine.fs.heal(f"{NOTES}/share")
    engine.rescan()
    assert engine.source_state() == ("watching", None)


def test_made_up_inodes_are_read_once_and_then_not_believed(engine: SimulatedEngine) -> None:
    """F22: a file system whose inodes are others at every look."""
    _fill(engine, files=30)
    embedded = len(engine.embedded())
    engine.fs.make_up_inodes()
    engine.rescan()
    jobs = engine.read("SELECT count(*) FROM jobs")
    for _ in range(3):
        engine.fs.make_up_inodes()
        engine.rescan()
    assert engine.read("SELECT count(*) FROM jobs") == jobs
    assert len(engine.embedded()) == embedded
    engine.fs.write(f"{NOTES}/n1.md", b"medlar")
    engine.rescan()
    assert engine.found("medlar") == [f"{NOTES}/n1.md"]


def _detail(engine: SimulatedEngine) -> str | None:
    return next(row.detail for row in engine.kb.sources()[0])


def test_what_cannot_be_read_is_told_by_its_name(engine: SimulatedEngine) -> None:
    """F04: a folder, several, a rule file in one, a rule file of the source itself."""
    _fill(engine)
    denied = PermissionError(errno.EACCES, "Permission denied")
    for name in ("a", "b"):
        engine.fs.write(f"{NOTES}/{name}/.gitignore", b"*.log")
        engine.fs.fail(f"{NOTES}/{name}", denied)
    engine.rescan()
    assert _detail(engine) == f"2 places cannot be read. The first: {NOTES}/a cannot be read: Permission denied."
    engine.fs.heal(f"{NOTES}/a")
    engine.fs.heal(f"{NOTES}/b")
    engine.fs.fail(f"{NOTES}/b/.gitignore", denied)
    engine.rescan()
    assert _detail(engine) == f"{NOTES}/b/.gitignore cannot be read: Permission denied."
    assert engine.source_state() == ("watching", "unreadable")
    engine.fs.write(f"{NOTES}/.kbignore", b"*.log")
    engine.fs.fail(f"{NOTES}/.kbignore", denied)
    engine.rescan()
    assert _detail(engine) == f"{NOTES}/.kbignore cannot be read: Permission denied."
    assert engine.source_state() == ("paused", "unreadable")
    assert engine.found(word(1)) == [f"{NOTES}/n1.md"]
