"""Documents through the real program: each kind is found, text does not wait for them, and no process is left over."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Road
from tests.end_to_end.program import PATIENCE_S, Daemon, Program, Record
from tests.end_to_end.test_live import assert_soon, is_busy, seconds_until_found, word_of
from tests.fakes.eventually import eventually

# What takes a minute and a half on quiet cores takes several where others want them too: children stand back.
# And the story measures how soon a text is found meanwhile.
pytestmark = [pytest.mark.timeout(900), pytest.mark.alone]
LONG_S = 400.0
LOOKS = 3

LOCKED, PASSWORD = "2206.01062_pg3.pdf", "1234"
# Name -> (where in the corpus, a sentence of it, its page).
DOCUMENTS: dict[str, tuple[str, str, int | None]] = {
    "multi_page.pdf": ("pdf", "Christopher Latham Sholes typewriter", 1),
    "ocr_test_rotated_90.pdf": ("scans", "Docling bundles PDF document conversion to JSON and Markdown", 1),
    "word_sample.docx": ("docx", "lay down in a water and try not to drown", None),
    "wiki_duck.html": ("html", "Duck is the common name for numerous species of waterfowl", None),
    "qr_bill_example.jpg": ("images", "Robert Schneider Rue du Lac", 1),
    "xlsx_05_table_with_title.xlsx": ("office", "Number of freshwater ducks per year", 1),
}
LONG_PDF = "redp5110_sampled.pdf"  # 18 pages
KOREAN, KOREAN_SENTENCE = "normal_4pages.pdf", "보험약관상 재해보험금"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a daemon ended while it converted, and what `status` says then."""

    code: int
    seconds: float
    children: int
    readers_left: list[int]
    children_left: list[int]
    status: Record


@dataclass(frozen=True, slots=True)
class Story:
    """One data folder: all is read, SIGTERM while one more is read, a run that ends it, SIGKILL in the middle."""

    program: Program
    folder: Path
    busy: bool
    seconds: list[float]
    converting_still: bool
    hits: dict[str, Record]
    locked: Record
    unlocked: Record
    unlocked_hit: Record
    terminated: Ended
    messages: str
    after_restart: Record
    killed: Ended


def being_read(daemon: Daemon, name: str) -> bool:
    """Return whether a child works on a file: its start is over."""
    children = daemon.client.get("status")["conversion"]["children"]
    return any(child["file"] == name and child["resident_bytes"] > 0 for child in children)


def settle(daemon: Daemon) -> None:
    ticket = int(daemon.client.post("local/rescan")["ticket"])
    eventually(lambda: bool(daemon.client.get("local/settled", ticket=ticket)["settled"]), within_s=LONG_S, every_s=0.2)


def first_hit(daemon: Daemon, query: str) -> Record:
    hits = daemon.client.get("search", q=query)["hits"]
    return dict(hits[0]) if hits else {}


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ended(program: Program, daemon: Daemon, number: signal.Signals, *, patience_s: float) -> Ended:
    """Signal a daemon; give what it started the time to end by itself.

    `readers_left`: of those that read documents, whoever is there when the daemon has just gone. Python's own
    resource tracker cannot be among them: it ends when it hears that its parent has.
    """
    begun = time.monotonic()
    readers = [child["pid"] for child in daemon.client.get("status")["conversion"]["children"] if child["pid"]]
    children = [child.pid for child in psutil.Process(daemon.process.pid).children(recursive=True)]
    daemon.signal(number)
    code = daemon.ended(within_s=30)
    readers_left = [pid for pid in readers if alive(pid)]
    seconds = time.monotonic() - begun
    deadline = time.monotonic() + patience_s
    while any(alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in children if alive(pid)]
    return Ended(code, seconds, len(children), readers_left, left, program.json("status", code=4))


