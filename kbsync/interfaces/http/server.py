"""Runs the app on the Unix socket, in a thread of its own. Only the user who owns the folder can reach it."""

from __future__ import annotations

import logging
import os
import socket
import threading

import uvicorn
from fastapi import FastAPI

from kbsync.errors import StopEngine

_BACKLOG = 128
# Requests that still run when the server is told to stop get this long.
_STOP_S = 2
# More at once are refused: a client that never closes must not use up the process' open files.
_CONNECTIONS = 128
# Of a request's first line and headers: the longest query, percent-encoded, and room to spare.
_HEAD_BYTES = 1 << 18


class Server:
    """An HTTP server on one Unix socket (mode 0600 in a 0700 folder)."""

    def __init__(self, app: FastAPI, path: str) -> None:
        self._path = path
        config = uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=_STOP_S,
            http="h11",
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=_HEAD_BYTES,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Bind and serve. Raises StopEngine where the socket cannot be made."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            _unlink(self._path)  # the lock is held: whoever left it is dead
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            bound.bind(self._path)
            os.chmod(self._path, 0o600)  # nobody gets in before: it does not listen yet
            bound.listen(_BACKLOG)
        except OSError as error:
            raise StopEngine(f"The socket {self._path} cannot be made: {error.strerror or error}.") from error
        self._socket = bound
        # uvicorn installs signal handlers only in the main thread; the daemon's own stay.
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [bound]}, name="http", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Return whether requests are still answered."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End, and remove the socket. Twice does no harm."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_S + 1)
            self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            _unlink(self._path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # there was none
