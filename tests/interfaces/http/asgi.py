"""Requests to the app in this process, each part of them as bytes: no client tidies them up on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message

PORT = 8765
TOKEN = "t" * 43
TCP, SOCKET = ("127.0.0.1", PORT), ("/run/kbsync.sock", None)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the app answered."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes = b"",
    server: tuple[str, int | None] | None = TCP,
) -> Reply:
    """Send one request and return the answer."""
    path, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": server,
        "client": None,
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*headers, *([(b"content-length", str(len(body)).encode())] if body else [])],
        "state": {},
    }
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    return Reply(start["status"], dict(start["headers"]), b"".join(message.get("body", b"") for message in rest))
