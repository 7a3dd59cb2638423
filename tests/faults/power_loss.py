"""T5: the power goes at any moment of a database's life; what is found afterwards is one whole state of it.

`python -m tests.faults.power_loss --images 5000 --seed 7` plays more of it than the tests do.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import structlog

from tests.faults.power_lives import Waiting, migrated, played
from tests.faults.power_log import DiskLog
from tests.faults.power_loss_copies import taken_in

# Most power is lost at any time, the rest within so many operations: while the database is made.
_ANY_TIME, _BEGINNING = 0.8, 60


@dataclass(slots=True)
class Counts:
    """What was tried and what came of it. `mixed`: opened and found whole, but in no state that it ever had."""

    images: int = 0
    corrupt: int = 0
    mixed: int = 0
    lost: int = 0
    newer: int = 0

    @property
    def harmed(self) -> int:
        return self.corrupt + self.mixed + self.lost + self.newer

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, one.name)} {one.name}" for one in fields(self))


class Recorded(Protocol):
    """What was recorded below `folder`, and the judge of what is left of it."""

    folder: str
    log: DiskLog

    def harm(self, place: str, point: int) -> tuple[str, str] | None: ...


def examine(life: Recorded, folder: str, images: int, seed: int, counts: Counts) -> list[str]:
    """Open what is left after so many losses of power, with kbsync's own code; return what was wrong, one line each."""
    wrong = []
    dice = random.Random(seed)
    points = [dice.randint(1, len(life.log) if dice.random() < _ANY_TIME else _BEGINNING) for _ in range(images)]
    for point, image in life.log.images(points, seed):
        counts.images += 1
        with tempfile.TemporaryDirectory(prefix="image-", dir=folder) as place:
            for path, content in image.items():
                there = Path(place, os.path.relpath(path, life.folder))
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(content)
            harm = life.harm(place, point)
        if harm is not None:
            kind, detail = harm
            setattr(counts, kind, getattr(counts, kind) + 1)
            wrong.append(f"{kind}, power lost at {point} of {len(life.log)}: {detail}")
    return wrong


@contextmanager
def place_in_memory() -> Iterator[str]:
    """Yield an empty folder, in memory where there is such a place: what is synced here is of no account."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix="kbsync-power-", dir=memory if os.path.isdir(memory) else None) as folder:
        yield os.path.realpath(folder)


def lose_power(
    play: Callable[[str, Waiting], Recorded], waiting: Waiting, images: int, seed: int
) -> tuple[Counts, list[str]]:
    """Play a life and lose its power so many times; return what came of it and what was wrong."""
    counts = Counts()
    with place_in_memory() as folder:
        # Nothing of it is left but the log: what is found later can only be what an image holds.
        with tempfile.TemporaryDirectory(prefix="life-", dir=folder) as lived:
            life = play(lived, waiting)
        wrong = examine(life, folder, images, seed, counts)
    return counts, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what came of it; return 1 where something was lost or damaged, or where a control was not."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5000, help="how many times the power goes")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    bad = False
    for play in (played, migrated, taken_in):
        for waiting in ("FULL", "NORMAL", "OFF"):
            images = chosen.images if waiting == "FULL" else max(chosen.images // 10, 50)
            counts, wrong = lose_power(play, waiting, images, chosen.seed)
            print(f"{play.__name__}, synchronous {waiting}: {counts}")
            if waiting == "FULL":
                bad |= counts.harmed > 0
                print(*wrong[:20], sep="\n")
            elif waiting == "NORMAL":
                bad |= counts.corrupt + counts.mixed + counts.newer > 0
            else:
                bad |= counts.harmed == 0
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
