"""Kept conversions: what is wrong with one is no fault of the file."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PAPER = f"{NOTES}/paper.pdf"


def test_a_damaged_kept_conversion_is_made_again(world: World) -> None:
    first = SimulatedEngine(world)
    first.write(PAPER, "quince")
    first.settle()
    first.close()
    (kept,) = Path(world.locations.conversions_dir).iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:5])
    world.configure(NOTES, text="[chunks]\nmin_tokens = 3\n")
    again = SimulatedEngine(world)
    again.fs.set_mtime(PAPER, 5.0)
    again.rescan()
    assert again.found("quince") == [PAPER]
    assert [bool(request.kept) for request in again.cage.requests] == [True, False]
    assert kept.read_bytes() == whole
    again.close()
