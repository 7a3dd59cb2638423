"""Files and folders that move, are copied or linked: the documents stay, nothing is embedded, nothing is missing."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest

from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PATH = f"{NOTES}/trees/first.md"
OTHER = f"{NOTES}/trees/second.md"
ARCHIVE = "/simulated/archive"


def folded(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


@pytest.fixture
def filled(engine: SimulatedEngine) -> SimulatedEngine:
    """Two files below a folder, indexed, and old."""
    engine.write(PATH, "# Trees\n\nquince")
    engine.write(OTHER, "# Shrubs\n\nmedlar")
    engine.settle()
    engine.rescan()
    return engine


@pytest.fixture
def two(world: World, started: Callable[[], SimulatedEngine]) -> SimulatedEngine:
    """Two sources, a file in each."""
    world.fs.write(f"{ARCHIVE}/old.md", b"an old one")
    world.fs.write(PATH, b"# Trees\n\nquince")
    world.fs.write(f"{NOTES}/stays.md", b"one that stays")
    world.clock.advance(10)
    world.configure(NOTES, ARCHIVE)
    engine = started()
    engine.settle()
    return engine


def _step_until_pending_is_done(engine: SimulatedEngine, look: Callable[[], None]) -> None:
    """Settle in small steps, looking after each."""
    for _ in range(60):
        engine.turn()
        look()
        engine.clock.advance(0.25)
    engine.settle()
    look()


def _jobs(engine: SimulatedEngine) -> int:
    return int(engine.read("SELECT count(*) FROM jobs")[0][0])


def test_a_move_is_one_row_before_anything_is_read(filled: SimulatedEngine) -> None:
    """An offline move is told by inode, size and time: the walk itself writes it."""
    document = filled.kb.search("quince").hits[0].document_id
    filled.fs.rename(PATH, f"{NOTES}/elsewhere/first.md")
    filled.clock.advance(300)
    filled.daemon.rescan()
    assert filled.loops.rescans.step()
    hit = filled.kb.search("quince", "lexical").hits[0]
    assert (hit.document_id, hit.path) == (document, f"{NOTES}/elsewhere/first.md")
    assert filled.state(PATH) == (FileState.GONE, None)
    assert filled.state(f"{NOTES}/elsewhere/first.md") == (FileState.INDEXED, None)
    assert filled.read("SELECT kind, detail FROM events WHERE kind IN ('moved', 'arrived') ORDER BY id") == [
        ("moved", f"{NOTES}/elsewhere/first.md"),
        ("arrived", PATH),
    ]


def test_a_move_is_verified_by_its_hash_at_low_priority(filled: SimulatedEngine) -> None:
    """The same inode, size and mtime, and yet other bytes: the job that follows finds out."""
    mtime = filled.fs.lstat(PATH).mtime
    filled.fs.rename(PATH, f"{NOTES}/elsewhere/first.md")
    filled.fs.write(f"{NOTES}/elsewhere/first.md", b"# Trees\n\ncherry")
    filled.fs.set_mtime(f"{NOTES}/elsewhere/first.md", mtime)
    filled.rescan()
    assert filled.found("cherry") == [f"{NOTES}/elsewhere/first.md"]
    assert filled.found("quince") == []
    assert filled.kb.check() == []


@pytest.mark.parametrize("told", [True, False], ids=["events", "rescans only"])
def test_a_moved_folder_keeps_documents_and_vectors(filled: SimulatedEngine, told: bool) -> None:
    """W09, W10: nothing is missing at any moment, nothing embedded; what is written there then is indexed there."""
    documents, embedded = filled.documents(), len(filled.embedded())
    vectors = filled.read("SELECT chunk_id FROM vectors_1 ORDER BY 1")
    filled.fs.rename(f"{NOTES}/trees", f"{NOTES}/deep/er")
    if told:
        for path in (PATH, OTHER):
            filled.report(path, gone=True)
            filled.report(path.replace("/trees/", "/deep/er/"))
    else:
        filled.clock.advance(300)
        filled.daemon.rescan()

    def look() -> None:
        assert [hit.title for hit in filled.kb.search("quince", "lexical").hits] == ["Trees"]
        assert [hit.title for hit in filled.kb.search("medlar", "lexical").hits] == ["Shrubs"]

    _step_until_pending_is_done(filled, look)
    assert filled.found("quince") == [f"{NOTES}/deep/er/first.md"]
    assert (filled.documents(), len(filled.embedded())) == (documents, embedded)
    assert filled.read("SELECT chunk_id FROM vectors_1 ORDER BY 1") == vectors
    filled.write(f"{NOTES}/deep/er/third.md", "sloe")
    filled.settle()
    assert filled.found("sloe") == [f"{NOTES}/deep/er/third.md"]


def test_a_title_that_comes_from_the_name_follows_the_move_and_no_other_does(filled: SimulatedEngine) -> None:
    filled.write(f"{NOTES}/pears.txt", "no heading here")
    filled.settle()
    document, embedded = filled.kb.search("heading").hits[0].document_id, len(filled.embedded())
    filled.rescan()
    filled.fs.rename(f"{NOTES}/pears.txt", f"{NOTES}/apples.txt")
    filled.fs.rename(PATH, f"{NOTES}/trees/renamed.md")
    filled.rescan()
    hit = filled.kb.search("heading", "lexical").hits[0]
    assert (hit.document_id, hit.title) == (document, "apples")
    assert len(filled.embedded()) == embedded + 1, "only what carries the new title"


def test_a_move_between_sources_is_followed_whichever_is_walked_first(two: SimulatedEngine) -> None:
    """W09: the old place's source hears of it by the ledger."""
    document, embedded = two.kb.search("quince").hits[0].document_id, len(two.embedded())
    two.fs.rename(PATH, f"{ARCHIVE}/first.md")
    two.clock.advance(300)
    two.daemon.rescan()

    def look() -> None:
        assert [hit.document_id for hit in two.kb.search("quince", "lexical").hits] == [document]

    _step_until_pending_is_done(two, look)
    assert two.found("quince") == [f"{ARCHIVE}/first.md"]
    two.fs.rename(f"{ARCHIVE}/first.md", PATH)
    two.rescan()
    assert two.found("quince") == [PATH]
    assert len(two.embedded()) == embedded
    assert two.kb.check() == []


