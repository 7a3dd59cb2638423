"""A damaged database is found, set aside and built anew; nothing is silently wrong, or lost that can be read."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbsync.errors import KbsyncError, StopEngine
from kbsync.knowledge_base import rebuilt
from kbsync.knowledge_base.damage import Damage
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.faults.damaged_database import (
    Dump,
    copied,
    flipped,
    made_world,
    mended,
    of_files,
    pages_by_kind,
    same,
    survived,
)

SEEDS, ALL_SEEDS = 60, 200
NOTES_MADE, MOST_ON_A_PAGE = 7, 6
# Kinds of pages that hold what no file says.
ONLY_THERE = ("of documents", "of origins", "of chunks", "of files", "of sources")

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True, slots=True)
class Original:
    """A knowledge base that was closed in good order, its index, and what kind of page each of its pages is."""

    world: World
    index: Dump
    pages: dict[str, list[int]]


def made(home: Path) -> Original:
    world, index = made_world(home)
    return Original(world, index, pages_by_kind(world.locations.database))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return made(tmp_path_factory.mktemp("original") / "home")


# ---- D01 ----


def played(original: Original, seed: int) -> str:
    """Flip a bit and live on; return how it was met. Raises AssertionError where the index is another one then."""
    rng = random.Random(seed)
    kind = sorted(original.pages)[seed % len(original.pages)]
    page = rng.choice(original.pages[kind])
    with copied(original.world) as world:
        where = flipped(world.locations.database, kind, page, rng)
        repaired: list[bool] = []

        def work(engine: SimulatedEngine) -> None:
            engine.found("title part paper")
            repaired.append(mended(engine))
            engine.settle(engine.daemon.rescan())

        try:
            engine = survived(world, work)
        except KbsyncError as error:
            # A number of the schema that a newer kbsync may have: it is left alone, and said.
            if "this kbsync knows up to" in str(error):
                return "refused"
            raise AssertionError(f"seed {seed}, {where}: {error}") from error
        try:
            now, before = engine.index(), original.index
            came_of_it = engine.engine.readers.read(rebuilt.read)
            if came_of_it is not None:
                assert os.path.exists(os.path.join(world.locations.data_dir, came_of_it.aside))
            if came_of_it is None or not kind.endswith(ONLY_THERE):
                assert (other := same(before, now)) == [], f"seed {seed}, {where}: {other}"
                return "rebuilt" if came_of_it is not None else "repaired" if any(repaired) else "harmless"
            # The rows of that very page may be gone, and with them names, notes and exclusions: nothing else.
            assert (other := same(of_files(before), of_files(now))) == [], f"seed {seed}, {where}: {other}"
            assert came_of_it.notes >= NOTES_MADE - MOST_ON_A_PAGE, f"seed {seed}, {where}"
            return "rebuilt" if same(before, now) == [] else "rebuilt without what stood on that page"
        finally:
            engine.close()


def test_a_wrong_bit_is_found_and_put_right_or_does_no_harm(
    original: Original, told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    """D01: a random bit in each kind of page; in the end the index is the one before, and the notes are there."""
    met = Counter(played(original, seed) for seed in range(SEEDS))
    told(f"D01: {SEEDS} bits in {len(original.pages)} kinds of pages: {_counted(met)}; wrong indexes 0")
    tally(damages_of_the_database=SEEDS)
    assert met["rebuilt"] > 0
    assert met["repaired"] > 0


def _counted(met: Counter[str]) -> str:
    return ", ".join(f"{count} {how}" for how, count in sorted(met.items()))


# ---- D02 and D03 ----


def minus_one_byte(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 1)


def minus_a_page(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 4096)


def to_a_third(path: str) -> None:
    os.truncate(path, 4096 * (os.path.getsize(path) // 4096 // 3))


def to_nothing(path: str) -> None:
    os.truncate(path, 0)


def text(path: str) -> None:
    Path(path).write_text("Once there was a database.\n" * 500, encoding="utf-8")


def no_header(path: str) -> None:
    with open(path, "r+b") as file:
        file.write(random.Random(3).randbytes(4096))


@pytest.mark.parametrize(
    ("spoil", "keeps"),
    [
        (minus_one_byte, NOTES_MADE),
        (minus_a_page, 5),
        (to_a_third, 0),
        (to_nothing, 0),
        (text, 0),
        (no_header, NOTES_MADE),
    ],
)
def test_a_file_that_is_none_any_more_is_set_aside_and_the_index_is_built_anew(
    original: Original, spoil: Callable[[str], None], keeps: int
) -> None:
    """D02: cut off by a byte, by a page, to nothing, or text in its place: kept aside, and no file is read in vain."""
    with copied(original.world) as world:
        database = world.locations.database
        spoil(database)
        damaged = Path(database).read_bytes()
        engine = SimulatedEngine(world)
        engine.settle(engine.daemon.rescan())
        came_of_it = engine.engine.readers.read(rebuilt.read)
        assert came_of_it is not None
        assert Path(world.locations.data_dir, came_of_it.aside).read_bytes() == damaged
        assert came_of_it.notes >= keeps
        # What a person removed may be told by the history alone: the start leaves it out, and the check says so once.
        assert {problem.kind for problem in engine.kb.check() if problem.repaired} <= {Damage.EXCLUSIONS}
        now, before = engine.index(), original.index
        assert same(of_files(before), of_files(now)) == []
        if keeps == NOTES_MADE:
            assert same(before, now) == []
            assert engine.embedded() == []
        # What lies in `documents/` is there in any case, if under another name.
        assert len([row for row in now["paths"] if row[0] in ("added", "upload")]) == 4
        notice = engine.kb.set_aside(world.locations.data_dir)
        assert notice is not None
        assert came_of_it.aside in notice
        os.unlink(os.path.join(world.locations.data_dir, came_of_it.aside))
        for ending in ("-wal", "-shm"):
            Path(world.locations.data_dir, came_of_it.aside + ending).unlink(missing_ok=True)
        assert engine.kb.set_aside(world.locations.data_dir) is None
        engine.close()


def test_a_folder_in_its_place_is_left_alone(original: Original) -> None:
    """D02: a folder where the database should be is nothing that could be set aside."""
    with copied(original.world) as world:
        database = world.locations.database
        os.unlink(database)
        os.mkdir(database)
        with pytest.raises(StopEngine, match="is a folder"):
            SimulatedEngine(world)
        assert os.path.isdir(database)


def test_a_log_of_another_database_changes_nothing(original: Original, tmp_path: Path) -> None:
    """D03: a log that was put beside the database by somebody is set aside, and the index stays what it was."""
    other = made_world(tmp_path / "other")[0]
    killed = SimulatedEngine(other)
    killed.note("Of the other one")
    with copied(original.world) as world:
        database = world.locations.database
        shutil.copy(other.locations.database + "-wal", database + "-wal")
        killed.close()
        engine = SimulatedEngine(world)
        assert same(original.index, engine.index()) == []
        assert engine.engine.readers.read(rebuilt.read) is None
        assert [name for name in os.listdir(world.locations.data_dir) if name.endswith("-wal") and "damaged" in name]
        engine.close()


def test_a_log_without_its_database_is_kept_aside(original: Original) -> None:
    """D03: whoever removed the database begins anew; the log that stayed is not taken for the new one's."""
    with copied(original.world) as world:
        database = world.locations.database
        os.unlink(database)
        Path(database + "-wal").write_bytes(b"frames" * 1000)
        engine = SimulatedEngine(world)
        assert [name for name in os.listdir(world.locations.data_dir) if name.endswith("-wal") and "damaged" in name]
        engine.settle(engine.daemon.rescan())
        mended(engine)  # what lies in `documents/` is taken in again where a person asks for that
        engine.settle()
        assert same(of_files(original.index), of_files(engine.index())) == []
        engine.close()


def main() -> None:
    """Play more seeds: `python -m tests.faults.test_damaged_database --seeds 200 --seed 0`."""
    import tempfile

    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=ALL_SEEDS)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        original = made(Path(folder) / "home")
        met: Counter[str] = Counter()
        for seed in range(wanted.seed, wanted.seed + wanted.seeds):
            try:
                met[played(original, seed)] += 1
            except AssertionError as error:
                met["WRONG"] += 1
                print(f"seed {seed}: {error}", file=sys.stderr)
    print(f"D01: {wanted.seeds} bits in {len(original.pages)} kinds of pages: {_counted(met)}")
    raise SystemExit(1 if met["WRONG"] else 0)


if __name__ == "__main__":
    main()