@pytest.fixture(scope="module")
def story(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    base = tmp_path_factory.mktemp("documents").resolve()
    program, folder = Program(base / "home"), base / "folder"
    folder.mkdir()
    for name, (where, _, _) in DOCUMENTS.items():
        shutil.copyfile(corpus / where / name, folder / name)
    for name in (LOCKED, LONG_PDF):
        shutil.copyfile(corpus / "pdf" / name, folder / name)
    program.configure(folder)
    busy = is_busy()
    with ExitStack() as stack:
        daemon = stack.enter_context(program.daemon())
        eventually(daemon.has_model, within_s=PATIENCE_S, every_s=0.2)
        eventually(lambda: being_read(daemon, LONG_PDF), within_s=LONG_S, every_s=0.1)
        road = Road(program, daemon, folder)
        seconds = [seconds_until_found(road, folder / f"note-{n}.md", word_of("paper", n)) for n in range(LOOKS)]
        converting_still = being_read(daemon, LONG_PDF)
        settle(daemon)
        hits = {name: first_hit(daemon, sentence) for name, (_, sentence, _) in DOCUMENTS.items()}
        locked = program.json("why", str(folder / LOCKED))
        (base / "passwords").write_text(f"4321\n{PASSWORD}\n")
        unlocked = program.json("add", str(folder / LOCKED), "--password-file", str(base / "passwords"))
        unlocked_hit = first_hit(daemon, "Despite being cost-intense and less flexible annotation")
        shutil.copyfile(corpus / "pdf" / KOREAN, folder / KOREAN)
        eventually(lambda: being_read(daemon, KOREAN), within_s=LONG_S, every_s=0.02)
        terminated = ended(program, daemon, signal.SIGTERM, patience_s=2)
        messages = daemon.messages
        daemon = stack.enter_context(program.daemon())
        settle(daemon)
        after_restart = first_hit(daemon, KOREAN_SENTENCE)
        (folder / "again.pdf").write_bytes((corpus / "pdf" / LONG_PDF).read_bytes() + b"\n% other bytes\n")
        eventually(lambda: being_read(daemon, "again.pdf"), within_s=LONG_S, every_s=0.02)
        killed = ended(program, daemon, signal.SIGKILL, patience_s=2)
        yield Story(
            program,
            folder,
            busy,
            seconds,
            converting_still,
            hits,
            locked,
            unlocked,
            unlocked_hit,
            terminated,
            messages,
            after_restart,
            killed,
        )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_kind_of_document_is_found_by_a_sentence_with_its_page(story: Story, name: str) -> None:
    hit = story.hits[name]
    assert hit["path"] == str(story.folder / name)
    assert hit["page"] == DOCUMENTS[name][2]


def test_a_scan_says_which_pages_ocr_read(story: Story) -> None:
    number = story.hits["ocr_test_rotated_90.pdf"]["document_id"]
    assert story.program.json("documents", "show", str(number))["metadata"]["ocr_pages"] == [1]
    number = story.hits["multi_page.pdf"]["document_id"]
    assert "ocr_pages" not in story.program.json("documents", "show", str(number))["metadata"]


def test_a_locked_pdf_says_so_and_is_read_with_a_password_file(story: Story) -> None:
    assert (story.locked["state"], story.locked["reason"]) == ("failed", "password_required")
    (added,) = story.unlocked["added"]
    assert added["path"] == str(story.folder / LOCKED)
    assert story.unlocked_hit["path"] == str(story.folder / LOCKED)
    assert PASSWORD not in story.messages


def test_text_does_not_wait_for_a_long_document(story: Story) -> None:
    assert story.converting_still, "the document was done: the times say nothing"
    assert_soon(story.busy, story.seconds)


def test_sigterm_while_a_document_is_read_ends_in_time_and_leaves_no_child(story: Story) -> None:
    assert story.terminated.code == 0, story.messages
    assert story.terminated.seconds < 10
    assert story.terminated.children >= 1
    assert story.terminated.readers_left == []
    assert story.terminated.children_left == []
    assert "Traceback" not in story.messages


def test_what_was_being_read_is_queued_again_and_the_next_run_reads_it(story: Story) -> None:
    queue = story.terminated.status["queue"]
    assert (queue["queued"], queue["processing"]) == (1, 0)
    assert story.after_restart["path"] == str(story.folder / KOREAN)
    assert story.after_restart["page"] >= 1


def test_a_killed_daemon_leaves_no_child_after_two_seconds(story: Story) -> None:
    assert story.killed.code == -signal.SIGKILL
    assert story.killed.children >= 1
    assert story.killed.children_left == []
