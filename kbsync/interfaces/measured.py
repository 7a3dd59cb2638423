"""What a running daemon shows to programs that watch it: one moment in plain values, no path and no text among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kbsync.compose import Engine
from kbsync.daemon.daemon import Daemon
from kbsync.embed.roster import ModelState
from kbsync.errors import KbsyncError, NotRunning
from kbsync.knowledge_base.census import CensusTaker
from kbsync.measures import Histogram
from kbsync.store.waiting_jobs import LiveJobs


@dataclass(frozen=True, slots=True)
class Counted:
    """What the database says, see `census.Census` and `census.Vitals`. Times are seconds since 1970."""

    sources: Mapping[str, int]
    size_bytes: int
    checked_at: float | None
    check_is_ok: bool
    documents: Mapping[str, int]
    chunks: int
    files: Mapping[str, int]
    live_jobs: tuple[LiveJobs, ...]


@dataclass(frozen=True, slots=True)
class Watching:
    """How sources are watched: how many in each mode, folders with and without a watch, and sources with a notice."""

    modes: Mapping[str, int]
    folders: int
    unwatched: int
    notices: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One look at a daemon. `counted` is None where the database cannot be read now; `at` in seconds since 1970.

    Counted since the start: `stages`, `searches`, `ended_jobs` by (state, type), `events` by (kind, why), `walks` of
    sources, `commits`. `children`: slots for conversions by what they do. `resting`: why work rests, None where it
    goes on.
    """

    at: float
    version: str
    counted: Counted | None
    stages: Mapping[str, Histogram]
    searches: Mapping[str, Histogram]
    ended_jobs: Mapping[tuple[str, ...], int]
    events: Mapping[tuple[str, ...], int]
    walks: int
    walks_seconds: float
    commits: int
    log_bytes: int
    watching: Watching
    children: Mapping[str, int]
    children_bytes: int
    resting: str | None
    is_storage_available: bool
    model_state: ModelState
    is_configuration_followed: bool


class Measuring:
    """Looks at an engine for `/metrics`. Any thread may ask."""

    def __init__(self, engine: Engine, daemon: Daemon | None) -> None:
        self._engine = engine
        self._daemon = daemon
        self._census = CensusTaker(engine.seams.clock, engine.writer, engine.readers)

    def look(self) -> Measured:
        """Return one look at the daemon; after the first one it takes some milliseconds. Raises NotRunning."""
        if self._daemon is None:
            raise NotRunning("The daemon is not running.", hint="Start it with `kbsync run`.")
        return measured(self._engine, self._daemon, self._census)

    def is_recount_due(self) -> bool:
        """Return whether what was counted has changed since, and it is time to count again."""
        return self._census.is_due()

    def recount(self) -> None:
        """Count again, for the next look. What stands in the way of it stands in the way of that too."""
        try:
            self._census.take()
        except KbsyncError:
            pass  # the next look tells that there is nothing to see


def measured(engine: Engine, daemon: Daemon, taker: CensusTaker) -> Measured:
    """Look at a daemon and its engine."""
    children, wal, resting = engine.cage.status(), engine.writer.wal, engine.rest.now()
    rescans = daemon.loops.rescans
    return Measured(
        at=engine.seams.clock.now(),
        version=engine.version,
        counted=_counted(taker),
        stages=engine.measures.stages.told(),
        searches=engine.measures.searches.told(),
        ended_jobs=engine.measures.jobs.told(),
        events=daemon.loops.watchers.events.told(),
        walks=rescans.walks,
        walks_seconds=rescans.walks_seconds,
        commits=engine.writer.commits,
        log_bytes=0 if wal is None else wal.bytes,
        watching=_watching(daemon),
        children=Counter(child.state for child in children),
        children_bytes=sum(child.resident_bytes for child in children),
        resting=None if resting is None else resting.cause,
        is_storage_available=not engine.outage.lasts,
        model_state="unusable" if engine.embedders.missing is not None else engine.batcher.state,
        is_configuration_followed=daemon.config_error is None,
    )


def _counted(taker: CensusTaker) -> Counted | None:
    try:
        vitals, census = taker.vitals(), taker.latest()
    except KbsyncError:
        return None  # damaged, or busy for long; what is in memory is told all the same
    return Counted(
        vitals.sources,
        vitals.size_bytes,
        vitals.checked_at,
        vitals.check_is_ok,
        census.documents,
        census.chunks,
        census.files,
        census.jobs,
    )


def _watching(daemon: Daemon) -> Watching:
    status = daemon.loops.watchers.status()
    return Watching(
        modes=Counter(str(watched["mode"]) for watched in status),
        folders=sum(int(str(watched["folders"])) for watched in status),
        unwatched=sum(int(str(watched["unwatched"])) for watched in status),
        notices=sum(watched["notice"] is not None for watched in status),
    )
