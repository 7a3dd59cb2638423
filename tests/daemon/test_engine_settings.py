"""Settings that change while the daemon runs are honoured: what they leave out goes, what they take in comes."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kbsync.reasons import FileState
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

# More than the brake lets go unasked.
MANY = 40


@dataclass(frozen=True, slots=True)
class Setting:
    """A source's settings that leave out `docs/`, one way each."""

    ignore: Sequence[str] = ()
    include: Sequence[str] = ()
    recursive: bool = True
    rules: str = ""

    def written(self) -> str:
        return (
            f"[[sources]]\npath = '{NOTES}'\nrecursive = {json.dumps(self.recursive)}\n"
            f"ignore = {json.dumps(list(self.ignore))}\ninclude = {json.dumps(list(self.include))}\n"
        )


LEAVING_OUT = {
    "ignore": Setting(ignore=["docs/"]),
    "include": Setting(include=["top*.md"]),
    "not recursive": Setting(recursive=False),
    ".kbignore": Setting(rules="docs/"),
    ".gitignore by name": Setting(rules="page*"),
}


def fill(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/top.md", b"# Top\n\nthe larch")
    for number in range(MANY):
        engine.fs.write(f"{NOTES}/docs/page{number}.md", f"# Page {number}\n\nthe hornbeam {number}".encode())


def states(engine: SimulatedEngine) -> dict[str, int]:
    return dict(engine.read("SELECT state, count(*) FROM documents GROUP BY state"))


@pytest.mark.parametrize("how", LEAVING_OUT)
def test_what_a_setting_leaves_out_is_hidden_at_once_and_comes_back_with_nothing_embedded(
    engine: SimulatedEngine, how: str
) -> None:
    """W22, I18: also more than the brake would let go, had it been deleted."""
    setting = LEAVING_OUT[how]
    fill(engine)
    engine.rescan()
    assert states(engine) == {"current": MANY + 1}
    embedded = len(engine.embedded())
    if setting.rules:
        engine.write(f"{NOTES}/{how.split()[0]}", setting.rules)
        engine.rescan()
    else:
        engine.configure(text=setting.written())
        engine.settle()
    assert engine.found("hornbeam") == []
    assert engine.found("larch") == [f"{NOTES}/top.md"]
    assert states(engine).get("current") == 1
    assert engine.source_state() == ("watching", None)
    if setting.rules:
        engine.remove(f"{NOTES}/{how.split()[0]}")
        engine.rescan()
    else:
        engine.configure(NOTES)
        engine.settle()
    assert states(engine) == {"current": MANY + 1}
    assert len(engine.embedded()) == embedded
    assert engine.kb.check() == []


@pytest.mark.parametrize("how", ["ignore", "include", "not recursive", ".kbignore", ".gitignore by name"])
def test_jobs_that_wait_are_judged_again_when_their_turn_comes(engine: SimulatedEngine, how: str) -> None:
    """W22: the queue is full when the settings change."""
    setting = LEAVING_OUT[how]
    fill(engine)
    engine.clock.advance(60)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    assert engine.kb.unsettled() == MANY + 1
    if setting.rules:
        engine.fs.write(f"{NOTES}/{how.split()[0]}", setting.rules.encode())
    else:
        engine.world.configure(text=setting.written())
        engine.daemon.reload()
    while any(worker.step() for worker in engine.loops.workers):
        pass
    assert engine.read("SELECT title FROM documents") == [("Top",)]
    assert len(engine.embedded()) == 1
    engine.rescan()
    assert engine.kb.unsettled() == 0
    assert states(engine) == {"current": 1}


def test_a_source_that_is_taken_out_while_its_jobs_wait_reads_nothing_more(engine: SimulatedEngine) -> None:
    fill(engine)
    engine.clock.advance(60)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    engine.configure("/simulated/other")
    engine.settle()
    assert engine.documents() == []
    engine.configure(NOTES)
    engine.settle()
    assert states(engine) == {"current": MANY + 1}


def test_another_ocr_mode_reads_documents_again_and_nothing_else(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/scan.pdf", b"%PDF-1.4 quince")
    engine.write(f"{NOTES}/note.md", "# Note\n\nthe larch")
    engine.settle()
    embedded = len(engine.embedded())
    engine.configure(text=f"[[sources]]\npath = '{NOTES}'\nocr = 'always'\n")
    engine.rescan()
    assert [(request.name, request.ocr) for request in engine.cage.requests] == [
        ("scan.pdf", "auto"),
        ("scan.pdf", "always"),
    ]
    assert len(engine.embedded()) == embedded, "the same words come out, so nothing is embedded"
    engine.rescan()
    assert len(engine.cage.requests) == 2


def test_another_ocr_mode_that_fails_keeps_what_the_last_one_read_and_is_tried_once(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/scan.pdf", b"%PDF-1.4 quince")
    engine.rescan()
    engine.cage.refused.add("scan.pdf")
    engine.configure(text=f"[[sources]]\npath = '{NOTES}'\nocr = 'always'\n")
    engine.rescan()
    engine.rescan()
    assert engine.found("quince") == [f"{NOTES}/scan.pdf"]
    assert len(engine.cage.requests) == 2


def test_other_ignore_patterns_read_no_document_again(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/scan.pdf", b"%PDF-1.4 quince")
    engine.rescan()
    jobs = engine.read("SELECT count(*) FROM jobs")
    engine.configure(NOTES, ignore=["*.log"])
    engine.rescan()
    assert engine.read("SELECT count(*) FROM jobs") == jobs
    assert engine.state(f"{NOTES}/scan.pdf") == (FileState.INDEXED, None)


def test_a_changed_level_of_the_log_holds_from_the_reload_on(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = logging.getLogger("kbsync")
    monkeypatch.setattr(ours, "level", logging.INFO)
    engine.configure(NOTES, text='log_level = "debug"')
    assert ours.level == logging.DEBUG
    engine.configure(NOTES, text='log_level = "loud"')
    assert ours.level == logging.DEBUG, "a mistake changes nothing"
    engine.configure(NOTES)
    assert ours.level == logging.INFO
