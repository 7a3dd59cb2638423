"""Refuses a body that is too large before a byte of it is read, and one that does not come in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbsync.interfaces.http.answers import refusal

# A body may take this long, and a second more for each so many bytes of it.
BODY_S = 30.0
_BYTES_A_SECOND = 100_000


class BodyLimit:
    """ASGI middleware: a body's length must be told, be at most `largest` bytes, and the body must come in time.

    `uploads`: other limits, by the path that is posted to.
    """

    def __init__(self, app: ASGIApp, largest: int, uploads: Mapping[str, int], body_s: float = BODY_S) -> None:
        self._app = app
        self._largest = largest
        self._uploads = uploads
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it: 411 for a body of unknown length, 413 too large, 408 too slow."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"transfer-encoding" in headers:
            await _refused(411, "The length of the body must be told.")(scope, receive, send)
            return
        largest = self._uploads.get(scope["path"], self._largest) if scope["method"] == "POST" else self._largest
        # The server sees to it that this is a number and that the body is no longer.
        length = int(headers.get(b"content-length", b"0"))
        if length > largest:
            await _refused(413, f"The body is larger than {largest} bytes.")(scope, receive, send)
            return
        if length == 0:
            await self._app(scope, receive, send)
            return
        timely = _TimelyBody(receive, send, self._body_s + length / _BYTES_A_SECOND)
        await self._app(scope, timely.receive, timely.send)
        if timely.late:
            await _refused(408, "The body did not come in time.")(scope, receive, send)


class _TimelyBody:
    """Ends a body that is not whole in time like one that was broken off; what the app answers to that is dropped."""

    def __init__(self, receive: Receive, send: Send, seconds: float) -> None:
        self._receive = receive
        self._send = send
        self._until = asyncio.get_running_loop().time() + seconds
        self._whole = False
        self.late = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self.late = True
            return {"type": "http.disconnect"}
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if not self.late:
            await self._send(message)


def _refused(status: int, message: str) -> ASGIApp:
    # What is left of the body is not waited for.
    return refusal(status, message, headers={"Connection": "close"})
