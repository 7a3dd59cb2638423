"""`/metrics` tells what the daemon does, in Prometheus' format and by its conventions, and nothing of anybody's."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest
from fastapi import FastAPI
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from kbsync.errors import RetryLater
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base import census
from kbsync.measures import STAGES
from kbsync.model import SEARCH_MODES
from kbsync.reasons import Reason
from kbsync.store.connection import Connection
from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.interfaces.conftest import Service
from tests.interfaces.http.asgi import SOCKET, Reply, ask

CANARY = "canary3f0a"
HOST = (b"host", b"localhost")


@pytest.fixture
def operations(engine: SimulatedEngine) -> Operations:
    return Operations(engine.engine, engine.daemon)


@pytest.fixture
def app(operations: Operations) -> FastAPI:
    return build_app(operations)


def scraped(app: FastAPI, *headers: tuple[bytes, bytes]) -> Reply:
    return asyncio.run(ask(app, "GET", "/metrics", [HOST, *headers], server=SOCKET))


def families(app: FastAPI) -> dict[str, Metric]:
    reply = scraped(app)
    assert reply.status == 200
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


def values(app: FastAPI, sample: str) -> dict[tuple[str, ...], float]:
    """Return the values of a sample's name by its labels, buckets left out."""
    return {
        tuple(found.labels.values()): found.value
        for family in families(app).values()
        for found in family.samples
        if found.name == sample
    }


def test_it_counts_what_the_daemon_does(engine: SimulatedEngine, operations: Operations, app: FastAPI) -> None:
    before = values(app, "kbsync_commits_total")[()]
    engine.write(f"{NOTES}/a.md", "# A\n\nOne.\n")
    engine.write(f"{NOTES}/b.pdf", "corrupt")
    engine.write(f"{NOTES}/c.pdf", "A page.")
    engine.write(f"{NOTES}/d.csv", "")
    engine.settle()
    engine.note("A note.")
    operations.search("one")
    operations.search("one", "lexical")
    operations.search("two", "lexical")
    assert values(app, "kbsync_jobs_ended_total") == {
        ("done", "markdown"): 1,
        ("failed", "pdf"): 1,
        ("done", "pdf"): 1,
        ("done", "note"): 1,
    }
    assert values(app, "kbsync_documents") == {("markdown",): 1, ("note",): 1, ("pdf",): 1}
    assert values(app, "kbsync_chunks") == {(): 3}
    files = values(app, "kbsync_files")
    assert files == {("indexed",): 2, ("failed",): 1, ("skipped",): 1, ("waiting",): 0, ("gone",): 0}
    stages = values(app, "kbsync_stage_duration_seconds_count")
    assert stages == {("read",): 4, ("convert",): 3, ("chunk",): 3, ("embed",): 3, ("write",): 4}, (
        "of a note it is looked whether it is there, and then it is written"
    )
    searches = values(app, "kbsync_search_duration_seconds_count")
    assert searches == {("hybrid",): 1, ("lexical",): 2, ("vector",): 0}
    assert values(app, "kbsync_events_total") == {(): 4}
    assert values(app, "kbsync_rescan_duration_seconds_count")[()] == engine.loops.rescans.walks >= 1
    assert values(app, "kbsync_commits_total")[()] > before
    assert values(app, "kbsync_database_size_bytes")[()] > 0
    assert values(app, "kbsync_queue_oldest_job_age_seconds") == {(): 0}
    empty = values(app, "kbsync_queue_jobs")
    assert (len(empty), set(empty.values())) == (2 * 4 * 2, {0}), "a series that goes away says nothing"


def test_it_tells_the_queue_by_lane_and_priority_and_how_long_it_waits(engine: SimulatedEngine, app: FastAPI) -> None:
    engine.kb.adding.add_note("A note.", None)
    engine.clock.advance(30.0)
    engine.fs.write(f"{NOTES}/b.pdf", b"A page.")
    engine.report(f"{NOTES}/b.pdf", closed=True)
    for _ in range(10):
        engine.clock.advance(1.0)
        engine.loops.producer.step()
    queued = values(app, "kbsync_queue_jobs")
    assert {labels: count for labels, count in queued.items() if count} == {
        ("document", "event", "queued"): 1,
        ("text", "added", "queued"): 1,
    }
    assert len(queued) == 2 * 4 * 2
    assert values(app, "kbsync_queue_oldest_job_age_seconds") == {(): 40.0}


