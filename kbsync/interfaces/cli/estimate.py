"""A rough time for reading a folder, from its files and bytes: what `sources add` says before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kbsync.interfaces.cli.output import Record, counted, size


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds that a type takes on two cores, by file and by megabyte; `longest` is the most for one file."""

    file_s: float
    megabyte_s: float
    longest_s: float = 3600.0


# A text is as slow as its embedding: some twenty chunks of 1 kB a second, at most 5,000 chunks of a file.
_TEXT = Rate(0.03, 45.0, 250.0)
# Documents by the converter (two pages a second, of about 60 kB in a PDF) and the embedding of what it finds.
_RATES: dict[str, Rate] = {
    "pdf": Rate(1.0, 10.0),
    "docx": Rate(0.5, 15.0),
    "pptx": Rate(0.5, 5.0),
    "xlsx": Rate(0.5, 60.0),
    "epub": Rate(0.5, 60.0),
    "html": Rate(0.2, 20.0),
    "image": Rate(3.0, 0.5),
}
_MEASURED_CORES = 2


def rough_seconds(by_type: dict[str, Record], cores: int | None = None) -> float:
    """Return how long files take, roughly: `by_type` as `survey` gives it. The model's first load is not in it."""
    total = 0.0
    for document_type, found in by_type.items():
        rate = _RATES.get(document_type, _TEXT)
        seconds = found["files"] * rate.file_s + found["size_bytes"] / 1e6 * rate.megabyte_s
        total += min(seconds, found["files"] * rate.longest_s)
    return total * _MEASURED_CORES / (cores or os.cpu_count() or _MEASURED_CORES)


def estimate_line(survey: Record, seconds: float) -> str:
    """Return what a folder holds, what is left out, and how long it may take, in sentences that say how rough it is."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in survey.get("left_out", {}).items())
    more = [f"Left out: {reasons}."] if reasons else []
    more += [survey["unreadable"]] if survey.get("unreadable") else []
    if not survey["files"]:
        return " ".join(["There is nothing to read in it" + ("." if survey["complete"] else " so far."), *more])
    least = "" if survey["complete"] else "at least "
    told = (
        f"{least}{counted(survey['files'], 'file')}, {size(survey['size_bytes'])} to read; {least}about "
        f"{duration(seconds)} by a rough guess from the types."
    )
    return " ".join([told, *more])


def duration(seconds: float) -> str:
    """Return a time as roughly as it is known: `1 minute`, `40 minutes`, `3 hours`."""
    if seconds < 50:
        return counted(max(10, round(seconds / 10) * 10), "second")
    if seconds < 90 * 60:
        return counted(max(1, round(seconds / 60)), "minute")
    if seconds < 36 * 3600:
        return counted(round(seconds / 3600), "hour")
    return counted(round(seconds / 86400), "day")
