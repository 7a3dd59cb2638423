"""Uploads: staged as they come, indexed, kept under their content's hash; a failed one asks to be sent again."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from kbsync.errors import RetryLater
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.store import jobs
from tests.fakes.eventually import eventually
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.interfaces.conftest import Reply, Service

BYTES = {"Content-Type": "application/octet-stream"}


def upload(service: Service, name: str, content: bytes, **options: str) -> Reply:
    query = "".join(f"&{key}={quote(value)}" for key, value in options.items())
    route = f"documents?filename={quote(name)}{query}"
    return service.ask_over_tcp("POST", route, content, {**service.token, **BYTES})


def ended(service: Service, job_id: int) -> dict[str, object]:
    def job() -> dict[str, object] | None:
        found = service.ask_over_tcp("GET", f"jobs/{job_id}", headers=service.token).json()
        return None if found["state"] in ("queued", "processing") else dict(found)

    found = eventually(job)
    assert found is not None
    return found


def staged(service: Service) -> list[str]:
    return os.listdir(service.engine.locations.staging_dir)


def test_successful_pdf_ingestion(service: Service) -> None:
    reply = upload(service, "Jahresbericht 50%.pdf", b"The hornbeam report.\fIts second page.", title="Hornbeam")
    assert reply.status == 202
    job = ended(service, reply.json()["job_id"])
    assert (job["state"], job["chunk_count"], job["error"]) == ("done", 2, None)
    document = service.ask("GET", f"documents/{job['document_id']}").json()
    kept = Path(service.engine.locations.documents_dir) / f"{document['content_hash']}.pdf"
    assert (document["stored_path"], kept.read_bytes()) == (str(kept), b"The hornbeam report.\fIts second page.")
    assert document["original_filename"] == "Jahresbericht 50%.pdf"
    assert (document["title"], document["type"], document["page_count"]) == ("Hornbeam", "pdf", 2)
    assert (document["paths"], staged(service)) == (["Jahresbericht 50%.pdf"], [])
    (hit,) = service.ask("GET", "search?q=hornbeam%20report&mode=lexical").json()["hits"]
    assert (hit["document_id"], hit["text"]) == (job["document_id"], "The hornbeam report.")


def test_ingestion_failure(service: Service) -> None:
    bad = upload(service, "bad.pdf", b"corrupt").json()["job_id"]
    good = upload(service, "good.md", b"# Good\n\nAfter the bad one comes the whitebeam.\n").json()["job_id"]
    job = ended(service, bad)
    assert (job["state"], job["reason"], job["document_id"]) == ("failed", "corrupt", None)
    assert str(job["error"]).startswith("bad.pdf")
    assert ended(service, good)["state"] == "done"
    assert staged(service) == []
    failed = service.ask("GET", "jobs?state=failed").json()["jobs"]
    assert bad in [job["id"] for job in failed]


def test_a_failed_upload_is_to_be_sent_again(service: Service) -> None:
    job_id = upload(service, "broken.pdf", b"corrupt").json()["job_id"]
    assert ended(service, job_id)["state"] == "failed"
    reply = service.ask("POST", f"jobs/{job_id}/retry")
    assert (reply.status, reply.json()["hint"]) == (400, "Send it again.")


def test_the_same_bytes_again_are_known(service: Service) -> None:
    first = ended(service, upload(service, "a.txt", b"Twice the rowan.").json()["job_id"])
    second = ended(service, upload(service, "b.txt", b"Twice the rowan.").json()["job_id"])
    assert (second["state"], second["reason"]) == ("skipped", "already_indexed")
    assert second["document_id"] == first["document_id"]
    document = service.ask("GET", f"documents/{first['document_id']}").json()
    assert document["paths"] == ["a.txt", "b.txt"]


def test_new_bytes_under_a_known_name_leave_the_old_ones_current(service: Service) -> None:
    numbers = [
        ended(service, upload(service, "minutes.txt", f"Minutes {number} of the aspen club.".encode()).json()["job_id"])
        for number in (1, 2)
    ]
    for job in numbers:
        assert service.ask("GET", f"documents/{job['document_id']}").json()["state"] == "current"


def test_what_is_sent_is_read_as_it_is_asked(service: Service) -> None:
    job = ended(service, upload(service, "notes", b"plain elder", type="text").json()["job_id"])
    assert service.ask("GET", f"documents/{job['document_id']}").json()["type"] == "text"


@pytest.mark.parametrize(
    ("name", "content", "status", "says"),
    [
        ("movie.mp4", b"x", 422, "Supported:"),
        ("", b"x", 400, "file name"),
        ("..", b"x", 400, "file name"),
        ("../../etc/passwd.txt", b"x", 400, "file name"),
        ("/etc/passwd.txt", b"x", 400, "file name"),
        ("..\\..\\boot.txt", b"x", 400, "file name"),
        ("a\x00b.txt", b"x", 400, "file name"),
        ("a\nb.txt", b"x", 400, "file name"),
        ("%2e%2e%2fsecret.txt", b"", 422, "empty"),
        ("a" * 252 + ".txt", b"x", 400, "file name"),
        ("a" * 2000 + ".txt", b"x", 422, "1000"),
        ("empty.txt", b"", 422, "empty"),
        (".env", b"TOKEN=1", 422, "secret"),
        ("id_rsa", b"KEY", 422, "secret"),
        ("server.pem", b"KEY", 422, "secret"),
    ],
)
def test_what_cannot_be_taken_is_refused_and_nothing_stays(
    service: Service, name: str, content: bytes, status: int, says: str
) -> None:
    reply = upload(service, name, content)
    assert reply.status == status, reply.body
    answer = reply.json()
    assert says in f"{answer['error']} {answer['hint']}"
    assert "etc" not in answer["error"]
    assert staged(service) == []


def test_an_upload_that_breaks_off_leaves_nothing(service: Service) -> None:
    before = service.ask("GET", "jobs").json()["total"]
    head = (
        f"POST /api/v1/documents?filename=half.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        f"Content-Type: application/octet-stream\r\nAuthorization: {service.token['Authorization']}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.door.access.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"half of it")
        eventually(lambda: staged(service))
    eventually(lambda: not staged(service))
    assert service.ask("GET", "jobs").json()["total"] == before


def test_a_body_larger_than_any_file_is_refused_before_it_is_sent(service: Service) -> None:
    head = (
        f"POST /api/v1/documents?filename=huge.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {10**10}\r\n"
        f"Content-Type: application/octet-stream\r\nAuthorization: {service.token['Authorization']}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.door.access.port), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_an_upload_outlives_the_process_that_took_it(world: World) -> None:
    first = SimulatedEngine(world)
    job_id = Operations(first.engine, None).upload("kept.md", 20, [b"# Kept\n\n", b"The alder.\n"])["job_id"]
    first.close()
    second = SimulatedEngine(world)
    try:
        second.settle()
        assert (second.job(job_id).state, second.found("alder")) == ("done", ["kept.md"])
        assert os.listdir(world.locations.staging_dir) == []
    finally:
        second.close()


def test_a_full_disk_while_it_comes_leaves_nothing(engine: SimulatedEngine) -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RetryLater, match="full"):
        Operations(engine.engine, None).upload("a.txt", 8, content())
    assert os.listdir(engine.world.locations.staging_dir) == []
    assert total(engine.kb) == 0


def total(kb: KnowledgeBase) -> int:
    return kb.jobs()[1]


def test_an_uploaded_document_is_removed_with_its_copy(engine: SimulatedEngine) -> None:
    operations = Operations(engine.engine, None)
    job_id = operations.upload("gone.txt", 9, [b"The sloe."])["job_id"]
    engine.settle()
    row: jobs.JobRow = engine.job(job_id)
    assert row.document_id is not None
    operations.remove_document(row.document_id)
    assert os.listdir(engine.world.locations.documents_dir) == []
    assert engine.found("sloe") == []
