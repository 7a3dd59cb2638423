"""How many children read documents on this machine, with how many threads, on which GPU, and for how long each may."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbsync import machine
from kbsync.machine import Memory

# With the packaged models a worker holds 1.9 GB after an 18-page PDF and 2.3 GB at its peak; with Docling's own 2.9.
PACKAGED_BYTES, OWN_BYTES = 5 << 29, 3 << 30
# What the daemon and its embedder take beside them; and less than one reader with these is no plan at all.
DAEMON_BYTES, LEAST_BYTES = 3 << 29, 4 << 30
_BASE_S, _PAGE_S, _LONGEST_S = 120.0, 20.0, 3600.0
# Where nobody has counted the pages: a page of a novel is smaller, a scanned one larger.
_BYTES_A_PAGE = 20_000
_NVIDIA = "/proc/driver/nvidia/gpus"


@dataclass(frozen=True, slots=True)
class Slots:
    """How many children run at once, each with how many threads. `gpus`: the one that each sees; empty: all see all."""

    count: int
    threads: int
    gpus: tuple[str, ...] = ()


def plan(workers: int, cores: int, memory: int, worker_bytes: int, gpus: tuple[str, ...] = ()) -> Slots:
    """Decide how many of the `workers` wanted really run: each needs a core and `worker_bytes` of `memory` (bytes).

    `gpus` (as CUDA_VISIBLE_DEVICES names them) are dealt out in turn.
    """
    number = max(1, min(workers, cores, memory // worker_bytes))
    dealt = tuple(gpus[slot % len(gpus)] for slot in range(number)) if gpus else ()
    return Slots(number, max(1, cores // number), dealt)


def plan_here(
    workers: int,
    device: str | Sequence[str],
    *,
    own_models: bool,
    threads: int | None = None,
    memory_mb: int | None = None,
) -> Slots:
    """Decide how many children read documents on this machine; `own_models`: with Docling's own, which use the GPUs.

    `threads` and `memory_mb` as in the settings: the most cores, and the memory to plan with.
    """
    cores = min(machine.cores(), threads or sys.maxsize)
    memory = budget(machine.memory(), memory_mb) - DAEMON_BYTES
    if not own_models:  # the packaged ones compute on the CPU
        return plan(workers, cores, memory, PACKAGED_BYTES)
    gpus = gpus_for(device if isinstance(device, str) else list(device), present_gpus(os.environ))
    return plan(workers, cores, memory, OWN_BYTES, gpus)


def budget(memory: Memory, wanted_mb: int | None) -> int:
    """Return how many bytes kbsync plans with, all its processes together: what is wanted, else half of the machine's.

    Never more than it may have. What is free now is looked at when a child starts, not here.
    """
    planned = max(memory.total // 2, LEAST_BYTES) if wanted_mb is None else wanted_mb << 20
    return min(planned, memory.limit)


def time_limit_for(pages: int | None, size: int) -> float:
    """Return the seconds that reading a document may take; without a page count the size in bytes is a guess at it."""
    expected = pages if pages is not None else size // _BYTES_A_PAGE
    return min(_BASE_S + _PAGE_S * expected, _LONGEST_S)


def present_gpus(environment: Mapping[str, str], folder: str = _NVIDIA) -> tuple[str, ...]:
    """Return the CUDA devices of this machine as CUDA_VISIBLE_DEVICES names them, without loading torch for it."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip())
    try:
        return tuple(str(number) for number in range(len(os.listdir(folder))))
    except OSError:
        return ()


def gpus_for(device: str | Sequence[str], present: tuple[str, ...]) -> tuple[str, ...]:
    """Return which GPUs the setting `models.device` means for children, by the names of `present_gpus`.

    A setting without CUDA gives the empty name, which hides them all. `cuda:1` counts within `present`.
    """
    if not present:
        return ()
    if device in ("auto", "cuda"):
        return present
    numbers = [device] if isinstance(device, str) else device
    wanted = [int(name.removeprefix("cuda:")) for name in numbers if name.startswith("cuda:") and name[5:].isdigit()]
    return tuple(present[number] for number in wanted if number < len(present)) or ("",)
