"""T2: after any trouble the index is what the folders say, nothing is lost on the way, and every file is accounted for.

At each settle and between: I1 to I9 and I13 to I18 as far as one thread can show them. A failing seed is played again,
and made short, by `python -m tests.faults.trinity_replay SEED`; what comes of it belongs into `trinity_regressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.faults.trinity import STEPS, Counts, playing
from tests.faults.trinity_regressions import REGRESSIONS
from tests.faults.trinity_steps import WEIGHTS, Step, drawn, shortened

EXAMPLES = 100
_PARTS = 5

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("part", range(_PARTS))
def test_whatever_happens_the_index_becomes_what_a_clean_run_makes(
    part: int, told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    counts = Counts()
    for seed in range(part, EXAMPLES, _PARTS):
        with playing(counts) as play:
            try:
                play.run(drawn(seed, STEPS))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    told(f"T2 part {part}: {counts}")
    tally(simulated_crashes=counts.crashes + counts.killed_at_a_look, full_disks=counts.full_disks)
    assert counts.steps == EXAMPLES // _PARTS * STEPS
    # Where trouble is not made any more, nothing is shown.
    assert min(counts.crashes, counts.killed_at_a_look, counts.full_disks, counts.bad_deeds, counts.settles) > 0
    assert counts.without_effect < counts.steps / 2


@pytest.mark.parametrize("name", REGRESSIONS)
def test_what_went_wrong_once_holds(name: str) -> None:
    with playing() as play:
        play.run(REGRESSIONS[name])


def test_the_same_seed_makes_the_same_trace() -> None:
    traces = []
    for _ in range(2):
        with playing() as play:
            play.run(drawn(7, STEPS))
            traces.append(play.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) == STEPS


def test_other_seeds_make_other_steps_and_all_kinds_of_them() -> None:
    drawn_kinds = {step.what for seed in range(EXAMPLES) for step in drawn(seed, STEPS)}
    assert drawn_kinds == WEIGHTS.keys()
    assert drawn(1, STEPS) != drawn(2, STEPS)


def test_a_failing_trace_is_made_short() -> None:
    def fails(steps: Sequence[Step]) -> bool:
        kinds = [step.what for step in steps]
        return "crash" in kinds and "unmount" in kinds[kinds.index("crash") :]

    steps = next(steps for steps in _all() if fails(steps))
    assert [step.what for step in shortened(steps, fails)] == ["crash", "unmount"]


def _all() -> Iterator[tuple[Step, ...]]:
    for seed in range(EXAMPLES):
        yield drawn(seed, STEPS)
