"""`GET /metrics`: what the daemon does, in the format of Prometheus. Counters begin anew with the process.

Nothing in it names a file or quotes one: every label has a value out of a short list.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, product
from typing import TypeVar, get_args

from fastapi import FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from starlette.background import BackgroundTask

from kbsync.embed.roster import ModelState
from kbsync.interfaces.measured import Counted, Measured, Measuring
from kbsync.measures import BOUNDS_S, Histogram
from kbsync.model import Lane, Priority
from kbsync.reasons import FileState

# The values of a family's labels.
Labels = TypeVar("Labels", bound=tuple[str, ...])

_SOURCE_STATES = ("watching", "polling", "paused", "held")
_RESTS = ("paused", "quiet_hours", "battery")
_JOB_STATES = ("queued", "processing")
# Queries are in no queue.
_PRIORITIES = tuple(one.name.lower() for one in Priority if one is not Priority.QUERY)
_SLOTS = ("none", "idle", "busy")
_MODES = ("native", "polling")
_LOST = ("overflow", "error", "no heartbeat")


def add_metrics_route(app: FastAPI, measuring: Measuring) -> None:
    """Add `GET /metrics`, for who may ask as for every route: over TCP with the token."""
    registry = CollectorRegistry()
    registry.register(_DaemonCollector(measuring.look))
    ProcessCollector(registry=registry)  # processor time, memory, open files and the start, where /proc tells them

    @app.get("/metrics", include_in_schema=False)  # no part of the JSON API
    def metrics(request: Request) -> Response:
        """What the daemon does, in the format of Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        told = encode(registry)
        # What takes longer to count is counted when the answer is out: the next one has it.
        later = BackgroundTask(measuring.recount) if measuring.is_recount_due() else None
        return Response(told, headers={"Content-Type": content_type}, background=later)


class _DaemonCollector(Collector):
    """Looks at the daemon once for each scrape."""

    def __init__(self, look: Callable[[], Measured]) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        return ()  # so that nothing is looked at before the first scrape

    def collect(self) -> Iterator[Metric]:
        now = self._look()
        yield _gauge("build_info", "The program.", {(now.version, platform.python_version()): 1}, "version", "python")
        if now.counted is not None:
            yield from _of_database(now.counted, now.at)
        yield _gauge("wal_size_bytes", "Size of the database's write-ahead log.", {(): now.log_bytes})
        yield _counter("commits", "Transactions written to the database.", {(): now.commits})
        yield from _of_work(now)
        yield from _of_folders(now)
        yield from _of_state(now)


def _of_database(counted: Counted, now: float) -> Iterator[Metric]:
    yield _gauge("database_size_bytes", "Size of the database without its log.", {(): counted.size_bytes})
    documents = {(kind,): count for kind, count in counted.documents.items()}
    yield _gauge("documents", "Current documents, by type.", documents, "type")
    yield _gauge("chunks", "Pieces of text, of earlier versions too.", {(): counted.chunks})
    files = {(str(state),): counted.files.get(state, 0) for state in FileState}
    yield _gauge("files", "Paths ever seen in sources, by state.", files, "state")
    sources = {(state,): counted.sources.get(state, 0) for state in _SOURCE_STATES}
    yield _gauge("sources", "Followed folders, by state.", sources, "state")
    live = dict.fromkeys(product(_JOB_STATES, get_args(Lane), _PRIORITIES), 0)
    live |= {(row.state, row.lane, Priority(row.priority).name.lower()): row.count for row in counted.live_jobs}
    yield _gauge("queue_jobs", "Jobs that are not done yet.", live, "state", "lane", "priority")
    oldest = min((row.oldest_at for row in counted.live_jobs), default=now)
    yield _gauge(
        "queue_oldest_job_age_seconds", "Age of the oldest of them, 0 without any.", {(): max(0.0, now - oldest)}
    )
    if counted.checked_at is not None:
        yield _gauge("last_check_timestamp_seconds", "When the database was checked last.", {(): counted.checked_at})
        yield _gauge("last_check_ok", "Whether that check found all whole.", {(): counted.check_is_ok})


def _of_work(now: Measured) -> Iterator[Metric]:
    yield _counter(
        "jobs_ended", "Jobs that ended, by how and by the type of the file.", now.ended_jobs, "state", "type"
    )
    stages = "Time that a file spends in each stage, with waiting for a child, the model or the writer."
    yield _histogram("stage_duration_seconds", stages, now.stages, "stage")
    yield _histogram("search_duration_seconds", "Time that a search takes.", now.searches, "mode")
    children = {(state,): now.children.get(state, 0) for state in _SLOTS}
    yield _gauge("conversion_slots", "Places for processes that read documents.", children, "state")
    yield _gauge("conversion_resident_memory_bytes", "Memory of these processes.", {(): now.children_bytes})


def _of_folders(now: Measured) -> Iterator[Metric]:
    lost = {(why.replace(" ", "_"),): now.events.get(("lost", why), 0) for why in _LOST}
    yield _counter("events", "Changes that the system told of.", {(): now.events.get(("heard",), 0)})
    yield _counter("events_lost", "Times that such events were lost, by why; a rescan follows each.", lost, "why")
    rescan = SummaryMetricFamily(
        "kbsync_rescan_duration_seconds",
        "Walks through a source, and the time they took.",
        count_value=now.walks,
        sum_value=now.walks_seconds,
    )
    yield rescan
    watching = now.watching
    modes = {(mode,): watching.modes.get(mode, 0) for mode in _MODES}
    yield _gauge("watchers", "Sources by how their changes are noticed.", modes, "mode")
    yield _gauge("watched_folders", "Folders with a watch of the system.", {(): watching.folders})
    yield _gauge("unwatched_folders", "Folders without one, which are polled.", {(): watching.unwatched})
    yield _gauge(
        "watcher_notices", "Sources whose watching a person can mend; `kbsync status` says how.", {(): watching.notices}
    )


def _of_state(now: Measured) -> Iterator[Metric]:
    model = {(state,): now.model_state == state for state in get_args(ModelState)}
    yield _gauge("model", "Whether the embedding model is in this state.", model, "state")
    yield _gauge("storage_available", "Whether kbsync can write to its own disk.", {(): now.is_storage_available})
    followed = "Whether the configuration file is followed: 0 where it has a mistake."
    yield _gauge("configuration_followed", followed, {(): now.is_configuration_followed})
    resting = {(cause,): now.resting == cause for cause in _RESTS}
    yield _gauge("resting", "Why indexing rests, if it does.", resting, "cause")


def _gauge(name: str, text: str, values: Mapping[Labels, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"kbsync_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Mapping[Labels, float], *labels: str) -> Metric:
    family = CounterMetricFamily(f"kbsync_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _histogram(name: str, text: str, values: Mapping[str, Histogram], label: str) -> Metric:
    family = HistogramMetricFamily(f"kbsync_{name}", text, labels=(label,))
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    for kind, told in values.items():
        family.add_metric((kind,), list(zip(bounds, accumulate(told.counts), strict=True)), told.seconds)
    return family
