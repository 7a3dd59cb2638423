"""P03, P09 and P12: whenever a daemon is killed, what it acknowledged is there, no child is left, all comes right.

T6. A failing seed is played again by `python -m tests.faults.random_kills --seed S`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.random_kills import ROUNDS, SEED, play

# Most of a round is waiting: two stories beside each other take little longer than one.
_STORIES = 2

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="forks its daemons, and watches them through /proc"),
]


def test_sixty_kills_under_a_folder_that_never_rests_lose_nothing(
    told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    with ThreadPoolExecutor(_STORIES) as threads:
        stories = list(threads.map(lambda story: play(ROUNDS // _STORIES, SEED + story), range(_STORIES)))
    for kills in stories:
        told(str(kills))
        tally(kills=kills.daemons + kills.children, lost=len(kills.lost))
    assert [kills.lost for kills in stories] == [[]] * _STORIES
    assert [kills.forks for kills in stories] == [0] * _STORIES, "nothing forks beside threads"
    assert sum(kills.daemons for kills in stories) == sum(kills.rounds for kills in stories) == ROUNDS
    # Where trouble is not made any more, nothing is shown.
    assert min(kills.children for kills in stories) > 0
    assert min(kills.answered for kills in stories) > 0
