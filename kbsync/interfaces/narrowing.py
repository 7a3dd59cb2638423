"""What a search may be narrowed to, as commands and HTTP name it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kbsync.errors import UsageError
from kbsync.interfaces.values import known_listed_type
from kbsync.model import Filter, FilterField

_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Filters of a search. Of several types, sources or places any will do; everything else must hold together.

    `sources`: folders that are followed. `places`: absolute paths, or names of folders. `since` and `until`: a year, a
    month, a day (`until` with all of it) or a moment, in local time unless it says another.
    """

    types: Sequence[str] = ()
    sources: Sequence[str] = ()
    places: Sequence[str] = ()
    languages: Sequence[str] = ()
    title: str | None = None
    section: str | None = None
    since: str | None = None
    until: str | None = None
    all_versions: bool = False

    def filters(self) -> tuple[Filter, ...]:
        """Return what it means for search. Raises UsageError for what cannot be."""
        found = [
            Filter("type", tuple(str(known_listed_type(name)) for name in self.types)),
            Filter("source", tuple(_absolute(path) for path in self.sources)),
            Filter("place", tuple(self.places)),
            Filter("language", tuple(self.languages)),
            *(Filter(field, (said,)) for field, said in self._phrases() if said is not None),
        ]
        if self.since is not None:
            found.append(Filter("since", (_moment(self.since),)))
        if self.until is not None:
            found.append(Filter("before", (_moment(self.until, after=True),)))
        return tuple(each for each in found if each.values)

    def _phrases(self) -> tuple[tuple[FilterField, str | None], ...]:
        return ("title", self.title), ("section", self.section)


EVERYTHING = Narrowing()


def _absolute(path: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError("A source is named by its absolute path.")
    return os.path.realpath(path)


def _moment(said: str, *, after: bool = False) -> float:
    """Return when that was, in seconds since 1970; with `after` the first moment that does not belong to it."""
    try:
        if (day := _DAY.fullmatch(said.strip())) is None:
            # A moment belongs to itself: files that changed in just that second are meant too.
            return datetime.fromisoformat(said.strip()).timestamp() + (1 if after else 0)
        begun = datetime(int(day[1]), int(day[2] or 1), int(day[3] or 1))  # noqa: DTZ001 (a person's day is a local one)
        if not after:
            return begun.timestamp()
        if day[3]:
            return (begun + timedelta(days=1)).timestamp()
        last_month = begun.month if day[2] else 12
        return begun.replace(year=begun.year + last_month // 12, month=last_month % 12 + 1).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{said!r} is no date.", hint="Dates: 2024, 2024-05, 2024-05-31 or 2024-05-31T14:00."
        ) from error
