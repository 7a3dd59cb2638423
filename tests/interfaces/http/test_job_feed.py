"""`GET events`: every job that changes is told, in the order that clients rely on, until either side ends it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kbsync.errors import EngineBusy
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.job_feed import STREAMS, JobFeed
from kbsync.interfaces.http.server import Server
from kbsync.interfaces.operations import Operations
from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.interfaces.conftest import Service


def jobs_in(frame: bytes) -> list[dict[str, Any]]:
    """Return the jobs that a piece of the stream tells of."""
    found = []
    for event in frame.decode().split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in event.split("\n"))
        if lines.get("event") == "job":
            found.append(json.loads(lines["data"]))
    return found


@pytest.fixture
def feed(engine: SimulatedEngine) -> JobFeed:
    return JobFeed(Operations(engine.engine, None))


async def next_jobs(frames: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    while not (found := jobs_in(await anext(frames))):
        pass
    return found


def test_a_job_is_told_when_it_is_queued_and_when_it_is_done(engine: SimulatedEngine, feed: JobFeed) -> None:
    async def follow() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        frames = feed.frames()
        assert (await anext(frames)).startswith(b"retry: ")
        engine.kb.adding.add_note("The elm.", "Elms")
        queued = await next_jobs(frames)
        engine.settle()
        done = await next_jobs(frames)
        feed.close()
        return queued, done

    queued, done = asyncio.run(follow())
    assert [(job["kind"], job["state"]) for job in queued] == [("note", "queued")]
    assert [(job["id"], job["state"], job["chunk_count"]) for job in done] == [(queued[0]["id"], "done", 1)]


def test_a_reader_that_is_slow_gets_the_last_state_of_each_job_once(engine: SimulatedEngine, feed: JobFeed) -> None:
    async def follow() -> list[dict[str, Any]]:
        frames = feed.frames()
        await anext(frames)
        for number in range(3):
            engine.write(f"{NOTES}/{number}.md", f"# {number}\n\nThe ash number {number}.\n")
        engine.settle()
        return await next_jobs(frames)

    told = asyncio.run(follow())
    assert [job["state"] for job in told] == ["done"] * 3
    assert [job["id"] for job in told] == sorted({job["id"] for job in told})


def test_many_jobs_at_once_come_in_portions_and_none_is_missing(engine: SimulatedEngine, feed: JobFeed) -> None:
    async def follow() -> list[list[dict[str, Any]]]:
        frames = feed.frames()
        await anext(frames)
        ids = [engine.kb.adding.add_note(f"Tree number {number}.", None) for number in range(620)]
        portions: list[list[dict[str, Any]]] = []
        while sum(len(portion) for portion in portions) < len(ids):
            portions.append(await next_jobs(frames))
        assert [job["id"] for portion in portions for job in portion] == ids
        return portions

    assert [len(portion) for portion in asyncio.run(follow())] == [500, 120]


def test_only_so_many_streams_are_open_and_an_ended_one_makes_room(feed: JobFeed) -> None:
    async def follow() -> None:
        streams = [feed.frames() for _ in range(STREAMS)]
        for frames in streams:
            await anext(frames)
        with pytest.raises(EngineBusy):
            await anext(feed.frames())
        await streams[0].aclose()  # type: ignore[attr-defined]  # an async generator
        assert (await anext(feed.frames())).startswith(b"retry: ")

    asyncio.run(follow())


def test_closing_ends_every_stream_and_lets_no_new_one_in(feed: JobFeed) -> None:
    async def follow() -> None:
        frames = feed.frames()
        await anext(frames)
        feed.close()
        feed.close()
        assert jobs_in(b"".join([frame async for frame in frames])) == []
        with pytest.raises(EngineBusy):
            await anext(feed.frames())

    asyncio.run(follow())


def test_a_loop_that_has_ended_is_nobodys_trouble(engine: SimulatedEngine, feed: JobFeed) -> None:
    listeners: list[Callable[[frozenset[int]], None]] = []

    async def follow() -> None:
        frames = feed.frames()
        await anext(frames)
        listeners.extend(engine.engine.writer._listeners)

    asyncio.run(follow())
    (listener,) = listeners
    listener(frozenset({1}))


def test_the_stream_comes_over_tcp_and_tells_of_a_note_until_it_is_done(service: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.door.access.port, timeout=20)
    connection.request("GET", "/api/v1/events", headers=service.token)
    response = connection.getresponse()
    assert (response.status, response.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    job_id = service.ask("POST", "notes", {"text": "The box tree."}).json()["job_id"]
    told = b""
    while b'"done"' not in told:
        told += response.read1(4096)
    assert {job["id"] for job in jobs_in(told)} == {job_id}
    response.close()
    connection.close()


def test_the_server_stops_while_somebody_listens(engine: SimulatedEngine) -> None:
    path = engine.world.locations.socket_path()
    server = Server(build_app(Operations(engine.engine, None)), path)
    server.start()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(path)
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with connection.makefile("rb") as stream:
            while b"connected" not in stream.readline():
                pass
            server.stop()
            assert stream.read().endswith(b"0\r\n\r\n")  # its proper end, not a torn connection
    engine.world.locations.forget_socket(path)
