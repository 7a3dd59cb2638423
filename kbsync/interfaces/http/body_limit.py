"""Refuses a request whose body is too large before a byte of it is read."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware: a body's length must be told, and be at most `largest` bytes."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it: 411 for a body of unknown length, 413 for one that is too large."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            if b"transfer-encoding" in headers:
                await _refusal(411, "The length of the body must be told.")(scope, receive, send)
                return
            # The server sees to it that this is a number and that the body is no longer.
            if int(headers.get(b"content-length", b"0")) > self._largest:
                await _refusal(413, f"The body is larger than {self._largest} bytes.")(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message, "hint": "", "kind": "UsageError"}, status_code=status)
