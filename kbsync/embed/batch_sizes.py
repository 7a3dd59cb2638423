"""Which texts go into one batch: of like length, so that little is padded, and smaller where memory is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kbsync.model import Vectors

# A batch of its own costs about as much as 60 tokens on a CPU, where a batch holds 2,048: up to that share of a batch
# padding is cheaper than another batch.
_PADDING_SHARE = 32


def groups(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return the indices of all texts in groups of like length, longest first.

    `lengths` and `budget` in tokens. A group's size times its longest text stays within the budget, except that a
    text longer than the budget is a group of its own.
    """
    found: list[list[int]] = []
    longest = padding = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        missing = longest - lengths[index]
        fits = bool(found) and (len(found[-1]) + 1) * longest <= budget
        if fits and padding + missing <= budget // _PADDING_SHARE:
            found[-1].append(index)
            padding += missing
        else:
            found.append([index])
            longest, padding = max(lengths[index], 1), 0
    return found


def next_batch(lengths: Sequence[int], budget: int) -> list[int]:
    """Return the indices for the next batch from those that wait, oldest first. The oldest is always among them."""
    return next(group for group in groups(lengths, budget) if 0 in group)


def in_halves(
    texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors], too_large: Callable[[Exception], bool]
) -> Vectors:
    """Encode the texts, in ever smaller parts while `too_large` says so of the error. Raises what one text raises."""
    try:
        return encode(texts)
    except Exception as error:
        if len(texts) < 2 or not too_large(error):
            raise
    # Outside the handler: the error holds the frames that hold the memory.
    middle = len(texts) // 2
    return np.concatenate([in_halves(part, encode, too_large) for part in (texts[:middle], texts[middle:])])
