"""What a document takes from the paths that hold it, and what is not done again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from kbsync.model import Conversion, ConversionRequest, IngestOptions, Priority
from kbsync.reasons import FileState, Reason
from kbsync.store.connection import Connection
from kbsync.store.jobs import JobRow
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

FIRST, SECOND = f"{NOTES}/a.txt", f"{NOTES}/b.log"


def _changed(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "medlar")


def _removed(engine: SimulatedEngine) -> None:
    engine.remove(FIRST)


def _ignored(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/.gitignore", "a.txt\n")
    engine.settle()
    engine.rescan()


def _made_binary(engine: SimulatedEngine) -> None:
    engine.write(FIRST, b"\x00\x01\x02" * 500)


def _emptied(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "")


@pytest.mark.parametrize("content", ["quince", "# Trees\n\nquince"], ids=["title by name", "title by content"])
@pytest.mark.parametrize("lost", [_changed, _removed, _ignored, _made_binary, _emptied])
def test_title_and_type_follow_the_first_path_that_is_left(
    engine: SimulatedEngine, lost: Callable[[SimulatedEngine], None], content: str
) -> None:
    engine.write(FIRST, content)
    engine.write(SECOND, content)
    engine.settle()
    document = engine.kb.search("quince").hits[0]
    assert (document.path, document.type) == (FIRST, "markdown")
    assert document.title == ("a" if content == "quince" else "Trees")
    lost(engine)
    engine.settle()
    (hit,) = [hit for hit in engine.kb.search("quince", "lexical").hits if "quince" in hit.text]
    assert (hit.paths, hit.type, hit.title) == ((SECOND,), "text", "b")
    assert hit.document_id == document.document_id
    assert engine.kb.check() == []


def test_a_path_that_comes_before_all_others_gives_title_and_type(engine: SimulatedEngine) -> None:
    engine.write(SECOND, "quince")
    engine.settle()
    engine.write(FIRST, "quince")
    engine.settle()
    document = engine.kb.document(1)[0]
    assert (document.title, document.type) == ("a", "markdown")
    assert engine.documents() == [(1, "a", "current")]


def test_a_path_that_comes_after_others_changes_nothing(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "quince")
    engine.settle()
    before, embedded = engine.kb.document(1)[0], len(engine.embedded())
    engine.write(SECOND, "quince")
    engine.settle()
    assert engine.kb.document(1)[0] == before
    assert len(engine.embedded()) == embedded


def test_what_a_person_set_outlives_the_paths(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "quince")
    engine.write(SECOND, "quince")
    engine.settle()
    engine.add(SECOND, IngestOptions(title="Cydonia", type="code", language="python"))
    engine.write(FIRST, "medlar")
    engine.settle()
    document = engine.kb.document(1)[0]
    assert (document.title, document.type, document.language, document.title_source) == (
        "Cydonia",
        "code",
        "python",
        "hand",
    )


def test_a_rename_to_another_ending_reads_the_file_as_what_it_says_it_is_now(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/tool.txt", "def quince():\n    return 1\n")
    engine.settle()
    engine.rename(f"{NOTES}/tool.txt", f"{NOTES}/tool.py")
    engine.settle()
    document = engine.kb.document(1)[0]
    assert (document.type, document.language) == ("code", "python")
    assert len(engine.documents()) == 1


def test_other_chunk_sizes_cut_a_file_again_when_it_is_looked_at(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    text = "# Trees\n\n" + " ".join(f"word{number}" for number in range(100))
    engine = started()
    engine.write(f"{NOTES}/a.md", text)
    engine.settle()
    assert len(engine.kb.document(1)[2]) == 1
    world.configure(NOTES, text="[chunks]\nmax_tokens = 40\noverlap_tokens = 0\n")
    engine = started()
    engine.write(f"{NOTES}/a.md", text)
    engine.settle()
    assert len(engine.kb.document(1)[2]) >= 3
    assert engine.kb.check() == []


def test_a_text_that_is_in_any_version_of_any_document_is_never_embedded_again(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/a.md", "# Trees\n\nquince")
    engine.settle()
    engine.write(f"{NOTES}/b.md", "# Trees\n\nquince\n\n")
    engine.settle()
    assert len(engine.documents()) == 2, "other bytes are another document"
    assert engine.embedded() == ["Trees\n\nquince"]
    assert engine.kb.check() == []


def test_a_file_of_nothing_but_white_space_counts_as_empty(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/blank.md", " \n\n \n")
    engine.settle()
    assert engine.state(f"{NOTES}/blank.md") == (FileState.SKIPPED, Reason.EMPTY)
    assert engine.embedded() == []


def test_names_that_are_no_text_are_kept_byte_by_byte(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/qu\udce4nce.md"
    engine.write(path, "ripens late")
    engine.settle()
    assert engine.found("ripens") == [path]
    assert engine.state(path)[0] is FileState.INDEXED
    assert engine.documents() == [(1, "qu\ufffdnce", "current")]
    engine.rename(path, f"{NOTES}/quince.md")
    engine.settle()
    assert engine.found("ripens") == [f"{NOTES}/quince.md"]


# ---- the same bytes at the same time ----


class _MeanwhileCage(ReadingCage):
    """Has another worker work a whole job while the first document is read."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().run(request, time_limit_s)


