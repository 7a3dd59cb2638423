"""What is dropped into a project's sources/ is taken in when it is quiet; what is refused stays and is told once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.daemon.intake import Intake
from kbsync.model import Change, Source
from kbsync.projects.project import Project
from tests.fakes.simulated_engine import ReportingWatcher
from tests.projects.desk import Desk

QUIET_S = 1.0


class Setup:
    """An intake over real files with a clock that the test turns, and what rests it."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder)
        self.watchers: list[ReportingWatcher] = []
        self.rests: str | None = None
        self.intake = Intake(
            self.desk.clock, self.desk.tools, self.make, tuple, QUIET_S, lambda: self.rests, threading.Event()
        )
        self.intake.follow([str(self.desk.root)])

    def make(
        self, source: Source, sink: Callable[[Change], None], dirty: Callable[[int, str], None]
    ) -> ReportingWatcher:
        self.watchers.append(ReportingWatcher(source, sink, dirty, set()))
        return self.watchers[-1]

    def settle(self) -> None:
        """Let the time go by that everything needs, twice over."""
        for _ in range(4):
            while self.intake.step():
                pass
            self.desk.clock.advance(QUIET_S)

    @property
    def told(self) -> dict[str, object]:
        (one,) = self.intake.status()
        return one


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def heard(setup: Setup) -> None:
    """Have the watcher tell a change, as real ones do for any file."""
    setup.intake._mark(1)


def test_a_dropped_file_is_taken_in_and_not_before_it_is_quiet(setup: Setup) -> None:
    setup.settle()
    path = setup.desk.put("a.md", "The first half of the words that")
    heard(setup)
    assert setup.intake.step()
    assert not setup.intake.idle()
    for part in (" are still", " being written", " for a while."):
        setup.desk.clock.advance(QUIET_S)
        with path.open("a") as file:
            file.write(part)
        setup.intake.step()
        assert path.exists()
    setup.settle()
    assert not path.exists()
    assert setup.intake.idle()
    assert "for a while." in (setup.desk.root / "parsed/a.md").read_text()


def test_what_waited_before_the_daemon_began_is_taken_in(setup: Setup) -> None:
    setup.desk.put("a.md", "These words were here before the daemon began.")
    setup.settle()
    assert not list((setup.desk.root / "sources").iterdir())


def test_a_refused_file_is_told_and_read_again_only_when_it_changed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = setup.desk.put("a.pdf", "%PDF-1.7 %BROKEN")
    setup.settle()
    assert [one["file"] for one in setup.told["refused"]] == ["a.pdf"]  # type: ignore[attr-defined]  # a list of records
    before = setup.desk.tools.converter
    asked: list[str] = []
    markdown = before.markdown

    def counted(path: str, name: str, *rest: object) -> str:
        asked.append(name)
        return markdown(path, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(before, "markdown", counted)
    for _ in range(3):
        setup.desk.clock.advance(400)
        setup.settle()
    assert not asked
    path.write_text("%PDF-1.7 it is whole now, and has enough words")
    heard(setup)
    setup.settle()
    assert asked == ["a.pdf"]
    assert setup.told["refused"] == []
    assert not path.exists()


@pytest.mark.parametrize("by_renaming", [True, False])
def test_a_clash_of_names_is_told_until_one_is_renamed_or_goes(setup: Setup, by_renaming: bool) -> None:
    for name in ("plan.md", "plan.txt"):
        setup.desk.put(name, f"The words of the file {name} in this project.")
    setup.settle()
    assert len(setup.told["refused"]) == 2  # type: ignore[arg-type]
    if by_renaming:
        (setup.desk.root / "sources/plan.txt").rename(setup.desk.root / "sources/other.txt")
    else:
        (setup.desk.root / "sources/plan.txt").unlink()
    heard(setup)
    setup.settle()
    assert setup.told["refused"] == []
    taken = [path.name for path in (setup.desk.root / "parsed").iterdir()]
    assert sorted(taken) == (["other.md", "plan.md"] if by_renaming else ["plan.md"])


def test_while_it_rests_files_wait_and_afterwards_they_are_taken_in(setup: Setup) -> None:
    setup.rests = "Paused by you."
    path = setup.desk.put("a.md", "These words wait until the pause is over.")
    heard(setup)
    setup.settle()
    assert path.exists()
    setup.rests = None
    setup.settle()
    assert not path.exists()


def test_a_command_that_has_the_project_is_waited_for(setup: Setup) -> None:
    path = setup.desk.put("a.md", "These words wait until the command has ended.")
    with Project(str(setup.desk.root)).alone():
        setup.settle()
        assert path.exists()
    setup.desk.clock.advance(10)
    setup.settle()
    assert not path.exists()


def test_a_folder_that_is_no_project_is_told_and_left_alone(tmp_path: Path, setup: Setup) -> None:
    other = tmp_path / "other"
    (other / "sources").mkdir(parents=True)
    (other / "sources/a.md").write_text("Nobody may take these words in.")
    setup.intake.follow([str(other)])
    setup.settle()
    assert "is no project any more" in str(setup.told["problem"])
    assert (other / "sources/a.md").exists()
    assert len(list(other.iterdir())) == 1


def test_a_project_that_is_configured_no_more_is_left_alone(setup: Setup) -> None:
    setup.intake.follow([])
    path = setup.desk.put("a.md", "Nobody follows this project any longer.")
    setup.settle()
    assert path.exists()
    assert setup.intake.status() == []


def test_what_is_no_file_of_the_users_does_not_wait_and_keeps_nothing_busy(setup: Setup) -> None:
    for name in (".DS_Store", "~$plan.docx", "film.part"):
        setup.desk.put(name, "not ready, or not the user's own")
    heard(setup)
    setup.settle()
    assert setup.told["waiting"] == []
    assert setup.intake.idle()
    assert not setup.intake.step()
    setup.desk.clock.advance(60)
    assert not setup.intake.step()