def test_a_copy_and_delete_with_new_inodes_is_recognised_by_what_it_holds(filled: SimulatedEngine) -> None:
    """W12: a checkout makes its files anew; no search in between misses the document."""
    embedded, documents = len(filled.embedded()), filled.documents()
    filled.remove(PATH)
    filled.clock.advance(1)
    filled.write(f"{NOTES}/branch/first.md", "# Trees\n\nquince")

    def look() -> None:
        assert len(filled.found("quince")) == 1

    _step_until_pending_is_done(filled, look)
    assert filled.found("quince") == [f"{NOTES}/branch/first.md"]
    assert (filled.documents(), len(filled.embedded())) == (documents, embedded)


def test_a_file_of_the_same_size_that_is_read_late_does_not_make_the_document_flash(filled: SimulatedEngine) -> None:
    """Nothing works the queue while the old path is looked for twice: the walk reads the candidate itself."""
    filled.remove(PATH)
    filled.write(f"{NOTES}/branch/first.md", "# Trees\n\nquince")
    for _ in range(60):
        filled.loops.producer.step()
        filled.loops.rescans.step()
        assert len(filled.found("quince")) == 1
        filled.clock.advance(0.25)
    assert filled.found("quince") == [f"{NOTES}/branch/first.md"]
    filled.settle()
    assert filled.state(f"{NOTES}/branch/first.md") == (FileState.INDEXED, None)