def _queue(engine: SimulatedEngine, name: str, content: bytes) -> None:
    """Write a file and have it wait for a worker, after those that wait already."""
    engine.write(f"{NOTES}/{name}", content)
    engine.loops.producer.step()
    engine.clock.advance(5)
    engine.loops.producer.step()


@pytest.fixture
def beside(world: World) -> Iterator[SimulatedEngine]:
    """An engine where a second worker takes the next document while the first one is read."""
    cage = _MeanwhileCage()
    engine = SimulatedEngine(world, cage)
    other = engine.engine.worker(lambda _source_id: None, "document", Priority.LOW)
    cage.meanwhile.append(other.step)
    yield engine
    assert not cage.meanwhile, "nothing was read"
    engine.close()


@pytest.mark.parametrize("names", [("a.pdf", "b.pdf"), ("b.pdf", "a.pdf")])
def test_two_equal_files_read_at_the_same_time_are_one_document_named_after_the_first(
    beside: SimulatedEngine, names: tuple[str, str]
) -> None:
    for name in names:
        _queue(beside, name, b"quince")
    beside.settle()
    (hit,) = beside.kb.search("quince", "lexical").hits
    assert (hit.paths, hit.title) == ((f"{NOTES}/a.pdf", f"{NOTES}/b.pdf"), "a")


def test_of_two_equal_files_added_at_the_same_time_one_is_added_and_one_is_indexed_already(
    beside: SimulatedEngine,
) -> None:
    jobs = []
    for name in ("a.pdf", "b.pdf"):
        beside.fs.write(f"/simulated/desk/{name}", b"quince")
        jobs.append(beside.kb.adding.add_file(f"/simulated/desk/{name}", IngestOptions()))
    beside.settle()
    ends = sorted((beside.job(job_id).state, beside.job(job_id).reason) for job_id in jobs)
    assert ends == [("done", None), ("skipped", "already_indexed")]
    assert os.listdir(beside.world.locations.staging_dir) == []


def test_equal_bytes_under_a_name_that_comes_first_are_indexed_already_and_give_the_title(
    engine: SimulatedEngine,
) -> None:
    ends: list[JobRow] = []
    for name in ("/simulated/desk/b.pdf", "/simulated/desk/a.pdf"):
        engine.fs.write(name, b"quince")
        assert (engine.kb.adding.look_at(name, IngestOptions()) is None) == bool(ends)
        ends.append(engine.add(name))
    assert [(job.state, job.reason) for job in ends] == [("done", None), ("skipped", "already_indexed")]
    (hit,) = engine.kb.search("quince", "lexical").hits
    assert (hit.title, len(hit.paths)) == ("a", 2)


def test_of_two_names_that_come_first_at_the_same_time_the_very_first_gives_the_title(world: World) -> None:
    cage = _MeanwhileCage()
    engine = SimulatedEngine(world, cage)
    engine.write(f"{NOTES}/c.pdf", b"quince")
    engine.settle()
    cage.meanwhile.append(engine.engine.worker(lambda _source_id: None, "document", Priority.LOW).step)
    for name in ("a.pdf", "b.pdf"):  # the newest is read first
        _queue(engine, name, b"quince")
    engine.settle()
    assert not cage.meanwhile, "nothing was read"
    (hit,) = engine.kb.search("quince", "lexical").hits
    assert (hit.title, len(hit.paths)) == ("a", 3)
    engine.close()


def test_content_that_moved_on_while_it_was_recognised_has_its_own_names_title(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F18: names are passed on, a -> b -> c; c.txt is recognised while b.txt still seems to hold the same."""
    for name, text in (("a", "medlar"), ("b", "quince"), ("c", "sorb")):
        engine.write(f"{NOTES}/{name}.txt", text)
    engine.settle()
    _queue(engine, "b.txt", b"medlar")
    _queue(engine, "c.txt", b"quince")
    run, other = engine.engine.writer.run, engine.engine.worker(lambda _source_id: None, "text", Priority.LOW)
    calls = []

    def run_beside(work: Callable[[Connection], object]) -> object:
        calls.append(work)
        if len(calls) == 2:  # claimed and read, c.txt is about to be written: b.txt is before that
            assert other.step()
        return run(work)

    monkeypatch.setattr(engine.engine.writer, "run", run_beside)
    engine.loops.workers[0].step()
    engine.settle()
    (hit,) = engine.kb.search("quince", "lexical").hits
    assert (hit.path, hit.title) == (f"{NOTES}/c.txt", "c")
