"""What the embedder asks of a device, and what a device's answer must be before anything else may use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbsync.errors import FailFile, KbsyncError, RetryLater, Unready
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors


class Device(Protocol):
    """One place where the model runs. Used by one thread at a time."""

    @property
    def name(self) -> str:
        """Return the device as a person knows it: `cpu`, `cuda:1`; another one after a fall-back."""
        ...

    @property
    def batch_tokens(self) -> int:
        """Return how many tokens, padding included, one batch may hold; it may shrink when memory is short."""
        ...

    @property
    def notice(self) -> str | None:
        """Return why the model does not run where it was meant to, and what to do; None where it does."""
        ...

    def load(self) -> None:
        """Bring the model in, once; seconds. Raises Unready(MODEL) where that cannot be."""
        ...

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return one normalised float32 row a text, in order; a blank text too gets a row that is not zero.

        Raises FailFile(MODEL) for texts it cannot embed, RetryLater(MODEL) where it cannot just now, Unready(MODEL)
        where it cannot embed anything.
        """
        ...


def checked(vectors: Vectors, count: int, dimension: int) -> Vectors:
    """Return the vectors as float32 of length one. Raises FailFile(MODEL) for a wrong shape, NaN, infinity or zero."""
    if vectors.shape != (count, dimension):
        raise _useless(f"an array of shape {vectors.shape} instead of {(count, dimension)}")
    rows = np.asarray(vectors, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise _useless("a vector with numbers that are not finite")
    with np.errstate(over="ignore"):  # huge numbers: the length is infinite then, and refused
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise _useless("a vector without a direction")
    return np.asarray(rows / lengths, dtype=np.float32)


def mean_of_windows(rows: Vectors) -> Vectors:
    """Return the normalised mean of the rows, shape (1, dimension)."""
    return checked(rows.mean(axis=0, keepdims=True, dtype=np.float32), 1, rows.shape[1])


def failed(error: Exception) -> KbsyncError:
    """Return what an error that a device raised over a text means for it: ours as they are, others FailFile(MODEL)."""
    if isinstance(error, FailFile | RetryLater):
        return error
    ours = FailFile(
        Reason.MODEL,
        f"The embedding model failed: {str(error) or type(error).__name__}",
        hint="Report it with the file if it happens again when kbsync is restarted.",
    )
    ours.__cause__ = error
    return ours


def unready(error: Exception) -> Unready:
    """Return what is told of a model that cannot be used at all: no file's fault, every job waits for it."""
    if isinstance(error, Unready):
        return error
    if isinstance(error, KbsyncError):
        ours = Unready(Reason.MODEL, error.message, hint=error.hint)
    else:
        why = (str(error) or type(error).__name__).rstrip(".")
        ours = Unready(Reason.MODEL, f"The embedding model cannot be used: {why}.", hint="The log tells more.")
    ours.__cause__ = error
    return ours


def _useless(what: str) -> FailFile:
    return FailFile(
        Reason.MODEL,
        f"The embedding model gave {what}.",
        hint="The model's files may be damaged: reinstall them and restart kbsync.",
    )