def test_a_candidate_that_cannot_be_read_is_waited_for_but_not_for_ever(filled: SimulatedEngine) -> None:
    filled.remove(PATH)
    new = f"{NOTES}/branch/first.md"
    filled.write(new, "# Trees\n\nquince")
    filled.clock.advance(2)
    filled.loops.producer.step()
    filled.clock.advance(2)
    filled.loops.producer.step()
    filled.fs.fail(new, OSError(5, "Input/output error"))
    for _ in range(100):
        filled.loops.rescans.step()
        filled.clock.advance(0.5)
    assert filled.found("quince") == [PATH]
    for _ in range(40):
        filled.loops.rescans.step()
        filled.clock.advance(0.5)
    assert filled.found("quince") == []


def test_a_hard_link_is_a_copy_and_one_name_is_enough(filled: SimulatedEngine) -> None:
    """F16: one inode, two names; one goes, the other keeps the document; an edit through one shows at both."""
    link, embedded = f"{NOTES}/link.md", len(filled.embedded())
    filled.fs.link(PATH, link)
    filled.rescan()
    hit = filled.kb.search("quince", "lexical").hits[0]
    assert hit.paths == (link, PATH)
    filled.fs.write(link, b"# Trees\n\ncherry")
    filled.rescan()
    assert filled.kb.search("cherry", "lexical").hits[0].paths == (link, PATH)
    assert filled.found("quince") == []
    filled.fs.remove(PATH)
    filled.rescan()
    assert filled.kb.search("cherry", "lexical").hits[0].paths == (link,)
    assert len(filled.embedded()) == embedded + 1


def test_of_two_equal_files_either_may_go(filled: SimulatedEngine) -> None:
    """F17"""
    twin, embedded = f"{NOTES}/twin.md", len(filled.embedded())
    filled.write(twin, "# Trees\n\nquince")
    filled.settle()
    filled.remove(PATH)
    filled.settle()
    assert filled.found("quince") == [twin]
    assert len(filled.embedded()) == embedded
    assert filled.kb.check() == []


def test_a_move_onto_a_known_path_and_an_edit_in_the_same_window_lose_nothing(filled: SimulatedEngine) -> None:
    """F18: A's file at B, whose own bytes are known at C, and edited while it is on its way."""
    third = f"{NOTES}/third.md"
    filled.fs.rename(OTHER, third)
    filled.fs.rename(PATH, OTHER)
    filled.rescan()
    assert (filled.found("medlar"), filled.found("quince")) == ([third], [OTHER])
    filled.rename(OTHER, PATH)
    filled.write(PATH, "# Trees\n\nquince and cherry")
    filled.settle()
    filled.rescan()
    assert (filled.found("cherry"), filled.found("quince")) == ([PATH], [PATH])
    assert filled.found("medlar") == [third]
    assert filled.kb.check() == []


def test_a_rename_of_the_case_alone_is_one_document_with_the_new_name(filled: SimulatedEngine) -> None:
    """F15: on a disk that takes both spellings for one file."""
    filled.fs.fold = folded
    document, embedded = filled.kb.search("quince").hits[0].document_id, len(filled.embedded())
    new = f"{NOTES}/trees/FIRST.md"
    filled.rename(PATH, new)
    filled.settle()
    for _ in range(3):
        hit = filled.kb.search("quince", "lexical").hits[0]
        assert (hit.document_id, hit.paths) == (document, (new,))
        assert filled.state(PATH)[0] is FileState.GONE
        filled.rescan()
    assert len(filled.embedded()) == embedded


def test_a_folder_whose_case_alone_changes_takes_its_files_along(filled: SimulatedEngine) -> None:
    """F15"""
    filled.fs.fold = folded
    documents = filled.documents()
    filled.fs.rename(f"{NOTES}/trees", f"{NOTES}/Trees")
    filled.rescan()
    assert filled.kb.search("quince", "lexical").hits[0].paths == (f"{NOTES}/Trees/first.md",)
    assert filled.documents() == documents


