"""The token that a request over TCP must carry: one file (0600), made once, readable by its owner only."""

from __future__ import annotations

import os
import re
import secrets
import stat

import structlog

log = structlog.stdlib.get_logger(__name__)

# What can stand in a header without quoting, and is too long to be guessed. A person may choose one like that.
_USABLE = re.compile(rb"[A-Za-z0-9._~+/=-]{32,512}")


def token_at(path: str) -> str:
    """Return the token kept at `path`, made there where there is none. Raises OSError where it cannot be written.

    One that others could have read, or that is no such token, is replaced.
    """
    found = _read(path)
    if found is not None:
        return found
    token = secrets.token_urlsafe(32)
    fresh = f"{path}.new"
    try:
        os.unlink(fresh)
    except FileNotFoundError:
        pass  # only a crash between the two steps leaves one
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(token.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)  # a link at this place goes; what it points at stays as it is
    return token


def _read(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # there is none, or it is a link or unreadable: a new one takes its place
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            log.warning("token_replaced", path=path, why="others could read it")
            return None
        content = file.read(1024).strip()
    return content.decode() if _USABLE.fullmatch(content) else None
