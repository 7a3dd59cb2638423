"""Groups of like length and halves, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.embed.batch_sizes import groups, in_halves, next_batch

if TYPE_CHECKING:
    from kbsync.model import Vectors


@pytest.mark.parametrize(
    ("lengths", "budget", "wanted"),
    [
        pytest.param([], 100, [], id="nothing"),
        pytest.param([5], 100, [[0]], id="one"),
        pytest.param([10, 10, 10], 20, [[0, 1], [2]], id="within the budget"),
        pytest.param([500, 5], 100, [[0], [1]], id="longer than the budget"),
        pytest.param([250, 10], 2048, [[0], [1]], id="too much padding"),
        pytest.param([10, 250, 240, 12], 2048, [[1, 2], [3, 0]], id="like to like"),
        pytest.param([0, 0], 100, [[0, 1]], id="no tokens at all"),
    ],
)
def test_groups(lengths: list[int], budget: int, wanted: list[list[int]]) -> None:
    assert groups(lengths, budget) == wanted


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 4000))
def test_every_text_is_in_one_group_and_no_group_is_too_large(lengths: list[int], budget: int) -> None:
    found = groups(lengths, budget)

    assert sorted(index for group in found for index in group) == list(range(len(lengths)))
    for group in found:
        sizes = [lengths[index] for index in group]
        assert len(group) == 1 or len(group) * max(sizes) <= budget
        assert sum(max(sizes) - size for size in sizes) <= budget // 32
    assert 0 in next_batch(lengths, budget)


class SmallMemory:
    """Encodes up to `room` texts at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sizes: list[int] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.sizes.append(len(texts))
        if len(texts) > self.room:
            raise MemoryError
        return np.array([[len(text)] for text in texts], dtype=np.float32)


@pytest.mark.parametrize(("room", "sizes"), [(5, [5]), (3, [5, 2, 3]), (1, [5, 2, 1, 1, 3, 1, 2, 1, 1])])
def test_what_does_not_fit_is_halved_and_stays_in_order(room: int, sizes: list[int]) -> None:
    memory = SmallMemory(room)

    rows = in_halves(["a", "bb", "ccc", "dddd", "eeeee"], memory.encode, lambda error: isinstance(error, MemoryError))

    assert rows[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert memory.sizes == sizes


def test_one_text_that_does_not_fit_raises() -> None:
    with pytest.raises(MemoryError):
        in_halves(["a", "b"], SmallMemory(0).encode, lambda error: True)


def test_another_error_is_not_halved() -> None:
    memory = SmallMemory(0)
    with pytest.raises(MemoryError):
        in_halves(["a", "b"], memory.encode, lambda error: False)
    assert memory.sizes == [2]
