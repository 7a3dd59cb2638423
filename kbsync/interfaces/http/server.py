"""Runs the app on the Unix socket and on the TCP port, each in a thread of its own: a flood of one leaves the other."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from kbsync.errors import StopEngine
from kbsync.interfaces.http.door import Door

_BACKLOG = 128
# Requests that still run when the server is told to stop get this long.
_STOP_S = 2
# More at once are refused: a client that never closes must not use up the process' open files.
_CONNECTIONS, _TCP_CONNECTIONS = 128, 64
# Of a request's first line and headers: the longest query, percent-encoded, and room to spare.
_HEAD_BYTES = 1 << 18


class LimitedProtocol(H11Protocol):
    """HTTP on one connection, closed where no whole request comes in time, or too many connections are open."""

    # A request's first line and headers come within this time, however slowly each byte drips.
    head_s = 10.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the parent has it
        super().connection_made(transport)
        # The parent answers 503 over its limit, to whoever asks; those who never ask would stay.
        if self.limit_concurrency is not None and len(self.connections) > 2 * self.limit_concurrency:
            transport.abort()
        else:
            self._await_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.head_s, self._close_if_none)

    def _close_if_none(self) -> None:
        # A body that is slow is the body limit's to end.
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class Server:
    """HTTP servers of one app: on a Unix socket (mode 0600 in a 0700 folder), and through a door over TCP."""

    def __init__(self, app: FastAPI, path: str, door: Door | None = None) -> None:
        self._app = app
        self._path = path
        self._door = door
        self._listeners = [_Listener(app, "http", _CONNECTIONS)]
        if door is not None:
            self._listeners.append(_Listener(app, "http-tcp", _TCP_CONNECTIONS))
        self._bound: socket.socket | None = None

    def start(self) -> None:
        """Bind and serve. Raises StopEngine where the socket cannot be made."""
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what a client does wrong it is told, not the log
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            _unlink(self._path)  # the lock is held: whoever left it is dead
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            bound.bind(self._path)
            os.chmod(self._path, 0o600)  # nobody gets in before: it does not listen yet
            bound.listen(_BACKLOG)
        except OSError as error:
            raise StopEngine(f"The socket {self._path} cannot be made: {error.strerror or error}.") from error
        self._bound = bound
        sockets = [bound] if self._door is None else [bound, self._door.socket]
        for listener, served in zip(self._listeners, sockets, strict=True):
            listener.start(served)

    def alive(self) -> bool:
        """Return whether requests are still answered."""
        return all(listener.alive() for listener in self._listeners)

    def stop(self) -> None:
        """End, and remove the socket. Twice does no harm."""
        self._app.state.job_feed.close()  # streams have no end of their own
        for listener in self._listeners:
            listener.tell_to_stop()
        for listener in self._listeners:
            listener.wait()
        if self._door is not None:
            self._door.socket.close()
        if self._bound is not None:
            self._bound.close()
            self._bound = None
            _unlink(self._path)


class _Listener:
    """One server in one thread, with connections and a loop of its own."""

    def __init__(self, app: FastAPI, name: str, connections: int) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=_STOP_S,
            http=LimitedProtocol,
            ws="none",
            server_header=False,
            limit_concurrency=connections,
            h11_max_incomplete_event_size=_HEAD_BYTES,
        )
        self._server = uvicorn.Server(config)
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self, bound: socket.socket) -> None:
        # uvicorn installs signal handlers only in the main thread; the daemon's own stay.
        arguments: dict[str, Any] = {"sockets": [bound]}
        self._thread = threading.Thread(target=self._server.run, kwargs=arguments, name=self._name, daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def tell_to_stop(self) -> None:
        self._server.should_exit = True

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(_STOP_S + 1)
            self._thread = None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # there was none
