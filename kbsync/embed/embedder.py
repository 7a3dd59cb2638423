"""What the embedder asks of a device, and what a device's answer must be before anything else may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbsync.errors import FailFile, KbsyncError, RetryLater, Unready, without_text
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What `status` says of the hardware. `memory` in bytes, of all devices together; None where unknown."""

    kind: str
    name: str
    count: int
    memory: int | None


class Device(Protocol):
    """One place where the model runs. Used by one thread at a time, but for `end`."""

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

    @property
    def info(self) -> DeviceInfo | None:
        """Return what this one device is; None where that is not known, or not yet."""
        ...

    @property
    def loaded(self) -> bool:
        """Tell whether the model is in, so that texts are embedded at once."""
        ...

    def load(self) -> None:
        """Bring the model in where it is not; seconds. Raises Unready(MODEL) where that cannot be.

        Raises RetryLater(MODEL) where it may be at another time.
        """
        ...

    def unload(self) -> None:
        """Let the model and its memory go; `load` brings it back. Without harm where it is not in."""
        ...

    def end(self) -> None:
        """Let the model go for good, from any thread: what runs ends soon where it can, by RetryLater(MODEL)."""
        ...

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return one normalised float32 row a text, in order; a blank text too gets a row that is not zero.

        Brings the model in where it is not. Raises FailFile(MODEL) for texts it cannot embed, RetryLater(MODEL) where
        it cannot just now, RetryLater(CRASHED) where the process that it runs in died over these texts, Unready(MODEL)
        where it cannot embed anything.
        """
        ...


def of_all(infos: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """Return what devices in use at the same time are together, None where nothing is known of any."""
    if not infos:
        return None
    # Several of a kind have memories of their own; those of one CPU would be the same one.
    own = infos if infos[0].kind == "cuda" else infos[:1]
    known = [one.memory for one in own if one.memory is not None]
    return DeviceInfo(infos[0].kind, infos[0].name, len(infos), sum(known) if known else None)


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


def means_of_windows(rows: Vectors, counts: Sequence[int]) -> Vectors:
    """Return a row a text, normalised, from its windows' rows, of which each text has as many as `counts` says."""
    edges = np.cumsum([0, *counts])
    means = [
        rows[start:end] if end - start == 1 else mean_of_windows(rows[start:end]) for start, end in pairwise(edges)
    ]
    return np.concatenate(means) if means else rows


def failed(error: Exception) -> KbsyncError:
    """Return what an error that a device raised over a text means for it: ours as they are, others FailFile(MODEL)."""
    if isinstance(error, FailFile | RetryLater):
        return error
    ours = FailFile(
        Reason.MODEL,
        f"The embedding model failed: {without_text(error)}",
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
