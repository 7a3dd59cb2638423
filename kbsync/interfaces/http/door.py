"""The way in over TCP: a port on 127.0.0.1 and the token that opens it. Without one the Unix socket is left."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass

from kbsync.config.sections import HttpSettings
from kbsync.interfaces.http.guard import Access
from kbsync.interfaces.http.token import token_at

ADDRESS = "127.0.0.1"
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Door:
    """A socket that listens, and what a request through it must know."""

    socket: socket.socket
    access: Access

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.access.port}"


def open_door(settings: HttpSettings, token_file: str) -> tuple[Door | None, str | None]:
    """Return (the door, None), or (None, a sentence for people) where the port or the token cannot be had.

    (None, None) where none is wanted. Whoever connects waits until a server takes the socket.
    """
    if not settings.enabled:
        return None, None
    port = settings.port
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A port that was ours a moment ago is not in the way; one on which somebody listens is.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        taken = error.errno == errno.EADDRINUSE
        why = "is taken by another program" if taken else f"cannot be used ({os.strerror(error.errno or 0)})"
        return None, f"Port {port} of {ADDRESS} {why}: the API answers on its Unix socket only. {_CURE}"
    try:
        token = token_at(token_file)
    except OSError as error:
        bound.close()
        return None, (
            f"The token {token_file} cannot be written ({error.strerror}): the API answers on its Unix socket only. "
            "Make its folder writable and start again."
        )
    return Door(bound, Access(bound.getsockname()[1], token)), None


_CURE = "Set http.port to another one (0: any free one) and start again."
