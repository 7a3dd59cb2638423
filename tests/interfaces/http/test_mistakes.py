"""What goes wrong inside is answered in the shape of every refusal, with the status of its kind and no inner life."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from kbsync import errors
from kbsync.compose import engine as compose_engine
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.guard import Access
from kbsync.interfaces.operations import Operations
from kbsync.interfaces.records import Record
from kbsync.reasons import Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.interfaces.http.asgi import PORT, SOCKET, TOKEN, ask

OVER_SOCKET = [(b"host", b"localhost")]
OVER_TCP = [*OVER_SOCKET, (b"authorization", f"Bearer {TOKEN}".encode())]


class Failing(Operations):
    """Operations whose jobs cannot be listed, for a reason of the test's."""

    def __init__(self, engine: SimulatedEngine, error: BaseException) -> None:
        super().__init__(engine.engine, None)
        self._error = error

    def jobs(self, state: str | None = None, limit: int = 100) -> Record:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("m"), 400),
        (errors.NotFound("m"), 404),
        (errors.FileGone("m"), 404),
        (errors.ConfigurationError("m"), 409),
        (errors.EngineBusy("m"), 409),
        (errors.SkipFile(Reason.EMPTY, "m"), 422),
        (errors.FailFile(Reason.CORRUPT, "m"), 422),
        (errors.RetryLater(Reason.TIMEOUT, "m"), 503),
        (errors.StopEngine("m"), 500),
    ],
)
def test_the_class_of_an_error_is_its_status(engine: SimulatedEngine, error: errors.KbsyncError, status: int) -> None:
    reply = asyncio.run(ask(build_app(Failing(engine, error)), "GET", "/api/v1/jobs", OVER_SOCKET, server=SOCKET))
    assert (reply.status, reply.json()) == (status, {"error": "m", "hint": "", "kind": type(error).__name__})


def test_a_surprise_is_raised_for_the_log_and_told_without_its_words(engine: SimulatedEngine) -> None:
    app = build_app(Failing(engine, ZeroDivisionError("the secret of the larch")))
    raised: list[BaseException] = []

    async def logged(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except ZeroDivisionError as error:
            raised.append(error)

    reply = asyncio.run(ask(logged, "GET", "/api/v1/jobs", OVER_SOCKET, server=SOCKET))
    assert (reply.status, reply.json()["kind"], len(raised)) == (500, "KbsyncError", 1)
    assert b"larch" not in reply.body


@pytest.mark.parametrize("folder", ["/never/there/larch", "relative/larch", "/etc/passwd"])
def test_over_tcp_no_refusal_repeats_a_path(engine: SimulatedEngine, folder: str) -> None:
    app = build_app(Operations(engine.engine, None), Access(PORT, TOKEN))
    body = f'{{"path": "{folder}"}}'.encode()
    said = [*OVER_TCP, (b"content-type", b"application/json")]
    reply = asyncio.run(ask(app, "POST", "/api/v1/sources", said, body))
    assert reply.status == 400
    assert not any(part in reply.body for part in (b"larch", b"passwd", b"never"))


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/documents/../../etc/passwd", "/api/v1/documents//etc/passwd", "/etc/passwd", "/api/v1/passwd"),
        *("/api/v1/documents/passwd\x00", "/api/v1/documents/%2e%2e%2fpasswd", "/api/v1/documents/file://passwd"),
        *("/api/v1/documents/\\\\host\\passwd", "/api/v1/jobs/passwd/retry", "/api/v1/documents?type=passwd"),
        *("/api/v1/jobs?state=passwd", "/api/v1/search?q=a&mode=passwd", "/api/v1/documents/1;passwd"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_refusal_repeats_what_was_asked_for(engine: SimulatedEngine, method: str, path: str) -> None:
    app = build_app(Operations(engine.engine, None), Access(PORT, TOKEN))
    reply = asyncio.run(ask(app, method, path, OVER_TCP))
    assert reply.status in (404, 405, 422)
    assert b"passwd" not in reply.body


def test_a_search_that_takes_too_long_is_ended_with_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose_engine, "SEARCH_S", -1.0)
    engine = SimulatedEngine(world)
    try:
        # Enough chunks that the database looks at the clock at least once.
        text = "\n\n".join(f"# Part {number}\n\n" + f"alder {number} " * 30 for number in range(2000))
        engine.write(f"{NOTES}/long.md", text)
        engine.settle()
        app = build_app(Operations(engine.engine, None))
        path = "/api/v1/search?q=alder&mode=lexical"
        reply = asyncio.run(ask(app, "GET", path, OVER_SOCKET, server=SOCKET))
        assert (reply.status, reply.json()["kind"]) == (503, "RetryLater")
        assert asyncio.run(ask(app, "GET", "/api/v1/documents", OVER_SOCKET, server=SOCKET)).status == 200
    finally:
        engine.close()
