"""A project in the configuration: the running daemon takes in what is dropped into its sources/."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.clock import SystemClock
from kbsync.projects.starting import start
from tests.end_to_end.program import PATIENCE_S, Program
from tests.fakes.eventually import eventually


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return Path(start(str(tmp_path / "work"), "资料", SystemClock()).root)


def test_what_is_dropped_is_taken_in_what_is_refused_is_told_and_parsed_is_searched_where_it_is_a_mirror(
    tmp_path: Path, program: Program, project: Path
) -> None:
    program.run("sources", "add", str(project), "--project")
    program.run("sources", "add", str(project / "parsed"))
    assert (
        "lies inside the source" in program.run("sources", "add", str(project / "archive"), "--project", code=2).stderr
    )
    (project / "sources/before.md").write_text("The quince was here before the daemon began.")
    with program.daemon() as daemon:
        eventually(lambda: (project / "parsed/before.md").exists(), within_s=PATIENCE_S)
        for name in ("plan.md", "plan.txt", "notes.md"):
            (project / "sources" / name).write_text(f"The rhubarb of {name} was dropped while it ran.")
        eventually(lambda: (project / "parsed/notes.md").exists(), within_s=PATIENCE_S)
        answer = daemon.client.get("status")
        (told,) = answer["projects"]
        assert told["path"] == str(project)
        assert {one["file"] for one in told["refused"]} == {"plan.md", "plan.txt"}
        assert any("Rename it" in notice for notice in answer["notices"])
        daemon.settle()
        found = program.json("search", "--mode", "lexical", "quince")
        assert [hit["path"] for hit in found["hits"]] == [str(project / "parsed/before.md")]
        assert program.json("search", "--mode", "lexical", "plan", code=None)["hits"] == []
        assert len(program.json("sources", "list")["projects"]) == 1
        assert "project" in program.run("status").stdout
    assert sorted(path.name for path in (project / "sources").iterdir()) == ["plan.md", "plan.txt"]
    program.run("sources", "remove", str(project))
    # In the other order too: what was parsed is followed already.
    program.run("sources", "add", str(project), "--project")
    program.run("sources", "remove", str(project))
    assert program.json("sources", "list")["projects"] == []


def test_once_takes_in_what_waits(program: Program, project: Path) -> None:
    (project / "sources/a.md").write_text("The only words that wait in this project.")
    program.run("sources", "add", str(project), "--project")
    program.run("run", "--once", "--no-progress", code=None)
    assert (project / "parsed/a.md").exists()
    assert not list((project / "sources").iterdir())


def test_a_folder_that_is_no_project_and_one_inside_a_mirror_are_refused(
    tmp_path: Path, program: Program, project: Path
) -> None:
    (tmp_path / "plain").mkdir()
    assert "is no project" in program.run("sources", "add", str(tmp_path / "plain"), "--project", code=2).stderr
    program.run("sources", "add", str(tmp_path / "work"))
    assert "lies inside the source" in program.run("sources", "add", str(project), "--project", code=2).stderr
