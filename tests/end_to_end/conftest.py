"""One daemon with the samples in it for all tests that only ask or add: loading the model takes seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.library import library
from tests.end_to_end.program import PATIENCE_S, Daemon, Program
from tests.fakes.eventually import eventually

__all__ = ["library", "road"]


@dataclass(frozen=True, slots=True)
class Road:
    """The shared daemon. Its source `folder` holds the samples; a test writes only below names of its own."""

    program: Program
    daemon: Daemon
    folder: Path


@pytest.fixture(scope="session")
def road(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Iterator[Road]:
    base = tmp_path_factory.mktemp("road").resolve()
    program, folder = Program(base / "home"), base / "folder"
    shutil.copytree(samples, folder, ignore=shutil.ignore_patterns("__pycache__", "sentences"))
    program.run("sources", "add", str(folder))
    with program.daemon() as daemon:
        eventually(daemon.has_model, within_s=PATIENCE_S, every_s=0.2)
        program.run("wait")
        yield Road(program, daemon, folder)
