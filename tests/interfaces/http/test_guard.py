"""Who is answered: every combination of Host, Origin, content type, token and method, against three lines."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from fastapi import FastAPI

from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.guard import Access
from kbsync.interfaces.operations import Operations
from tests.fakes.simulated_engine import SimulatedEngine
from tests.interfaces.http.asgi import PORT, SOCKET, TOKEN, Reply, ask

OURS = [
    *(b"127.0.0.1", b"localhost", b"[::1]"),
    *(b"127.0.0.1:8765", b"localhost:8765", b"[::1]:8765"),
]
# Each is what one request says: one Host, none, or several.
HOSTS: list[tuple[bytes, ...]] = [
    *((host,) for host in OURS),
    (),
    (b"localhost:8765", b"evil.example"),
    (b"localhost:8765", b"localhost:8765"),
    (b"",),
    (b"evil.example",),
    (b"evil.example:8765",),
    (b"localhost.evil.example",),
    (b"localhost.evil.example:8765",),
    (b"evil-localhost:8765",),
    (b"127.0.0.1.evil.example:8765",),
    (b"0.0.0.0:8765",),
    (b"[::]:8765",),
    (b"[::ffff:127.0.0.1]:8765",),
    (b"127.1:8765",),
    (b"2130706433:8765",),
    (b"LOCALHOST:8765",),
    (b"localhost.:8765",),
    (b"localhost:8766",),
    (b"user@localhost:8765",),
]
OWN_ORIGIN = b"http://127.0.0.1:8765"
ORIGINS = [None, OWN_ORIGIN, b"null", b"https://evil.example", b"https://127.0.0.1:8765", b"http://127.0.0.1:3000"]
TYPES = [b"application/json", b"text/plain", b"application/x-www-form-urlencoded", None]
TOKENS = [TOKEN, None, "u" * 43]
# Of what is let through: the answer of the route itself.
METHODS = {"GET": 200, "POST": 202, "DELETE": 404, "PUT": 405}
ROUTES = {"GET": "jobs", "POST": "notes", "DELETE": "documents/999", "PUT": "notes"}


def expected(
    host: tuple[bytes, ...], origin: bytes | None, content_type: bytes | None, token: str | None, method: str
) -> int:
    if len(host) != 1 or host[0] not in OURS or origin not in (None, OWN_ORIGIN):
        return 403
    if token != TOKEN:
        return 401
    return METHODS[method] if method == "GET" or content_type == b"application/json" else 415


@pytest.fixture
def app(engine: SimulatedEngine) -> FastAPI:
    return build_app(Operations(engine.engine, None), Access(PORT, TOKEN))


def headers(
    host: tuple[bytes, ...] = (b"localhost:8765",),
    origin: bytes | None = None,
    content_type: bytes | None = None,
    token: str | None = TOKEN,
) -> list[tuple[bytes, bytes]]:
    found = [(b"host", value) for value in host]
    for name, value in ((b"origin", origin), (b"content-type", content_type)):
        found += [] if value is None else [(name, value)]
    return found if token is None else [*found, (b"authorization", f"Bearer {token}".encode())]


def test_every_combination_is_answered_as_three_lines_say(app: FastAPI, told: Callable[[str], None]) -> None:
    combinations = list(itertools.product(HOSTS, ORIGINS, TYPES, TOKENS, METHODS))
    assert (len(HOSTS), len(ORIGINS), len(TYPES), len(TOKENS), len(METHODS)) == (25, 6, 4, 3, 4)
    counts: Counter[int] = Counter()
    wrong = []

    async def ask_all() -> None:
        for host, origin, content_type, token, method in combinations:
            body = b"" if method == "GET" else b'{"text": "A wren."}'
            said = headers(host, origin, content_type, token)
            reply = await ask(app, method, f"/api/v1/{ROUTES[method]}", said, body)
            counts[reply.status] += 1
            if reply.status != expected(host, origin, content_type, token, method):
                wrong.append((host, origin, content_type, token, method, reply.status))
            assert reply.headers[b"x-content-type-options"] == b"nosniff"
            assert TOKEN.encode() not in reply.body

    asyncio.run(ask_all())
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))
    told(f"T10: {len(combinations)} combinations of Host, Origin, type, token and method: {answers}")
    assert wrong == []
    # 6 Hosts and 2 Origins are ours; of those a third has the token; of those GET, or JSON.
    assert counts == {403: 6624, 401: 384, 200: 48, 202: 12, 404: 12, 405: 12, 415: 108}


def get(app: FastAPI, *more: tuple[bytes, bytes], path: str = "/api/v1/jobs", token: str | None = TOKEN) -> Reply:
    return asyncio.run(ask(app, "GET", path, [*headers(token=token), *more]))


@pytest.mark.parametrize(
    ("site", "status"), [(b"cross-site", 403), (b"same-site", 403), (b"same-origin", 200), (b"none", 200), (b"", 403)]
)
def test_a_browser_that_says_the_request_comes_from_another_site_is_believed(
    app: FastAPI, site: bytes, status: int
) -> None:
    assert get(app, (b"sec-fetch-site", site)).status == status


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"Bearer", b"Bearer ", b"Bearer \xff\xfe", TOKEN.encode()),
        *(b"Basic " + TOKEN.encode(), b"Bearer " + TOKEN[:-1].encode(), b"Bearer " + TOKEN.encode() + b"t"),
        b"Bearer " + TOKEN.encode() + b"," + TOKEN.encode(),
    ],
)
def test_a_header_that_is_not_the_token_opens_nothing(app: FastAPI, said: bytes) -> None:
    reply = get(app, (b"authorization", said), token=None)
    assert (reply.status, reply.headers[b"www-authenticate"]) == (401, b"Bearer")


def test_the_token_said_twice_opens_nothing(app: FastAPI) -> None:
    assert get(app, (b"authorization", f"Bearer {TOKEN}".encode())).status == 401


@pytest.mark.parametrize("place", ["?token=", "?access_token=", "?authorization=Bearer%20"])
def test_the_token_in_an_address_opens_nothing(app: FastAPI, place: str) -> None:
    assert get(app, path=f"/api/v1/jobs{place}{TOKEN}", token=None).status == 401


def test_routes_of_this_machines_paths_are_not_there_over_tcp(app: FastAPI) -> None:
    paths = [path for path in app.openapi()["paths"] if path.startswith("/api/v1/local/")]
    assert len(paths) >= 8
    for path, method in itertools.product(paths, ("GET", "POST")):
        said = headers(content_type=b"application/json")
        assert asyncio.run(ask(app, method, path, said, b"{}")).status == 404
        assert asyncio.run(ask(app, method, f"/{path}", said, b"{}")).status == 404
        assert asyncio.run(ask(app, method, f"{path}/", said, b"{}")).status == 404


@pytest.mark.parametrize(("host", "status"), [(b"localhost", 200), (b"evil.example", 403), (b"localhost:8765", 403)])
def test_the_socket_wants_no_token_but_the_right_host(app: FastAPI, host: bytes, status: int) -> None:
    assert asyncio.run(ask(app, "GET", "/api/v1/jobs", [(b"host", host)], server=SOCKET)).status == status


def test_a_page_never_speaks_through_the_socket(app: FastAPI) -> None:
    said = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    assert asyncio.run(ask(app, "GET", "/api/v1/jobs", said, server=SOCKET)).status == 403


@pytest.mark.parametrize("server", [None, ("127.0.0.1", PORT), ("", 0)])
def test_a_request_of_unknown_way_needs_the_token(app: FastAPI, server: tuple[str, int | None] | None) -> None:
    said = headers(token=None)
    assert asyncio.run(ask(app, "GET", "/api/v1/jobs", said, server=server)).status == 401


def test_without_an_open_door_nothing_is_answered_over_tcp(engine: SimulatedEngine) -> None:
    app = build_app(Operations(engine.engine, None))
    assert asyncio.run(ask(app, "GET", "/api/v1/jobs", headers())).status == 403


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        (b"application/json; charset=utf-8", b'{"text": "A wren."}', 202),
        (b"APPLICATION/JSON", b'{"text": "A wren."}', 202),
        (b"application/jsonp", b'{"text": "A wren."}', 415),
        (b"application/octet-stream", b'{"text": "A wren."}', 415),
        (b"text/plain; application/json", b'{"text": "A wren."}', 415),
        (b"text/plain", b"", 415),
        (None, b"", 422),
    ],
)
def test_a_body_is_json_and_says_so(app: FastAPI, content_type: bytes | None, body: bytes, status: int) -> None:
    said = headers(content_type=content_type)
    assert asyncio.run(ask(app, "POST", "/api/v1/notes", said, body)).status == status
