"""`kbsync pause` and `resume` on the running program: what is dropped meanwhile waits, and is not lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Road
from tests.end_to_end.program import Program


def test_what_is_dropped_while_it_is_paused_waits_and_is_found_after(road: Road, tmp_path: Path) -> None:
    program = road.program
    by_hand = tmp_path / "by-hand.md"
    by_hand.write_text("The pomelo was added by hand.\n")
    try:
        said = program.run("pause", "2h30m").stdout
        assert said.startswith("Paused by you until ")
        (road.folder / "while-paused.md").write_text("The tamarillo came in the pause.\n")
        waited = program.run("wait", "--timeout", "60", code=1)
        assert (said.strip() in waited.stderr, "1 waiting" in waited.stdout) == (True, True)
        status = program.json("status")
        assert (status["rest"]["reason"], status["notices"][0]) == ("paused", said.strip())
        searched = program.run("search", "--mode", "lexical", "tamarillo", code=3)
        assert said.strip() in searched.stderr
        assert program.run("add", str(by_hand)).stdout == "Added: by-hand.md (1 chunk)\n"
    finally:
        assert program.run("resume").stdout == "The pause is over.\n"
    program.run("wait")
    assert len(program.json("search", "--mode", "lexical", "tamarillo")["hits"]) == 1
    status = program.json("status")
    assert (status["rest"], program.run("resume").stdout) == (None, "It was not paused.\n")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no I/O classes")
def test_the_daemon_yields_and_its_children_yield_more(road: Road) -> None:
    daemon = psutil.Process(road.daemon.process.pid)
    assert daemon.nice() == max(5, os.nice(0))
    assert daemon.ionice().value == 7
    works = [child for child in daemon.children() if "spawn_main" in " ".join(child.cmdline())]
    assert {child.nice() for child in works} <= {max(10, os.nice(0))}


def test_without_a_daemon_a_pause_is_written_down_for_the_next_one(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    program.run("pause", "until", "2099-01-01", code=2)
    answer = program.json("pause")
    assert (answer["rest"]["reason"], answer["rest"]["until"]) == ("paused", None)
    status = program.json("status", code=4)
    assert (status["rest"], status["notices"]) == (answer["rest"], [answer["rest"]["detail"]])
    assert program.json("resume") == {"was_paused": True, "rest": None}
    assert program.json("status", code=4)["rest"] is None
