"""Group F of the fault list on the disk in memory: what a file may be or do while the whole engine looks at it.

Each test begins with the ids of the rows it shows.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from itertools import pairwise

import pytest

from kbsync.errors import SkipFile
from kbsync.model import Conversion, ConversionRequest
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

A = f"{NOTES}/a.md"


def hashes(engine: SimulatedEngine) -> list[str]:
    return [content_hash for (content_hash,) in engine.read("SELECT content_hash FROM documents ORDER BY id")]


def jobs(engine: SimulatedEngine) -> int:
    return int(engine.read("SELECT count(*) FROM jobs")[0][0])


@pytest.mark.parametrize("pause_s", [0.1, 0.5, 3.0, 30.0])
def test_f01_a_file_that_is_written_in_pieces_is_never_indexed_mixed(engine: SimulatedEngine, pause_s: float) -> None:
    """F01: the writer pauses and keeps the file open; each version that is read is one that was there."""
    written, versions = b"# Report\n\n", set()
    for piece in range(6):
        written += b"piece %d of the larch\n\n" % piece
        engine.fs.write(A, written)
        engine.report(A)
        versions.add(hashlib.sha256(written).hexdigest())
        for _ in range(max(1, int(pause_s / 0.25))):
            engine.turn()
            engine.clock.advance(min(pause_s, 0.25))
    engine.report(A, closed=True)
    engine.settle()
    assert set(hashes(engine)) <= versions
    assert engine.read("SELECT content_hash FROM documents WHERE state = 'current'") == [
        (hashlib.sha256(written).hexdigest(),)
    ]
    if pause_s < 1:
        assert len(hashes(engine)) == 1, "before it is quiet nothing is read"


class ChangingCage:
    """Converts what it is given, and has something happen to the file meanwhile, once."""

    def __init__(self, engine: SimulatedEngine, deed: Callable[[], None]) -> None:
        self._run = engine.cage.run
        self._deed = deed
        self.happened = False

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        if not self.happened:
            self.happened = True
            self._deed()
        return self._run(request, time_limit_s)


@pytest.mark.parametrize("told", [True, False], ids=["told", "found by a walk"])
def test_f02_what_is_replaced_while_it_is_converted_is_indexed_as_what_it_is(
    engine: SimulatedEngine, told: bool
) -> None:
    """F02: hash and conversion are of the same bytes, and the later ones win."""
    path, old, new = f"{NOTES}/a.pdf", b"%PDF-1.4 the larch", b"%PDF-1.4 the alder"

    def replaced() -> None:
        engine.fs.write(f"{NOTES}/new.tmp", new)
        engine.fs.rename(f"{NOTES}/new.tmp", path)
        if told:
            engine.report(path, closed=True)
            engine.clock.advance(1.0)
            engine.loops.producer.step()
            engine.clock.advance(1.0)
            engine.loops.producer.step()

    changing = ChangingCage(engine, replaced)
    engine.cage.run = changing.run  # type: ignore[method-assign]  # the seam itself is the point
    engine.write(path, old)
    engine.settle()
    texts = dict(engine.read("SELECT content_hash, text FROM chunks JOIN documents ON documents.id = document_id"))
    assert all(hashlib.sha256(text.encode()).hexdigest() == content_hash for content_hash, text in texts.items())
    engine.rescan()
    assert changing.happened
    assert engine.found("alder") == [path]
    assert engine.found("larch") == []


@pytest.mark.parametrize("gap_s", [0.05, 0.3, 1.0])
def test_f03_a_file_that_is_emptied_and_written_anew_is_at_no_time_empty(engine: SimulatedEngine, gap_s: float) -> None:
    """F03: and what it held stays found meanwhile."""
    engine.write(A, "# A\n\nthe larch")
    engine.settle()
    engine.fs.write(A, b"")
    engine.report(A)
    for _ in range(5):
        engine.turn()
        engine.clock.advance(gap_s / 5)
        assert engine.found("larch") == [A]
        assert engine.state(A)[0] is not FileState.SKIPPED
    engine.write(A, "# A\n\nthe alder")
    engine.settle()
    assert engine.found("alder") == [A]
    assert engine.read("SELECT count(*) FROM documents") == [(2,)]


def test_f04_a_file_that_may_not_be_read_any_more_keeps_what_it_held(engine: SimulatedEngine) -> None:
    """F04: also where its folder is closed; on a real disk in test_unprivileged."""
    engine.write(A, "# A\n\nthe larch")
    engine.write(f"{NOTES}/deep/b.md", "# B\n\nthe alder")
    engine.settle()
    engine.fs.write(A, b"# A\n\nthe maple")
    for closed in (A, f"{NOTES}/deep"):
        engine.fs.fail(closed, PermissionError(errno.EACCES, "Permission denied", closed))
    for _ in range(3):
        engine.rescan()
        assert engine.found("larch") == [A]
        assert engine.found("alder") == [f"{NOTES}/deep/b.md"]
    assert engine.state(A) == (FileState.FAILED, "permission")
    assert engine.state(f"{NOTES}/deep") == (FileState.FAILED, "permission")
    for closed in (A, f"{NOTES}/deep"):
        engine.fs.heal(closed)
    engine.write(A, "# A\n\nthe hazel")
    engine.rescan()
    assert engine.found("hazel") == [A]
    assert engine.state(f"{NOTES}/deep/b.md") == (FileState.INDEXED, None)


def test_f05_what_vanishes_before_it_is_opened_ends_without_a_storm(engine: SimulatedEngine) -> None:
    """F05: between event and open."""
    for number in range(20):
        engine.write(f"{NOTES}/{number}.md", f"# Page\n\nthe larch {number}")
    engine.clock.advance(2.0)
    engine.loops.producer.step()
    engine.clock.advance(2.0)
    engine.loops.producer.step()
    assert engine.kb.unsettled() == 20
    for number in range(20):
        engine.remove(f"{NOTES}/{number}.md")
    engine.settle()
    engine.rescan()
    assert engine.documents() == []
    assert jobs(engine) == 20
    assert engine.read("SELECT max(attempts) FROM jobs") == [(1,)]


def test_f05_what_vanishes_while_it_is_converted_is_hidden_by_the_walk_that_follows(engine: SimulatedEngine) -> None:
    """F05: between hash and conversion."""
    path = f"{NOTES}/a.pdf"
    changing = ChangingCage(engine, lambda: engine.remove(path))
    engine.cage.run = changing.run  # type: ignore[method-assign]  # the seam itself is the point
    engine.write(A, "# A\n\nanother file stays")
    engine.write(path, b"%PDF-1.4 the larch")
    engine.settle()
    engine.rescan()
    assert changing.happened
    assert engine.found("larch") == []
    assert engine.state(path)[0] is FileState.GONE


def sharing_violation(path: str) -> OSError:
    error = PermissionError(errno.EACCES, "in use", path)
    error.winerror = 32  # type: ignore[attr-defined]  # only Windows' own have it
    return error


@pytest.mark.parametrize(
    "error", [lambda path: OSError(errno.EBUSY, "Device or resource busy", path), sharing_violation]
)
def test_f06_a_locked_file_is_tried_again_with_growing_pauses_and_counted_in_the_end(
    engine: SimulatedEngine, error: Callable[[str], OSError]
) -> None:
    """F06: EBUSY, and what Windows says of a file that another program keeps to itself."""
    tries: list[float] = []
    known = engine.fs.open_file

    def locked(path: str) -> object:
        if path == A:
            tries.append(engine.clock.now())
            raise error(path)
        return known(path)

    engine.fs.open_file = locked  # type: ignore[method-assign,assignment]  # the disk refuses this one
    engine.write(A, "# A\n\nthe larch")
    engine.settle()
    pauses = [later - sooner for sooner, later in pairwise(tries)]
    assert len(tries) > 2
    assert pauses == sorted(pauses)
    assert engine.state(A) == (FileState.FAILED, "io")
    engine.fs.open_file = known  # type: ignore[method-assign]
    engine.write(A, "# A\n\nthe alder")
    engine.settle()
    assert engine.found("alder") == [A]


def test_f07_a_document_above_the_limit_is_never_opened(engine: SimulatedEngine) -> None:
    """F07: a text of any size is read from its start, in flat memory: test_file_states_real."""
    huge = engine.fs
    huge.write(f"{NOTES}/film.pdf", b"%PDF-1.4")
    node = huge._find(f"{NOTES}/film.pdf", follow_parents=False)
    node.content = bytearray(200_000_001)  # type: ignore[assignment]  # zeros cost nothing until they are read
    engine.rescan()
    assert engine.state(f"{NOTES}/film.pdf") == (FileState.SKIPPED, "too_large")
    assert engine.cage.requests == []
    with pytest.raises(SkipFile) as refused:
        engine.add(f"{NOTES}/film.pdf")
    assert refused.value.reason is Reason.TOO_LARGE


def test_f13_two_spellings_of_one_name_are_two_files_where_the_disk_says_so(engine: SimulatedEngine) -> None:
    """F13: NFC and NFD, on a disk that keeps both; five walks change nothing."""
    names = ["caf\u00e9.md", "cafe\u0301.md"]
    for number, name in enumerate(names):
        engine.write(f"{NOTES}/{name}", f"# Menu {number}\n\nthe larch {number}")
    engine.settle()
    before = engine.index()
    events = engine.read("SELECT count(*) FROM events")
    assert sorted(engine.found("larch"), key=str) == sorted(f"{NOTES}/{name}" for name in names)
    for _ in range(5):
        engine.rescan()
    assert engine.index() == before
    assert engine.read("SELECT count(*) FROM events") == events


ODD_NAMES = {
    "invalid utf-8": "caf\udce9.md",
    "newline": "two\nlines.md",
    "tab": "a\ttab.md",
    "escape": "red\x1b[31m.md",
    "right to left": "\u202egnp.md",
    "leading dash": "-rf.md",
    "255 bytes": "x" * 252 + ".md",
    "quotes": 'it\'s "so" `called`.md',
    "percent": "100%25 %s.md",
}


def test_f14_a_name_of_any_bytes_is_indexed_found_and_explained(engine: SimulatedEngine) -> None:
    """F14: and it comes back from the database as the very bytes."""
    for number, name in enumerate(ODD_NAMES.values()):
        engine.write(f"{NOTES}/{name}", f"# Page {number}\n\nthe larch {number}")
    engine.settle()
    assert sorted(path or "" for path in engine.found("larch")) == sorted(f"{NOTES}/{n}" for n in ODD_NAMES.values())
    for name in ODD_NAMES.values():
        assert engine.state(f"{NOTES}/{name}") == (FileState.INDEXED, None), name
    before = engine.index()
    engine.rescan()
    assert engine.index() == before
    for name in ODD_NAMES.values():
        engine.remove(f"{NOTES}/{name}")
    engine.write(f"{NOTES}/left.md", "# Left\n\none is left")
    engine.rescan()
    engine.rescan()
    assert engine.found("larch") == []


def test_f14_a_path_longer_than_the_system_takes_is_counted_and_told(engine: SimulatedEngine) -> None:
    """F14: a path of more than 4096 bytes can be seen and not opened."""
    path = f"{NOTES}/" + "/".join(["d" * 200] * 21) + "/a.md"
    engine.fs.write(path, b"# Deep\n\nthe larch")
    engine.rescan()
    assert engine.state(path) == (FileState.FAILED, "io")


def test_f16_two_names_of_one_inode_are_two_paths_of_one_document(engine: SimulatedEngine) -> None:
    """F16: one is deleted, the other keeps it; content changed through one is found at both."""
    b = f"{NOTES}/b.md"
    engine.write(A, "# Page\n\nthe larch")
    engine.settle()
    engine.fs.link(A, b)
    engine.rescan()
    assert engine.kb.documents()[0][0][1] == [A, b]
    engine.write(A, "# Page\n\nthe alder")
    engine.rescan()
    assert engine.kb.documents()[0][0][1] == [A, b], "no event came for the other name"
    assert engine.found("larch") == []
    engine.remove(A)
    engine.rescan()
    assert engine.found("alder") == [b]
    assert len(engine.embedded()) == 2


@pytest.mark.parametrize("mtime", [0.0, -86400.0 * 365, 7_258_118_400.0, 946_684_800.0])
def test_f19_a_change_is_seen_whatever_its_time_says(engine: SimulatedEngine, mtime: float) -> None:
    """F19: years 1970, 1969, 2200 and 2000: restored from a backup, `cp -p`, `git checkout`."""
    engine.write(A, "# A\n\nthe larch")
    engine.settle()
    engine.rescan()  # nothing is due any more that would have it read again whatever it looks like
    engine.fs.write(A, b"# A\n\nthe alder")
    engine.fs.set_mtime(A, mtime)
    engine.rescan()
    assert engine.found("alder") == [A]
    jobs_before = jobs(engine)
    engine.rescan()
    assert jobs(engine) == jobs_before, "and it is settled, however far from now"


def test_f20_a_change_that_keeps_size_and_time_shows_by_ctime(engine: SimulatedEngine) -> None:
    """F20: `utime` sets mtime back; nobody sets ctime."""
    engine.write(A, "# A\n\nthe larch")
    engine.settle()
    engine.rescan()
    mtime = engine.fs.lstat(A).mtime
    engine.fs.write(A, b"# A\n\nthe alder")
    engine.fs.set_mtime(A, mtime)
    engine.rescan()
    assert engine.found("alder") == [A]


@pytest.mark.parametrize("row", ["F23", "F24"])
def test_f23_f24_a_touch_or_a_change_of_rights_converts_and_embeds_nothing(engine: SimulatedEngine, row: str) -> None:
    """F23, F24: each file is hashed once, and then left alone. Rights and attributes move ctime only."""
    paths = [f"{NOTES}/{number}.{ending}" for number in range(25) for ending in ("md", "pdf")]
    for number, path in enumerate(paths):
        engine.fs.write(
            path, b"%%PDF-1.4\n\nthe larch %d" % number if path.endswith("pdf") else b"the alder %d" % number
        )
    engine.rescan()
    engine.rescan()
    embedded, converted, before = len(engine.embedded()), len(engine.cage.requests), jobs(engine)
    index = engine.index()
    for path in paths:
        now = engine.clock.now()
        engine.fs.set_mtime(path, now if row == "F23" else engine.fs.lstat(path).mtime)
    engine.rescan()
    assert jobs(engine) == before + len(paths)
    engine.rescan()
    engine.rescan()
    assert jobs(engine) == before + len(paths)
    assert (len(engine.embedded()), len(engine.cage.requests)) == (embedded, converted)
    assert engine.index() == index
