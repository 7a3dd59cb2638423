"""Fixtures: a world with one watched folder, and lives of the daemon in it. Conftests that want them import them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World.new(tmp_path / "home")
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    return world


@pytest.fixture
def started(world: World) -> Iterator[Callable[[], SimulatedEngine]]:
    """Return a function that ends the life before, without a word to it, and begins the next."""
    lives: list[SimulatedEngine] = []

    def start() -> SimulatedEngine:
        for life in lives:
            life.close()
        lives.append(SimulatedEngine(world))
        return lives[-1]

    yield start
    for life in lives:
        life.close()


@pytest.fixture
def engine(started: Callable[[], SimulatedEngine]) -> SimulatedEngine:
    """Return a daemon whose first walk, over an empty folder, is done."""
    engine = started()
    engine.settle()
    return engine
