"""T11: the checker has teeth: whatever is damaged is named, and repaired, and the index is what it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.faults.damaged_library import Mutation, copied, files_below, filled
from tests.faults.damages import MUTATIONS

PAIRS = 24
_BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, memory_disk: Path | None) -> World:
    folder = tmp_path_factory.mktemp("library") if memory_disk is None else memory_disk / "library"
    folder.mkdir(exist_ok=True)
    return filled(folder / "home")


@pytest.fixture(scope="module")
def whole(library: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """Return the index of the library as it should be."""
    with copied(library, tmp_path_factory.mktemp("whole")) as engine:
        return engine.index()


def kinds(engine: SimulatedEngine) -> set[str]:
    return {problem.kind for problem in engine.kb.check()}


def test_a_good_library_has_no_problem_and_its_repair_writes_nothing(library: World, home: Path) -> None:
    with copied(library, home) as engine:
        assert engine.kb.check() == []
        before = engine.dump()
        files = files_below(engine.world.locations.documents_dir)
        assert engine.kb.repair() == []
        after = engine.dump()
        before["meta"], after["meta"] = (
            [row for row in rows["meta"] if row[0] != "last_check"] for rows in (before, after)
        )
        assert after == before
        assert files_below(engine.world.locations.documents_dir) == files


@pytest.mark.parametrize("name", _BY_NAME)
def test_each_damage_is_named_and_repaired(
    name: str, library: World, whole: dict[str, list[tuple[Any, ...]]], home: Path
) -> None:
    """D06, D07 and D16: what is damaged is named, and nothing else; repaired and settled, the index is as it was."""
    mutation = _BY_NAME[name]
    with copied(library, home) as engine:
        mutation.apply(engine)
        assert kinds(engine) == mutation.kinds
        engine.device.batches.clear()
        repaired = engine.kb.repair()
        assert mutation.kinds <= {problem.kind for problem in repaired}
        assert all(problem.repaired for problem in repaired) is (not mutation.left)
        engine.settle()
        assert kinds(engine) == mutation.left
        assert len(engine.embedded()) <= mutation.embedded
        if not mutation.left:
            assert engine.index() == whole


def test_any_two_damages_are_repaired(
    library: World,
    whole: dict[str, list[tuple[Any, ...]]],
    home: Path,
    told: Callable[[str], None],
    tally: Callable[..., None],
) -> None:
    dice = random.Random(11)
    played = impossible = 0
    mendable = [mutation for mutation in MUTATIONS if not mutation.left]
    for number in range(PAIRS):
        pair = dice.sample(mendable, 2)
        with copied(library, home / str(number)) as engine:
            if not _applied(engine, pair):
                impossible += 1  # the first took away what the second would damage
                continue
            played += 1
            names = [mutation.name for mutation in pair]
            assert kinds(engine), names
            left = [problem.kind for problem in engine.kb.repair() if not problem.repaired]
            assert left == [], names
            engine.settle()
            assert engine.index() == whole, names
    told(f"T11: {len(MUTATIONS)} damages named and repaired, {played} pairs of them, {impossible} impossible")
    tally(damages_of_the_database=len(MUTATIONS) + 2 * played)
    assert played > PAIRS / 2


@pytest.mark.parametrize(
    "names",
    [
        ("path of no folder", "document deleted"),
        ("path forgotten", "document deleted"),
        ("origin of a file deleted", "path forgotten"),
        ("names of an unknown form", "two documents at a path"),
    ],
)
def test_damages_that_hide_each_other_are_repaired(
    names: tuple[str, str], library: World, whole: dict[str, list[tuple[Any, ...]]], home: Path
) -> None:
    with copied(library, home) as engine:
        assert _applied(engine, [_BY_NAME[name] for name in names])
        assert [problem.kind for problem in engine.kb.repair() if not problem.repaired] == []
        engine.settle()
        assert engine.index() == whole


def _applied(engine: SimulatedEngine, pair: list[Mutation]) -> bool:
    try:
        for mutation in pair:
            mutation.apply(engine)
    except (apsw.Error, IndexError):
        return False
    return True


def test_there_are_at_least_thirty_and_each_has_its_name() -> None:
    assert len(MUTATIONS) >= 30
    assert len(_BY_NAME) == len(MUTATIONS)
