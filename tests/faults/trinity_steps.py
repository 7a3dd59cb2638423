"""What may happen to a knowledge base's world, drawn from a seed: the steps that T2 plays. Pure data.

A step names no path that must be there: its numbers choose among what is there when it is played. So a trace stays
playable with any of its steps left out, and a failing one can be made short.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# How the watchers hear of a change: at once, not at all, twice, much later and in another order, or as an overflow.
TOLD = ("told", "told", "told", "lost", "twice", "late", "overflow")
# Seconds that pass after a step.
WAITS = (0.0, 0.0, 0.1, 0.4, 1.1, 3.0, 30.0, 400.0)
DEEDS = ("raise", "hang", "grow", "die", "die", "late", "junk")
JUMPS_S = (-365 * 86_400.0, -3_600.0, -2.0, 2.0, 3_600.0, 365 * 86_400.0)

# What happens, and how often against the rest.
WEIGHTS: dict[str, int] = {
    # to files
    "write": 20,
    "append": 4,
    "save_atomically": 5,
    "rename": 7,
    "check_out": 4,
    "copy": 3,
    "link": 2,
    "remove": 6,
    "touch": 2,
    "edit_unseen": 2,
    "write_link_or_pipe": 1,
    # to folders
    "move_folder": 5,
    "remove_folder": 2,
    "fill_folder": 1,
    # to disks
    "forbid": 3,
    "allow": 3,
    "unmount": 4,
    "mount": 4,
    "replace_root": 2,
    "put_root_back": 2,
    # to what is watched
    "lose_events": 2,
    "kill_watcher": 1,
    "deliver_late_events": 4,
    "write_rules": 2,
    "ignore": 2,
    "drop_source": 1,
    "bring_source": 2,
    # to the machine
    "jump": 3,
    "suspend": 1,
    "plan_deeds": 5,
    "fill_disk": 2,
    "free_disk": 3,
    "crash": 4,
    # by a person
    "pause": 1,
    "resume": 2,
    "confirm": 1,
    # and the look at it all
    "settle": 3,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens. `numbers` choose what it happens to; `wait` in seconds; `turns` of every loop follow."""

    what: str
    numbers: tuple[int, ...]
    told: str
    wait: float
    turns: int


def drawn(seed: int, count: int) -> tuple[Step, ...]:
    """Return the steps of a seed: always the same ones."""
    dice = random.Random(seed)
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    return tuple(
        Step(
            what,
            tuple(dice.randrange(1 << 16) for _ in range(3)),
            dice.choice(TOLD),
            dice.choice(WAITS),
            dice.randrange(4),
        )
        for what in dice.choices(names, weights, k=count)
    )


def shortened(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], most_runs: int = 200) -> tuple[Step, ...]:
    """Return a part of the steps that still fails, with as many left out as `most_runs` runs allow."""
    kept, size = tuple(steps), max(len(steps) // 2, 1)
    runs = 0
    while True:
        shorter = False
        for without in list(_without(kept, size)):
            runs += 1
            if runs > most_runs:
                return kept
            if fails(without):
                kept, shorter = without, True
                break
        if not shorter:
            if size == 1:
                return kept
            size = max(size // 2, 1)


def _without(steps: tuple[Step, ...], size: int) -> Iterator[tuple[Step, ...]]:
    for start in range(0, len(steps), size):
        yield steps[:start] + steps[start + size :]
