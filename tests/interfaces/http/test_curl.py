"""`kbsync run` and curl: the port with the token, without it, under a foreign Host, from a foreign page."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.program import Daemon, Program
from tests.fakes.eventually import eventually

PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("curl") / "home")


@pytest.fixture(scope="module")
def url(program: Program) -> Iterator[str]:
    with program.daemon() as daemon:
        yield url_of(daemon)


def url_of(daemon: Daemon) -> str:
    (url,) = [url for url in daemon.client.get("status")["endpoints"] if url.startswith("http:")]
    return str(url)


def curl(*arguments: str) -> tuple[int, Any]:
    """Return (status, the JSON of the answer)."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")
    done = subprocess.run(
        [program, "--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)


def token(program: Program) -> str:
    path = Path(program.places.token_file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    return f"Authorization: Bearer {path.read_text().strip()}"


def test_with_the_token_it_answers(program: Program, url: str) -> None:
    status, answer = curl("--header", token(program), f"{url}/api/v1/status")
    assert (status, answer["running"]) == (200, True)
    assert url in answer["endpoints"]


@pytest.mark.parametrize(
    ("with_token", "header", "status"),
    [
        (False, "X-Nothing: said", 401),
        (False, "Authorization: Bearer wrong", 401),
        (True, "Host: evil.example", 403),
        (True, "Host: localhost.evil.example", 403),
        (True, "Origin: https://evil.example", 403),
        (True, "Origin: null", 403),
        (True, "Sec-Fetch-Site: cross-site", 403),
    ],
)
def test_without_the_token_or_from_elsewhere_it_refuses(
    program: Program, url: str, with_token: bool, header: str, status: int
) -> None:
    said = ["--header", header, *(["--header", token(program)] if with_token else [])]
    found, answer = curl(*said, f"{url}/api/v1/status")
    assert (found, set(answer)) == (status, {"error", "hint", "kind"})


def test_a_form_as_curl_sends_it_by_itself_is_refused(program: Program, url: str) -> None:
    status, _ = curl("--header", token(program), "--data", '{"text": "A form."}', f"{url}/api/v1/notes")
    assert status == 415


def test_a_file_is_uploaded_and_its_job_followed(program: Program, url: str, tmp_path: Path) -> None:
    path = tmp_path / "elderberry.md"
    path.write_text("# Elderberry\n\nThe elderberry is boiled first.\n")
    said = ("--header", token(program))
    content_type = "Content-Type: application/octet-stream"
    status, answer = curl(
        *said, "--header", content_type, "--data-binary", f"@{path}", f"{url}/api/v1/documents?filename={path.name}"
    )
    assert status == 202

    def job() -> dict[str, Any] | None:
        found = curl(*said, f"{url}/api/v1/jobs/{answer['job_id']}")[1]
        return None if found["state"] in ("queued", "processing") else dict(found)

    found = eventually(job, within_s=PATIENCE_S, every_s=0.5)
    assert found is not None
    assert (found["state"], found["chunk_count"]) == ("done", 1)
    hits = curl(*said, f"{url}/api/v1/search?q=elderberry&mode=lexical")[1]["hits"]
    assert [hit["document_id"] for hit in hits] == [found["document_id"]]


def test_a_taken_port_leaves_the_socket_and_is_told_where_people_look(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        program.environment["KBSYNC_HTTP__PORT"] = str(port)
        with program.daemon() as daemon:
            answer = daemon.client.get("status")
            assert [url.partition(":")[0] for url in answer["endpoints"]] == ["unix"]
            (notice,) = answer["notices"]
            assert notice.startswith(f"Port {port} of 127.0.0.1 is taken by another program")
            assert notice in daemon.messages
            assert notice in program.run("status").stdout
