"""What a bench measured: named series of values, shown as one table or kept as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured, once or several times."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def p95(self) -> float:
        """Return the smallest value that at least 95 of 100 do not exceed."""
        return sorted(self.values)[math.ceil(0.95 * len(self.values)) - 1]


def ratio(name: str, ours: Sequence[float], bare: Sequence[float]) -> Figure:
    """Return how many times as long as the bare thing ours takes, pair by pair of alternating runs."""
    return Figure(name, "x", tuple(mine / theirs for mine, theirs in zip(ours, bare, strict=True)))


def table(figures: Iterable[Figure]) -> str:
    """Return a line a figure."""
    lines = [f"{'':44} {'median':>10} {'min':>10} {'max':>10} {'p95':>10}  unit (runs)"]
    for figure in figures:
        numbers = (figure.median, min(figure.values), max(figure.values), figure.p95)
        shown = " ".join(f"{number:10.3f}" for number in numbers)
        lines.append(f"{figure.name:44} {shown}  {figure.unit} ({len(figure.values)})")
    return "\n".join(lines)


def machine() -> str:
    """Return what the figures depend on most."""
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def as_json(figures: Iterable[Figure]) -> str:
    """Return every figure with all its values."""
    found = {
        figure.name: {"unit": figure.unit, "median": figure.median, "p95": figure.p95, "values": list(figure.values)}
        for figure in figures
    }
    return json.dumps({"machine": machine(), "figures": found}, indent=2)
