"""Who may ask: over TCP only whoever has the token, and never a web page of another site. Nothing is read before that.

A page in the user's browser can send requests to 127.0.0.1: under another name (DNS rebinding: the Host tells), from
another site (Origin and Sec-Fetch-Site tell), and without asking first only as a form or plain text (so: JSON only).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbsync.interfaces.http.answers import refusal

LOCAL = "/api/v1/local/"
UPLOAD = "/api/v1/documents"
JSON, BYTES = b"application/json", b"application/octet-stream"

_NAMES = ("127.0.0.1", "[::1]", "localhost")
# What browsers say of a request that comes from nowhere else: typed in, or from our own pages.
_OWN_SITES = {b"same-origin", b"none"}
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


@dataclass(frozen=True, slots=True)
class Access:
    """What a request over TCP must know: the port it came to, and the token."""

    port: int
    token: str

    @property
    def hosts(self) -> frozenset[bytes]:
        """Every Host that is meant for us, letter for letter."""
        return frozenset(f"{name}{port}".encode() for name in _NAMES for port in ("", f":{self.port}"))

    @property
    def origins(self) -> frozenset[bytes]:
        """Every Origin of a page of ours."""
        return frozenset(f"http://{name}:{self.port}".encode() for name in _NAMES)


def on_socket(scope: Scope) -> bool:
    """Return whether a request came over the Unix socket, which only its owner can open. In doubt it did not."""
    server = scope.get("server")
    return server is not None and server[1] is None


class Guard:
    """ASGI middleware, the outermost: passes on what may be asked and answers everything else itself.

    `access` None: nothing is answered over TCP.
    """

    def __init__(self, app: ASGIApp, access: Access | None) -> None:
        self._app = app
        self._access = access
        self._socket_hosts = frozenset(name.encode() for name in _NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 (Host, Origin), 401 (token), 404 (socket only), 415 (neither JSON nor an upload), or pass on."""
        if scope["type"] != "http":  # the server speaks no websocket
            await self._app(scope, receive, send)
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refused = self._refused(scope)
        await (self._app if refused is None else refused)(scope, receive, send_marked)

    def _refused(self, scope: Scope) -> Response | None:
        socket, access = on_socket(scope), self._access
        if not socket and access is None:
            return refusal(403, "The API answers on its Unix socket only.")
        hosts = self._socket_hosts if socket or access is None else access.hosts
        origins: frozenset[bytes] = frozenset() if socket or access is None else access.origins
        named = _values(scope, b"host")
        if len(named) != 1 or named[0] not in hosts:
            return refusal(403, "This Host is not answered.", hint="Ask for 127.0.0.1 or localhost and this port.")
        if not (_all_in(_values(scope, b"origin"), origins) and _all_in(_values(scope, b"sec-fetch-site"), _OWN_SITES)):
            return refusal(403, "Pages of other sites are not answered.")
        if not socket and access is not None:
            if not _has_token(scope, access.token):
                hint = "Send the header `Authorization: Bearer TOKEN`; the file `token` in the state folder has it."
                return refusal(401, "The token is missing or wrong.", hint=hint, headers={"WWW-Authenticate": "Bearer"})
            if scope["path"].startswith(LOCAL):
                return refusal(404, "There is no such route over TCP.", kind="NotFound")
        return _type_refused(scope)


def _type_refused(scope: Scope) -> Response | None:
    """A body is JSON (of an upload: plain bytes), and whoever names a type names that one, body or not."""
    if scope["method"] in ("GET", "HEAD"):
        return None
    wanted = BYTES if (scope["method"], scope["path"]) == ("POST", UPLOAD) else JSON
    given = [value.partition(b";")[0].strip().lower() for value in _values(scope, b"content-type")]
    has_body = any(value != b"0" for value in _values(scope, b"content-length"))
    if _all_in(given, {wanted}) and (given or not has_body):
        return None
    return refusal(415, f"The body must be {wanted.decode()}.", hint="Name it in the header Content-Type.")


def _has_token(scope: Scope, token: str) -> bool:
    given = _values(scope, b"authorization")
    if len(given) != 1:
        return False
    scheme, _, value = given[0].partition(b" ")
    # Compared in a time that says nothing about where they differ.
    return scheme.lower() == b"bearer" and hmac.compare_digest(value.strip(), token.encode())


def _all_in(values: Iterable[bytes], allowed: Iterable[bytes]) -> bool:
    return set(values) <= set(allowed)


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