def test_it_tells_how_folders_are_watched_and_what_was_lost(engine: SimulatedEngine, app: FastAPI) -> None:
    nothing = {("overflow",): 0, ("error",): 0, ("no_heartbeat",): 0}
    assert values(app, "kbsync_events_lost_total") == nothing
    engine.watchers[0].lose_events()
    engine.watchers[0].unwatched = 3
    assert values(app, "kbsync_events_lost_total") == nothing | {("overflow",): 1}
    assert values(app, "kbsync_watchers") == {("native",): 1, ("polling",): 0}
    assert values(app, "kbsync_watched_folders") == {(): 1}
    assert values(app, "kbsync_unwatched_folders") == {(): 3}
    assert values(app, "kbsync_watcher_notices") == {(): 1}
    engine.configure()
    assert values(app, "kbsync_events_lost_total") == nothing | {("overflow",): 1}, "counters never fall"
    assert values(app, "kbsync_watchers") == {("native",): 0, ("polling",): 0}


def test_it_tells_the_state_that_a_person_asks_for_first(engine: SimulatedEngine, app: FastAPI) -> None:
    engine.note("The model is loaded when it is needed.")
    assert values(app, "kbsync_model") == {("ready",): 1, ("loading",): 0, ("resting",): 0, ("unusable",): 0}
    for name in ("storage_available", "configuration_followed"):
        assert values(app, f"kbsync_{name}") == {(): 1}, name
    assert "kbsync_last_check_ok" not in families(app)
    engine.kb.check()
    assert values(app, "kbsync_last_check_ok") == {(): 1}
    assert values(app, "kbsync_last_check_timestamp_seconds") == {(): engine.clock.now()}
    (engine.world.home / "config.toml").write_text("workers = -1\n")
    engine.daemon.reload()
    engine.engine.rest.pause(None)
    assert values(app, "kbsync_configuration_followed") == {(): 0}
    assert values(app, "kbsync_resting") == {("paused",): 1, ("quiet_hours",): 0, ("battery",): 0}
    assert values(app, "kbsync_sources") == {("watching",): 1, ("polling",): 0, ("paused",): 0, ("held",): 0}
    assert values(app, "kbsync_conversion_slots") == {("none",): 0, ("idle",): 1, ("busy",): 0}


def test_a_database_that_cannot_be_read_hides_nothing_else(
    engine: SimulatedEngine, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_connection: Connection) -> census.Vitals:
        raise RetryLater(Reason.RETRY, "The database is busy.")

    monkeypatch.setattr(census, "_vitals", busy)
    found = families(app)
    assert "kbsync_documents" not in found
    assert "kbsync_jobs_ended" in found
    assert "kbsync_model" in found


# ---- form ----

UNITS = ("_seconds", "_bytes", "_total", "_info", "_ratio")


def test_names_and_types_are_as_prometheus_wants_them(app: FastAPI) -> None:
    """The rules of `promtool check metrics`: help, base units, counters alone end in _total, no type in a name."""
    for name, family in families(app).items():
        assert re.fullmatch(r"(kbsync|process)(_[a-z]+)+", name), name
        assert family.documentation, name
        if name.startswith("process_"):
            continue  # as every program tells them
        assert family.documentation.endswith("."), name
        assert not re.search(r"_(total|count|sum|bucket|gauge|counter|histogram|summary)$", name), name
        assert not re.search(r"_(milliseconds|ms|minutes|hours|kb|mb|kilobytes|percent)(_|$)", name), name
        for sample in family.samples:
            assert sample.name.endswith("_total") is (family.type == "counter"), sample.name
            assert not {"le", "quantile"} & sample.labels.keys() or family.type == "histogram"
            assert all(re.fullmatch(r"[a-z]+", label) for label in sample.labels)


def test_histograms_are_cumulative_and_end_with_everything(engine: SimulatedEngine, app: FastAPI) -> None:
    engine.engine.measures.stages.add("convert", 0.3)
    engine.engine.measures.stages.add("convert", 1000.0)
    family = families(app)["kbsync_stage_duration_seconds"]
    counts = [
        (sample.labels["le"], sample.value)
        for sample in family.samples
        if sample.name.endswith("_bucket") and sample.labels["stage"] == "convert"
    ]
    assert [count for _bound, count in counts] == sorted(count for _bound, count in counts)
    assert dict(counts)["0.25"] == 0
    assert dict(counts)["0.5"] == 1
    assert dict(counts)["+Inf"] == 2
    assert counts[-1][0] == "+Inf"
    (total,) = [one.value for one in family.samples if one.name.endswith("_sum") and one.labels["stage"] == "convert"]
    assert total == pytest.approx(1000.3)


