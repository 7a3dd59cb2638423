"""What HTTP refuses, and how: the status of each class of error, limits, and no request that breaks the server."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsync.interfaces.http.app import LARGEST_BODY
from kbsync.interfaces.paths import encode
from tests.interfaces.conftest import Service

HUGE = 10**30
JSON = "Content-Type: application/json"


def test_errors_carry_message_hint_and_kind(service: Service) -> None:
    reply = service.ask("GET", "documents/999999999")
    assert reply.status == 404
    assert reply.json().keys() == {"error", "hint", "kind"}
    assert reply.json()["kind"] == "NotFound"


@pytest.mark.parametrize(
    ("method", "route", "body", "status"),
    [
        ("POST", "notes", {"text": "  "}, 400),
        ("POST", "sources", {"path": "/absent/folder"}, 400),
        ("POST", "sources", {"path": "relative"}, 400),
        ("POST", "local/why", {"path": "relative"}, 400),
        ("POST", "local/why", {"path": "/a%00b"}, 400),
        ("POST", "local/why", {"path": "/never/seen.md"}, 404),
        ("POST", "local/expand", {"path": "/never/there.md"}, 404),
        ("POST", "local/sources/remove", {"path": "/never/listed"}, 404),
        ("POST", "local/add", {"paths": [], "type": "note"}, 400),
        ("POST", "local/add", {"paths": [], "ocr": "sometimes"}, 400),
        ("POST", "local/add", {"paths": [], "password_file": "passwords"}, 400),
        ("GET", "documents/0", None, 404),
        ("DELETE", "documents/-1", None, 422),
        ("GET", "nothing", None, 404),
        ("PUT", "status", None, 405),
        ("GET", "search", None, 422),
        ("GET", "search?q=a&mode=psychic", None, 422),
        ("GET", "search?q=a&limit=0", None, 422),
        ("GET", "search?q=a&limit=1001", None, 422),
        ("GET", f"search?q=a&limit={HUGE}", None, 422),
        ("GET", "search?q=a&offset=-1", None, 422),
        ("GET", f"search?q=a&offset={HUGE}", None, 422),
        ("GET", f"search?q={'a' * 10_001}", None, 422),
        ("GET", "documents?type=spreadsheet", None, 422),
        ("GET", "documents?state=lost", None, 422),
        ("GET", "documents/one", None, 422),
        ("GET", f"documents/{HUGE}", None, 422),
        ("DELETE", f"documents/{HUGE}", None, 422),
        ("GET", "jobs?state=lost", None, 422),
        ("POST", "notes", {"title": "no text"}, 422),
        ("POST", "notes", {"text": 3}, 422),
        ("POST", "local/jobs", [HUGE], 422),
        ("POST", "local/jobs", ["one"], 422),
        ("POST", "local/jobs", list(range(5000)), 422),
        ("POST", "local/add", {"paths": ["/a.md"] * 1001}, 422),
    ],
)
def test_a_request_that_is_wrong_is_refused(
    service: Service, method: str, route: str, body: object, status: int
) -> None:
    reply = service.ask(method, route, body)
    assert reply.status == status, reply.body
    answer = reply.json()
    assert answer.keys() == {"error", "hint", "kind"}
    assert answer["error"]


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff\xfe", b'{"text": NaN}', b'{"text": 1e999}', b"[" * 100_000, b"null"])
def test_a_body_that_is_no_json_is_refused(service: Service, raw: bytes) -> None:
    assert service.ask("POST", "notes", raw=raw).status in (400, 422)


@pytest.mark.parametrize(
    ("header", "status"), [(f"Content-Length: {LARGEST_BODY + 1}", 413), ("Transfer-Encoding: chunked", 411)]
)
def test_a_body_that_is_too_large_is_refused_before_it_is_sent(service: Service, header: str, status: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(service.socket_path)
        connection.sendall(f"POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\n{header}\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == status
        assert json.loads(response.read()).keys() == {"error", "hint", "kind"}


def test_a_large_note_below_the_limit_is_taken(service: Service) -> None:
    assert service.ask("POST", "notes", {"text": "beech " * 20_000}).status == 202


def test_the_longest_query_is_answered(service: Service) -> None:
    """10,000 characters of three bytes each are 90,000 bytes in the address."""
    reply = service.ask("GET", f"search?q={quote('樺' * 10_000)}")
    assert reply.status == 200


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.text(max_size=200)
    | st.text(alphabet='"*()-^:+{}[]~ANDORNOTear\0\u3000木', max_size=60)
    | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")),
    mode=st.sampled_from(["hybrid", "lexical", "vector"]),
)
def test_a_query_of_any_characters_is_answered(service: Service, query: str, mode: str) -> None:
    reply = service.ask("GET", f"search?mode={mode}&q={quote(query.encode('utf-8', 'surrogatepass'))}")
    assert reply.status == 200, reply.body
    assert isinstance(reply.json()["hits"], list)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=300))
def test_a_path_of_any_bytes_is_answered(service: Service, raw: bytes) -> None:
    path = "/" + encode(os.fsdecode(raw)).lstrip("/")
    for route in ("why", "expand"):
        assert service.ask("POST", f"local/{route}", {"path": path}).status in (200, 400, 404, 422)


def test_only_the_owner_reaches_the_socket(service: Service) -> None:
    path = Path(service.socket_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
