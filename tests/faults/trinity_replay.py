"""Plays one seed of T2 again and, where it fails, makes its trace short.

python -m tests.faults.trinity_replay SEED [COUNT]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import structlog

from tests.faults.trinity import STEPS, playing
from tests.faults.trinity_steps import Step, drawn, shortened


def wrong_with(steps: Sequence[Step]) -> str | None:
    """Return what does not hold in a play of these steps, None where all does."""
    with playing() as play:
        try:
            play.run(steps)
        except AssertionError as error:
            return str(error) or "an assertion"
    return None


def main(arguments: Sequence[str]) -> int:
    """Play one seed and tell what is wrong with it, in as few steps as show it."""
    seed, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else STEPS
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    steps = drawn(seed, count)
    wrong = wrong_with(steps)
    print(f"seed {seed}: {wrong or 'all holds'}")
    if wrong is None:
        return 0
    kind = wrong.partition(": ")[2][:12]
    steps = shortened(steps, lambda part: kind in (wrong_with(part) or ""))
    print(*steps, sep="\n")
    print(wrong_with(steps))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