def test_it_speaks_the_format_that_is_asked_for(app: FastAPI) -> None:
    plain = scraped(app)
    assert plain.headers[b"content-type"].startswith(b"text/plain; version=")
    newer = scraped(app, (b"accept", b"application/openmetrics-text; version=1.0.0; charset=utf-8"))
    assert newer.headers[b"content-type"].startswith(b"application/openmetrics-text; version=1.0.0")
    told = open_metrics.text_string_to_metric_families(newer.body.decode())  # type: ignore[no-untyped-call]
    assert {family.name for family in told} == families(app).keys()


# Every label and its values: a name of a file, a query, a sentence would be none of them.
LABELS: dict[str, set[str]] = {
    "stage": set(STAGES),
    "mode": {*SEARCH_MODES, "native", "polling"},
    "state": {
        *("queued", "processing", "done", "failed", "skipped", "indexed", "waiting", "gone"),
        *("watching", "polling", "paused", "held", "none", "idle", "busy"),
        *("ready", "loading", "resting", "unusable"),
    },
    "type": {"markdown", "pdf", "note", "csv", "code", "other"},
    "lane": {"text", "document"},
    "priority": {"query", "added", "event", "scan", "low"},
    "why": {"overflow", "error", "no_heartbeat"},
    "cause": {"paused", "quiet_hours", "battery"},
}


def test_no_label_holds_anything_of_a_person(engine: SimulatedEngine, operations: Operations, app: FastAPI) -> None:
    """A13: what is scraped lies in another program's database for months."""
    for name in (f"{CANARY}.md", f"{CANARY}.pdf", f"{CANARY}/{CANARY}.{CANARY}", f"{CANARY}.py"):
        engine.write(f"{NOTES}/{name}", f"# {CANARY}\n\n{CANARY}\n" if name.endswith("md") else "corrupt")
    engine.settle()
    engine.note(CANARY, CANARY)
    operations.search(CANARY)
    reply = scraped(app)
    assert CANARY.encode() not in reply.body
    assert NOTES.encode() not in reply.body
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            for label, value in sample.labels.items():
                assert label in ("le", "version", "python") or value in LABELS[label], (sample.name, label, value)


# ---- who may ask, and what it costs ----


def test_over_tcp_only_who_has_the_token_is_told(service: Service) -> None:
    reply = service.ask_the_port("GET", "/metrics")
    assert reply.status == 401
    assert b"kbsync_" not in reply.body
    reply = service.ask_the_port("GET", "/metrics", headers=service.token)
    assert reply.status == 200
    assert b"kbsync_build_info" in reply.body
    assert reply.headers["content-type"].startswith("text/plain; version=")
    assert service.ask_the_port("GET", "/metrics", headers={**service.token, "Host": "evil.example"}).status == 403


def test_many_scrapes_at_once_are_all_answered(service: Service) -> None:
    found: list[int] = []

    def scrape() -> None:
        for _ in range(5):
            reply = service.ask_the_port("GET", "/metrics", headers=service.token)
            found.append(reply.status if b"kbsync_chunks" in reply.body else 0)

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 40


def test_an_idle_daemon_is_scraped_without_counting(
    engine: SimulatedEngine, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 100,000 documents a count takes a quarter of a second; a scrape comes every few."""
    counts: list[int] = []
    count = census._census

    def counted(connection: Connection) -> census.Census:
        counts.append(1)
        return count(connection)

    monkeypatch.setattr(census, "_census", counted)
    for _ in range(5):
        assert scraped(app).status == 200
        engine.clock.advance(15.0)
    assert len(counts) == 1


def test_what_takes_long_to_count_is_counted_behind_the_answer(
    engine: SimulatedEngine, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = census._census

    def slow(connection: Connection) -> census.Census:
        engine.clock.advance(1.0)
        return count(connection)

    monkeypatch.setattr(census, "_census", slow)
    assert values(app, "kbsync_documents") == {}
    engine.note("A note.")
    engine.clock.advance(300.0)
    assert values(app, "kbsync_documents") == {}, "nobody waits for it"
    assert values(app, "kbsync_documents") == {("note",): 1}