def test_two_names_that_differ_in_case_are_two_files_where_the_disk_says_so(filled: SimulatedEngine) -> None:
    """F15"""
    filled.write(f"{NOTES}/trees/FIRST.md", "# Trees\n\ncherry")
    filled.settle()
    assert filled.found("quince") == [PATH]
    assert filled.found("cherry") == [f"{NOTES}/trees/FIRST.md"]


def test_either_form_of_a_name_is_one_document_on_a_disk_that_takes_both(filled: SimulatedEngine) -> None:
    """F13: listed decomposed, reported composed; no adding and deleting over five rescans."""
    filled.fs.fold = folded
    nfc = f"{NOTES}/{unicodedata.normalize('NFC', 'Käse.md')}"
    nfd = f"{NOTES}/{unicodedata.normalize('NFD', 'Käse.md')}"
    filled.fs.write(nfd, b"# Cheese\n\ngouda")
    filled.report(nfc, closed=True)
    filled.settle()
    filled.rescan()
    before = (filled.dump(), _jobs(filled))
    assert filled.kb.search("gouda", "lexical").hits[0].paths == (nfd,)
    for _ in range(5):
        filled.report(nfc, closed=True)
        filled.report(nfd)
        filled.rescan()
        assert (filled.dump(), _jobs(filled)) == before


def test_both_forms_of_a_name_are_two_documents_where_the_disk_says_so(filled: SimulatedEngine) -> None:
    """F13"""
    nfc = f"{NOTES}/{unicodedata.normalize('NFC', 'Käse.md')}"
    nfd = f"{NOTES}/{unicodedata.normalize('NFD', 'Käse.md')}"
    filled.write(nfc, "# Cheese\n\ngouda")
    filled.write(nfd, "# Cheese\n\nedam")
    filled.settle()
    for _ in range(3):
        filled.rescan()
        assert (filled.found("gouda"), filled.found("edam")) == ([nfc], [nfd])


def test_a_file_that_becomes_a_folder_a_link_and_a_file_again_is_followed(filled: SimulatedEngine) -> None:
    """F35"""
    filled.fs.write("/simulated/outside/first.md", b"# Outside\n\nsecret")
    filled.fs.remove(f"{NOTES}/trees")
    filled.fs.symlink(f"{NOTES}/trees", "/simulated/outside")
    filled.fs.write(f"{NOTES}/stays.md", b"sloe")
    filled.rescan()
    assert filled.found("quince") == filled.found("medlar") == filled.found("secret") == []
    assert filled.state(f"{NOTES}/trees") == (FileState.SKIPPED, Reason.SYMLINK)
    filled.fs.remove(f"{NOTES}/trees")
    filled.fs.write(f"{NOTES}/trees", b"a file without an ending")
    filled.rescan()
    assert filled.state(f"{NOTES}/trees") == (FileState.SKIPPED, Reason.UNSUPPORTED)
    filled.fs.remove(f"{NOTES}/trees")
    filled.fs.write(PATH, b"# Trees\n\nquince")
    filled.rescan()
    assert filled.found("quince") == [PATH]
    assert filled.kb.check() == []


def test_an_edit_in_the_same_tick_in_which_the_file_was_read_is_found(engine: SimulatedEngine) -> None:
    """F21: neither size nor any time tells; a disk that counts whole seconds."""
    engine.write(PATH, "# Trees\n\nquince")
    now = engine.clock.now()
    engine.clock.advance(1.0)
    engine.turn()
    engine.clock.advance(0.5)
    engine.turn()
    assert engine.found("quince") == [PATH]
    before = engine.fs.lstat(PATH)
    assert now.is_integer()
    engine.fs.write(PATH, b"# Trees\n\ncherry")
    engine.fs.set_times(PATH, before)
    assert engine.fs.lstat(PATH) == before
    engine.rescan()
    assert engine.found("cherry") == [PATH]
    jobs = _jobs(engine)
    engine.rescan()
    assert _jobs(engine) == jobs, "once is enough"
