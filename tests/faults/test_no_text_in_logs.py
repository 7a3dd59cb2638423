"""A13: no log ever holds the text of a document or what was searched for, whatever fails and however it says so."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from kbsync import log
from kbsync.errors import FailFile, KbsyncError, RetryLater
from kbsync.interfaces.operations import Operations
from kbsync.model import Conversion, ConversionRequest
from kbsync.pipelines import enrich
from kbsync.pipelines.isolated_child import Failure, _meaning
from kbsync.reasons import Reason
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

if TYPE_CHECKING:
    from kbsync.model import Vectors

CANARY = "canary9b42"
TEXTS = {
    "plain.md": "# {0}\n\n## {0}\n\nThe {0} sings.\n",
    "front.md": "---\ntitle: [{0}\n  - : {0}: !!\n---\n{0}\n",
    "front.txt": "+++\ntitle = {0}\n+++\n{0}\n",
    "note.rst": "{0}\n====\n\n.. include:: {0}\n",
    "code.py": "def {0}(:\n    '''{0}\n",
    "code.sh": "case {0} in\n<<{0}\n",
    "code.go": "package {0}\nfunc {0}( {{ /* {0}",
    "data.json": '{{"{0}": {0}',
    "data.yaml": "{0}: [\n- {0}: :",
    "data.xml": "<{0}><a>{0}</{0}",
    "rows.csv": '"{0},{0}\n{0};"{0}',
    "book.ipynb": '{{"cells": [{{"cell_type": "{0}", "source": {{"{0}": 1}}}}], "nbformat": "{0}"}}',
    "mail.eml": "From: {0}\nSubject: =?{0}?q?{0}?=\nContent-Type: text/{0}; charset={0}\n\n{0}\n",
    "page.html": "<html><title>{0}</title><{0}>{0}",
    "fine.pdf": "{0} on a page",
    "locked.pdf": "password {0}\n{0}",
    "damaged.pdf": "{0}",
    "quoting.pdf": "{0} as a library would quote it",
    "book.epub": "{0}",
}


class QuotingCage(ReadingCage):
    """Reads as libraries do that quote what they choke on: `quoting` in this process, as a child would tell it."""

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        if request.name.startswith("quoting"):
            with open(request.path, encoding="utf-8") as file:
                raise _meaning(ValueError(f"cannot read {file.read()!r}"), request.name).error()
        return super().run(request, time_limit_s)


class QuotingDevice(HashDevice):
    """A model that fails over texts of these files, each time by another error, and quotes them."""

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        whole = " ".join(texts)
        if "rows" in whole or query:
            raise KeyError(whole)
        if "code" in whole:
            raise UnicodeEncodeError("utf-8", whole, 0, 1, whole)
        return super().encode(texts, query)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """Have everything be logged, into files and on stderr; return the folder of the files."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    for handler in before:
        root.removeHandler(handler)
    folder = tmp_path / "logs"
    log.configure(str(folder / "kbsync.log"), "debug", terminal=True)
    log.set_level("debug")
    yield folder
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)
    logging.getLogger("kbsync").setLevel(logging.NOTSET)
    structlog.reset_defaults()


def logged(logs: Path, home: Path) -> str:
    """Return all that was logged, the log of failures included."""
    files = [*logs.iterdir(), *home.rglob("*.log"), *home.rglob("*.log.*")]
    return "".join(file.read_text(encoding="utf-8") for file in files)


