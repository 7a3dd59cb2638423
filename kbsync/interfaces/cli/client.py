"""The daemon's API over its Unix socket, with the standard library only: a command answers in a fifth of a second."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from typing import Any
from urllib.parse import urlencode

from kbsync.config.locations import Locations
from kbsync.daemon.lock import Owner, owner_of
from kbsync.errors import ConfigurationError, KbsyncError, NotFound, NotRunning, Unconfirmed, UsageError

# A starting daemon opens its socket within this many seconds.
START_S = 60.0
# The longest single request: an integrity check of a large database.
_TIMEOUT_S = 3600.0
# How it is doing it says at once, or it hangs.
_STATUS_S = 20.0

Record = dict[str, Any]

# The classes whose exit codes differ; of every other one only the message travels.
_KINDS: dict[str, type[KbsyncError]] = {
    kind.__name__: kind for kind in (UsageError, Unconfirmed, NotFound, ConfigurationError, NotRunning)
}


class Client:
    """Requests to a running daemon. Raises the error classes that the daemon raised, and NotRunning."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._has_answered = False

    def get(self, route: str, **parameters: object) -> Record:
        """GET /api/v1/{route}; parameters that are None are left out, those with several values are repeated."""
        given = [
            (key, str(one))
            for key, value in parameters.items()
            for one in (value if isinstance(value, (list, tuple)) else [] if value is None else [value])
        ]
        return self._request("GET", f"{route}?{urlencode(given, errors='replace')}" if given else route, None)

    def status(self, within_s: float | None = None) -> Record:
        """GET /api/v1/status. Raises NotRunning where the answer takes longer than so many seconds, 20 by default."""
        return self._request("GET", "status", None, _STATUS_S if within_s is None else within_s)

    def post(self, route: str, body: object = None) -> Record:
        """POST /api/v1/{route} with a JSON body."""
        return self._request("POST", route, body)

    def delete(self, route: str) -> Record:
        """DELETE /api/v1/{route}."""
        return self._request("DELETE", route, None)

    def _request(self, method: str, route: str, body: object, timeout_s: float = _TIMEOUT_S) -> Record:
        patience_s = min(timeout_s, _STATUS_S)
        connection = _UnixConnection(self._socket_path, patience_s)
        try:
            if timeout_s > patience_s:
                if not self._has_answered:
                    # What may take long is asked of one that lives only. It refuses this at once, which is an answer.
                    connection.request("HEAD", "/api/v1/status")
                    connection.getresponse().read()
                    self._has_answered = True
                patience_s = timeout_s
                connection.wait_up_to(timeout_s)
            content = None if body is None else json.dumps(body).encode()
            headers = {} if content is None else {"Content-Type": "application/json"}
            connection.request(method, f"/api/v1/{route}", content, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except TimeoutError as error:
            raise NotRunning(
                f"The daemon gives no answer within {patience_s:.0f} seconds: it hangs.",
                hint="`kbsync service restart` ends it and starts it anew; for one that you started yourself "
                "`kbsync doctor` names what ends it.",
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotRunning(f"The daemon does not answer: {error}.", hint="Is it stopping? Try again.") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise _error_of(response.status, answer)
        if not isinstance(answer, dict):
            raise NotRunning(f"The daemon gave an answer that is not understood: {answer!r}.")
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def wait_up_to(self, seconds: float) -> None:
        """Wait so long for an answer from now on."""
        self.timeout = seconds
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def running(locations: Locations) -> Client | None:
    """Return a client of the daemon, waiting for one that is starting; None where none runs.

    Raises NotRunning where the start takes too long, or waits for something that a person must mend.
    """
    deadline = time.monotonic() + START_S
    while True:
        owner = owner_of(locations.lock_file)
        if owner is None or owner.role != "daemon":
            return None
        if owner.socket is not None and _listens(owner):
            return Client(owner.socket)
        if owner.is_held_up:
            raise NotRunning(f"The daemon (process {owner.pid}) is not ready: {owner.doing}")
        if time.monotonic() >= deadline:
            busy = "" if owner.doing is None else f" It is still starting: {owner.doing}."
            raise NotRunning(
                f"The daemon (process {owner.pid}) does not open its socket.{busy}",
                hint="`kbsync status` says how far it is, its log tells why.",
            )
        time.sleep(0.1)


def starting(locations: Locations) -> Owner | None:
    """Return the daemon that has not opened its socket yet; None where none is starting. Never waits."""
    owner = owner_of(locations.lock_file)
    # One that names a socket which is not there any more is ending.
    return None if owner is None or owner.role != "daemon" or owner.socket is not None else owner


def required(locations: Locations) -> Client:
    """Return a client of the daemon. Raises NotRunning where none runs."""
    client = running(locations)
    if client is None:
        raise NotRunning("The daemon is not running.", hint="Start it with `kbsync run`.")
    return client


def _listens(owner: Owner) -> bool:
    return owner.socket is not None and os.path.exists(owner.socket)


def _error_of(status: int, answer: Any) -> KbsyncError:
    if not isinstance(answer, dict) or "error" not in answer:
        detail = answer.get("detail") if isinstance(answer, dict) else answer
        kind: type[KbsyncError] = UsageError if status in (400, 404, 405, 422) else KbsyncError
        return kind(f"The daemon refused the request: {detail}.")
    kind = _KINDS.get(str(answer.get("kind")), KbsyncError)
    return kind(str(answer["error"]), hint=str(answer.get("hint", "")))
