"""A small server that speaks the OpenAI protocol, in the test's own process: it remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Talk:
    """What was asked, and what is answered: a text, made of the request's messages, or (status, body, pause) raw."""

    reply: Callable[[list[dict[str, str]]], str] = lambda _messages: "An answer."
    raw: tuple[int, bytes, float] | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def talking() -> Iterator[Talk]:
    """Run the server and yield what steers it."""
    talk = Talk()
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            talk.asked.append({"path": self.path, **body})
            talk.keys.append(self.headers.get("Authorization"))
            status, content, pause = talk.raw or (200, _completion(talk.reply(body["messages"])), 0.0)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", talk.url + "/elsewhere")
            for name, value in talk.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for place in range(0, len(content), max(1, len(content) // 20)):
                if pause and ended.wait(pause):
                    return
                self.wfile.write(content[place : place + max(1, len(content) // 20)])
                self.wfile.flush()

        def log_message(self, *_arguments: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: Any) -> None:
            pass  # the client has gone, as the test wants it

    server = Quiet(("127.0.0.1", 0), Handler)
    talk.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield talk
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