def test_no_text_of_any_document_is_logged_however_it_fails(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13: each type, read, damaged, locked, choking the reader, the model and ourselves; then reindexed."""
    world = World.new(tmp_path / "home", QuotingDevice())
    world.configure(NOTES, text='log_level = "debug"')
    world.fs.make_directory(NOTES)
    made = enrich.make_chunks

    def quoting(parsed: object, title: str, counter: object) -> object:
        if "mail" in title or "note" in title:
            raise LookupError(f"no place for {parsed!r}")
        return made(parsed, title, counter)  # type: ignore[arg-type]

    monkeypatch.setattr(enrich, "make_chunks", quoting)
    cage = QuotingCage()
    cage.refused = {"damaged.pdf"}
    life = SimulatedEngine(world, cage)
    try:
        life.settle()
        for name, text in TEXTS.items():
            life.write(f"{NOTES}/{name}", text.format(CANARY))
        life.settle()
        for name in ("plain.md", "rows.csv"):
            life.write(f"{NOTES}/{name}", TEXTS[name].format(CANARY) + CANARY)
        life.note(CANARY, "mail of mine")
        operations = Operations(life.engine, None)
        for query in (CANARY, f'"{CANARY}', f"{CANARY} AND NEAR({CANARY}*", f"title:{CANARY} type:{CANARY}"):
            for mode in ("lexical", "vector", "hybrid"):
                try:
                    operations.search(query, mode)
                except KbsyncError:
                    pass  # what is said to who asked goes to nobody else
        life.settle()
        states = {life.state(f"{NOTES}/{name}")[0] for name in TEXTS}
        assert {"indexed", "failed"} <= states
    finally:
        life.close()
    found = logged(logs, tmp_path / "home")
    assert found.count('"job_crashed"') >= 2, "what quotes has been met"
    assert "quoting.pdf" in found
    assert CANARY not in found
    assert CANARY not in capsys.readouterr().err


def test_what_fails_while_a_model_is_changed_is_not_logged_with_its_text(tmp_path: Path, logs: Path) -> None:
    """A13: a text that the new model cannot embed is told by its length."""
    world = World.new(tmp_path / "home")
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    world.fs.write(f"{NOTES}/rows.md", f"# rows\n\n{CANARY} and more\n".encode())
    first = SimulatedEngine(world)
    first.rescan()
    first.close()
    second = SimulatedEngine(world.with_model(8))
    second.device.encode = QuotingDevice(8).encode  # type: ignore[method-assign]
    try:
        for _ in range(20):
            second.turn()
            second.clock.advance(1.0)
    finally:
        second.close()
    found = logged(logs, tmp_path / "home")
    assert "reindex_text_failed" in found
    assert CANARY not in found


def test_a_surprise_in_a_child_is_told_by_its_class() -> None:
    """A13: it comes back as the reason why the file failed, and that goes into the log of failures."""
    failure = _meaning(ValueError(CANARY), "a.pdf")
    assert isinstance(failure, Failure)
    assert CANARY not in str(failure.error())
    assert "ValueError" in str(failure.error())
    ours = FailFile(Reason.CORRUPT, "a.pdf: its page 3 is damaged.")
    assert str(_meaning(ours, "a.pdf").error()) == str(ours)


def test_foreign_causes_of_our_own_errors_are_told_without_their_words(tmp_path: Path, logs: Path) -> None:
    """A13: an error of ours that was raised out of a foreign one is told with it, without its words."""
    try:
        try:
            json.loads(f'{{"{CANARY}"')
        except ValueError as error:
            raise RetryLater(Reason.IO, "Come again.") from LookupError(f"{CANARY} {error}")
    except RetryLater:
        structlog.stdlib.get_logger("kbsync.test").exception("loop_ended")
    found = logged(logs, tmp_path)
    assert "Come again." in found
    assert "LookupError" in found
    assert CANARY not in found


ENDING = """
import sys
from kbsync import log
log.configure(sys.argv[1], "info", terminal=True)
log.tell_the_end()
raise KeyError(sys.argv[2])
"""


def test_what_ends_the_process_is_told_without_the_text(tmp_path: Path) -> None:
    """A13: Python's own account of it would go to the journal with what it quotes."""
    file = tmp_path / "kbsync.log"
    ended = subprocess.run([sys.executable, "-c", ENDING, str(file), CANARY], capture_output=True, text=True)
    assert ended.returncode == 1
    (line,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (line["event"], line["level"]) == ("ended_unforeseen", "critical")
    assert line["exception"].endswith("KeyError")
    assert "ended_unforeseen" in ended.stderr
    assert CANARY not in ended.stderr + ended.stdout + file.read_text()
