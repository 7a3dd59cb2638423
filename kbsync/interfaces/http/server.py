"""Runs the app on the Unix socket and on the TCP port, each in a thread of its own: a flood of one leaves the other."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
import threading
import time
from typing import Any

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from kbsync.errors import StopEngine, disk_full
from kbsync.interfaces.http.door import Door

log = structlog.stdlib.get_logger(__name__)

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
        """Bind and serve. Raises StopEngine where the socket cannot be made, StorageUnavailable on a full disk."""
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what a client does wrong it is told, not the log
        try:
            bound = self._bind()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise disk_full(self._path) from error
            raise StopEngine(f"The socket {self._path} cannot be made: {error.strerror or error}.") from error
        self._bound = bound
        sockets = [bound] if self._door is None else [bound, self._door.socket]
        for listener, served in zip(self._listeners, sockets, strict=True):
            listener.start(served)

    def keep(self) -> None:
        """Make the Unix socket anew where somebody removed it, with its folder perhaps: no command finds us without it.

        What cannot be done now is tried again with the next call.
        """
        if self._bound is None or os.path.lexists(self._path) or not _is_private(os.path.dirname(self._path)):
            return
        try:
            fresh = self._bind()
        except OSError:
            return
        self._listeners[0].tell_to_stop()  # it closes its socket itself
        self._bound, self._listeners[0] = fresh, _Listener(self._app, "http", _CONNECTIONS)
        self._listeners[0].start(fresh)
        log.warning("socket_made_anew", path=self._path)

    def _bind(self) -> socket.socket:
        """Return a socket that listens at our path, which only we can open. Raises OSError."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        _unlink(self._path)  # the lock is held: whoever left it is dead
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(self._path)
            os.chmod(self._path, 0o600)  # nobody gets in before: it does not listen yet
            bound.listen(_BACKLOG)
        except BaseException:
            bound.close()
            raise
        return bound

    def alive(self) -> bool:
        """Return whether requests are still answered."""
        return all(listener.alive() for listener in self._listeners)

    def stop(self) -> None:
        """End, and remove the socket. Twice does no harm."""
        self._app.state.job_feed.close()  # streams have no end of their own
        for listener in self._listeners:
            listener.tell_to_stop()
        deadline = time.monotonic() + _STOP_S + 1
        for listener in self._listeners:
            listener.wait(max(0.0, deadline - time.monotonic()))
        if self._door is not None:
            self._door.socket.close()
        if self._bound is not None:
            self._bound.close()
            self._bound = None
            _unlink(self._path)


class CalmServer(uvicorn.Server):
    """Looks once a second whether anything is to be done, not ten times, and hears at once that it is to end."""

    calm_s = 1.0

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end = asyncio.Event()
        self._own_loop: asyncio.AbstractEventLoop | None = None

    async def on_tick(self, counter: int) -> bool:
        self._own_loop = asyncio.get_running_loop()
        if counter and not self.should_exit:  # not the first time: it begins without delay
            try:
                async with asyncio.timeout(self.calm_s):
                    await self._end.wait()
            except TimeoutError:
                pass  # as nearly always
        return await super().on_tick(0)

    def end(self) -> None:
        """Have it end; from any thread."""
        self.should_exit = True
        if self._own_loop is not None:
            try:
                self._own_loop.call_soon_threadsafe(self._end.set)
            except RuntimeError:
                pass  # it has ended already


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
        self._server = CalmServer(config)
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
        self._server.end()

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)
            self._thread = None


def _is_private(folder: str) -> bool:
    """Return whether a folder is ours alone, or not there: one in /tmp anybody may have put in the place of ours."""
    try:
        there = os.lstat(folder)
    except OSError:
        return True
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.geteuid() and not there.st_mode & 0o077


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # there was none
