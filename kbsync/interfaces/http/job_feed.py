"""Server-sent events: every job whose state changed, as it is now. A slow reader misses steps, never the last one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from kbsync.errors import EngineBusy
from kbsync.interfaces.operations import Operations

# What changes within this time is told together: a walk queues thousands of jobs at once.
_TOGETHER_S = 0.2
# A comment goes out this often, so that both ends notice a connection that is dead.
_SIGN_OF_LIFE_S = 15.0
# Jobs that are read at once.
_AT_ONCE = 500
# Each stream holds one of the server's connections.
STREAMS = 16


class JobFeed:
    """The streams that are open. Each is served by one event loop; `close` may come from any thread."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._closed = False

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the bytes of one stream until the feed is closed. Raises EngineBusy where there are too many."""
        stream = _Stream(asyncio.get_running_loop())
        with self._lock:
            if self._closed or len(self._streams) >= STREAMS:
                raise EngineBusy("Too many event streams are open.", hint="Close one, or ask `GET jobs` now and then.")
            self._streams.add(stream)
        end = self._operations.listen_to_jobs(stream.add)
        try:
            # What is asked from here on misses nothing; the reader waits that long before it connects anew.
            yield b"retry: 2000\n: connected\n\n"
            while not stream.closed:
                for job_ids in await stream.changed():
                    jobs = (await run_in_threadpool(self._operations.jobs_by_id, job_ids))["jobs"]
                    yield b"".join(_frame(job) for job in jobs)
                yield b": alive\n\n"
        finally:
            end()
            with self._lock:
                self._streams.discard(stream)

    def close(self) -> None:
        """End every stream, and refuse new ones. Twice does no harm."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.close()


class _Stream:
    """What one reader has not heard of yet. Filled in the writer's thread, emptied in the event loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._ids: set[int] = set()
        self._rung = asyncio.Event()
        self.closed = False

    def add(self, job_ids: frozenset[int]) -> None:
        with self._lock:
            self._ids |= job_ids
        self._ring()

    def close(self) -> None:
        self.closed = True
        self._ring()

    async def changed(self) -> list[list[int]]:
        """Wait for jobs, or for as long as a sign of life may take; return their ids in portions, oldest first."""
        try:
            async with asyncio.timeout(_SIGN_OF_LIFE_S):
                await self._rung.wait()
        except TimeoutError:
            return []
        if not self.closed:
            await asyncio.sleep(_TOGETHER_S)
        self._rung.clear()
        with self._lock:
            ids, self._ids = sorted(self._ids), set()
        return [ids[first : first + _AT_ONCE] for first in range(0, len(ids), _AT_ONCE)]

    def _ring(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._rung.set)
        except RuntimeError:
            self.closed = True  # its loop has ended, and the stream with it


def _frame(job: dict[str, Any]) -> bytes:
    return f"event: job\ndata: {json.dumps(job, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def add_events_route(app: FastAPI, feed: JobFeed) -> None:
    """Add `GET events`."""

    @app.get(
        "/api/v1/events",
        response_class=StreamingResponse,
        summary="Follow the jobs",
        responses={200: {"description": "A stream of `event: job`, each with a job as `data`", "content": _STREAM}},
    )
    async def follow_jobs() -> StreamingResponse:
        """Every job that changes from now on, as in `GET jobs/{job_id}`. After a break ask `GET jobs` once."""
        frames = feed.frames()
        first = await anext(frames)  # refused before the answer has begun

        async def all_frames() -> AsyncIterator[bytes]:
            try:
                yield first
                async for frame in frames:
                    yield frame
            finally:
                await frames.aclose()  # type: ignore[attr-defined]  # an async generator

        return StreamingResponse(all_frames(), media_type="text/event-stream")


_STREAM: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
