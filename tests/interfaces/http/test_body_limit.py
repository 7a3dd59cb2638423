"""Bodies: too large, of unknown length, too slow. The clock is the event loop's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from kbsync.interfaces.http.body_limit import BODY_S, BodyLimit
from tests.fakes.clocked_loop import pass_time, run_by
from tests.fakes.manual_clock import ManualClock

LIMITS = {"/upload": 1000}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body; a body that breaks off with 400."""
    body, more = b"", True
    while more:
        message = await receive()
        more = message["type"] == "http.request" and message.get("more_body", False)
        body = body + message["body"] if message["type"] == "http.request" else b"broken off"
    status = 400 if body == b"broken off" else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


def answer(
    pieces: Sequence[bytes | float], length: bytes | None, path: str = "/", method: str = "POST"
) -> tuple[int, bytes]:
    """Send pieces of a body with pauses of so many seconds between them; return status and body of the answer."""
    sent: list[Message] = []
    left = list(pieces)
    clock = ManualClock()

    async def receive() -> Message:
        while left and not isinstance(left[0], bytes):
            await pass_time(clock, float(left.pop(0)))
        body = left.pop(0) if left else b""
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    run_by(clock, BodyLimit(echo, 10, LIMITS)(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("method", "path", "length", "status"),
    [
        ("POST", "/", b"10", 200),
        ("POST", "/", b"11", 413),
        ("POST", "/upload", b"1000", 200),
        ("POST", "/upload", b"1001", 413),
        ("PUT", "/upload", b"11", 413),
        ("POST", "/upload/", b"11", 413),
        ("POST", "/", b"9" * 30, 413),
        ("GET", "/", None, 200),
    ],
)
def test_a_body_is_as_long_as_its_place_allows(method: str, path: str, length: bytes | None, status: int) -> None:
    assert answer([b"x"], length, path, method)[0] == status


def test_what_comes_in_time_arrives_whole() -> None:
    half = BODY_S / 2 - 0.1
    assert answer([b"ab", half, b"cd", half, b"ef"], b"6") == (200, b"abcdef")


@pytest.mark.parametrize("pieces", [[BODY_S + 1, b"abcdef"], [b"ab", BODY_S + 1, b"cdef"]], ids=["nothing", "a part"])
def test_what_does_not_come_in_time_is_answered_408_whatever_the_app_makes_of_it(pieces: list[bytes | float]) -> None:
    status, body = answer(pieces, b"6")
    assert (status, b"did not come in time" in body) == (408, True)
