"""`kbsync run` tells what it does, what became of the files, and that the model cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from kbsync.compose import Engine
from kbsync.config.locations import locate
from kbsync.errors import RetryLater
from kbsync.interfaces.cli.progress import Progress
from kbsync.interfaces.cli.run import EngineWatch
from kbsync.interfaces.cli.wait import outcome_line
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.reasons import Reason

COUNTS = {"indexed": 5, "skipped": 1, "failed": 0}


class Counts:
    """What the bar asks of a knowledge base."""

    def __init__(self, done: int, waiting: int) -> None:
        self.now: tuple[int, int] | None = done, waiting

    def progress(self) -> tuple[int, int]:
        if self.now is None:
            raise RetryLater(Reason.IO, "The database is busy.")
        return self.now


@pytest.mark.parametrize(
    ("at_the_end", "shown"), [((3, 7), "3/10"), ((10, 0), "10/10"), (None, "2/10")], ids=["half", "done", "unknown"]
)
def test_a_bar_is_full_only_when_nothing_waits(
    at_the_end: tuple[int, int] | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counts(2, 8)
    bar = Progress(cast(KnowledgeBase, counts))
    bar.update()
    counts.now = at_the_end
    bar.close()
    bar.close()
    last = capsys.readouterr().err.rstrip().rsplit("\r", 1)[-1]
    assert shown in last
    assert ("100%" in last) == (shown == "10/10")


@pytest.mark.parametrize(
    ("settled", "waiting", "line"),
    [
        (True, 0, "Settled after 2.5 s: 5 indexed, 1 skipped, 0 failed."),
        (False, 12, "Not settled after 2.5 s: 5 indexed, 1 skipped, 0 failed, 12 waiting."),
        (
            False,
            0,
            "Not settled after 2.5 s: 5 indexed, 1 skipped, 0 failed, the folders are still being looked through.",
        ),
    ],
)
def test_line_says_what_waits_where_not_all_is_done(settled: bool, waiting: int, line: str) -> None:
    assert outcome_line({**COUNTS, "settled": settled, "waiting": waiting, "seconds": 2.5}) == line


def run_once(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "note.md").write_text("# Note\n\nThe medlar ripens late.\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[[sources]]\npath = "{tmp_path / "folder"}"\n')
    return subprocess.run(
        [sys.executable, "-m", "kbsync", "run", "--once"],
        env=os.environ | {"KBSYNC_HOME": str(home), "KBSYNC_HTTP__PORT": "0"} | variables,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_why_a_service_does_not_start_is_in_the_log_too(tmp_path: Path) -> None:
    """Where no journal is kept, `service logs` shows that file."""
    (tmp_path / "config.toml").write_text("workers = 0\n")
    done = subprocess.run(
        [sys.executable, "-m", "kbsync", "run", "--service"],
        env=os.environ | {"KBSYNC_HOME": str(tmp_path)},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 78
    (written,) = Path(locate({"KBSYNC_HOME": str(tmp_path)}).log_file).read_text().splitlines()
    assert "workers" in json.loads(written)["error"]


class Wanting:
    """What is asked of an engine that lacks something."""

    class _Parts:
        error: str | None = None

        def problem(self) -> str | None:
            return self.error

    def __init__(self) -> None:
        self.embedders = self.batcher = self._Parts()
        self.lacks: list[str] = []

    def shortcomings(self) -> list[str]:
        return self.lacks


def test_what_is_not_as_it_was_meant_to_be_is_told_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    """P11: a GPU that is lost while it runs is told too."""
    engine = Wanting()
    watch = EngineWatch(cast(Engine, engine))
    watch.tell()
    engine.lacks.append("The embedding device cuda:0 failed: the CPU embeds in its place.")
    watch.tell()
    watch.tell()
    engine.batcher.error = "The model is gone."
    watch.tell()
    watch.tell()
    told = capsys.readouterr().err.splitlines()
    assert [line[:36] for line in told] == [
        "kbsync: The embedding device cuda:0 ",
        "kbsync: The model is gone. Until the",
    ]


def test_without_its_model_it_ends_with_1_and_what_waits_goes_on_when_it_is_back(tmp_path: Path) -> None:
    outcome = run_once(tmp_path, KBSYNC_MODELS__EMBEDDER=str(tmp_path))
    assert outcome.returncode == 1
    assert outcome.stderr.count(f"The embedding model in {tmp_path} cannot be used") == 1
    assert "models.embedder" in outcome.stderr
    assert outcome.stdout.startswith("Not settled after ")
    assert outcome.stdout.endswith(": 0 indexed, 0 skipped, 0 failed, 1 waiting.\n")
