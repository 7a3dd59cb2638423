"""Every route over the real socket: its status and the shape of its answer."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from kbsync.interfaces.paths import decoded, encode
from tests.fakes.eventually import eventually
from tests.interfaces.conftest import Service


def ended(service: Service, job_id: int) -> dict[str, object]:
    """Return a job when it has ended."""

    def job() -> dict[str, object] | None:
        (found,) = service.ask("POST", "local/jobs", [job_id]).json()["jobs"]
        return None if found["state"] in ("queued", "processing") else dict(found)

    found = eventually(job)
    assert found is not None
    return found


def test_status(service: Service) -> None:
    reply = service.ask("GET", "status")
    assert reply.status == 200
    answer = reply.json()
    assert answer.keys() >= {
        *("version", "model_name", "embedding_dim", "device", "database", "queue", "sources", "watchers"),
        *("scheduler", "endpoints", "last_check", "notices"),
    }
    assert (answer["model_name"], answer["embedding_dim"]) == ("hashed words", 16)
    assert answer["database"].keys() >= {"documents_by_type", "total_chunks", "size_bytes"}
    assert answer["queue"].keys() == {"queued", "processing"}
    assert answer["endpoints"] == [service.door.url, f"unix:{service.socket_path}"]
    (watcher,) = [watcher for watcher in answer["watchers"] if watcher["path"] == str(service.folder)]
    assert watcher["watching"] is True


def test_search(service: Service) -> None:
    path = service.write("larch.md", "# Larch\n\n## Needles\n\nThe larch drops its needles in autumn.\n")
    reply = service.ask("GET", f"search?q={quote('larch needles')}&limit=1")
    assert reply.status == 200
    answer = reply.json()
    assert (answer["query"], answer["mode"], answer["notice"]) == ("larch needles", "hybrid", None)
    (hit,) = answer["hits"]
    assert hit.keys() >= {
        *("rank", "score", "document_id", "chunk_id", "title", "type", "path", "paths", "section_header", "page"),
        *("snippet", "text"),
    }
    assert (hit["path"], hit["title"], hit["rank"]) == (str(path), "Larch", 1)
    second = service.ask("GET", f"search?q={quote('larch needles')}&limit=1&offset=1").json()["hits"]
    assert [hit["rank"] for hit in second] in ([], [2])


def test_a_note_is_accepted_and_its_job_can_be_followed(service: Service) -> None:
    reply = service.ask("POST", "notes", {"text": "The spare fuse lies in the tin.", "title": "Fuses"})
    assert reply.status == 202
    job = ended(service, reply.json()["job_id"])
    assert (job["state"], job["kind"], job["chunk_count"]) == ("done", "note", 1)
    document = service.ask("GET", f"documents/{job['document_id']}").json()
    assert (document["type"], document["title"], document["paths"]) == ("note", "Fuses", [])
    assert [chunk["text"] for chunk in document["chunks"]] == ["The spare fuse lies in the tin."]
    assert document["chunks"][0].keys() == {"id", "position", "text", "token_count", "metadata"}


def test_half_a_surrogate_pair_in_text_or_title_harms_nothing(service: Service) -> None:
    """Bytes of a command line that are no UTF-8 arrive like this."""
    reply = service.ask("POST", "notes", {"text": "Half \ud800 a pair of wrens.", "title": "caf\udce9"})
    job = ended(service, reply.json()["job_id"])
    assert job["state"] == "done"
    assert service.ask("GET", f"documents/{job['document_id']}").json()["title"] == "caf?"


def test_documents_are_listed_and_shown(service: Service) -> None:
    service.write("alder.md", "# Alder\n\nAlders stand in water.\n")
    service.write("alder.py", '"""Alders."""\n\n\ndef alder() -> None: ...\n')
    everything = service.ask("GET", "documents?state=all&limit=1000").json()
    assert everything["total"] == len(everything["documents"])
    of_code = service.ask("GET", "documents?type=code").json()["documents"]
    assert {document["type"] for document in of_code} == {"code"}
    (one,) = service.ask("GET", "documents?limit=1").json()["documents"]
    shown = service.ask("GET", f"documents/{one['id']}").json()
    assert one.items() <= shown.items()
    assert shown.keys() >= {"title", "type", "language", "state", "content_hash", "size_bytes", "created_at", "chunks"}


def test_a_document_is_removed(service: Service) -> None:
    path = service.write("gone.md", "# Gone\n\nRemoveable rowan.\n")
    number = service.client.post("local/why", {"path": encode(str(path))})["document_id"]
    reply = service.ask("DELETE", f"documents/{number}")
    assert (reply.status, reply.json()["removed"]["id"]) == (200, number)
    assert service.ask("GET", f"documents/{number}").status == 404
    assert service.ask("DELETE", f"documents/{number}").status == 404
    assert path.exists()


def test_jobs_are_listed_by_state(service: Service) -> None:
    service.write("job.md", "# Job\n\nA job for hornbeam.\n")
    answer = service.ask("GET", "jobs?state=done&limit=1").json()
    assert answer["total"] >= 1
    (job,) = answer["jobs"]
    assert job.keys() >= {"id", "state", "kind", "path", "attempts", "reason", "error", "document_id", "chunk_count"}
    assert job["state"] == "done"
    assert service.ask("POST", "local/jobs", []).json() == {"jobs": [], "held_up": None}


def test_sources_are_added_listed_and_removed(service: Service, tmp_path: Path) -> None:
    (tmp_path / "yew.md").write_text("# Yew\n\nYews are evergreen.\n")
    reply = service.ask("POST", "sources", {"path": str(tmp_path), "ignore": ["drafts/"]})
    assert (reply.status, reply.json()) == (200, {"added": str(tmp_path)})
    service.settle()
    listed = service.ask("GET", "sources").json()
    assert listed["total"] == len(listed["sources"])
    (source,) = [source for source in listed["sources"] if source["path"] == str(tmp_path)]
    assert source.keys() >= {"path", "mode", "state", "reason", "detail", "last_scan_at", "files"}
    assert source["files"].keys() == {"indexed", "waiting", "skipped", "failed", "gone", "seen"}
    assert (source["state"], source["files"]["indexed"] + source["files"]["waiting"]) == ("watching", 1)
    reply = service.ask("POST", "local/sources/remove", {"path": encode(str(tmp_path))})
    assert (reply.status, reply.json()) == (200, {"removed": str(tmp_path), "mode": "mirror"})
    assert str(tmp_path) not in [source["path"] for source in service.ask("GET", "sources").json()["sources"]]


def test_a_path_is_expanded_and_added(service: Service, tmp_path: Path) -> None:
    good, bad = tmp_path / "one 50%.md", tmp_path / "two.zip"
    good.write_text("# One\n\nWhitebeam berries.\n")
    bad.write_bytes(b"PK")
    expanded = service.ask("POST", "local/expand", {"path": encode(str(tmp_path)), "recursive": True}).json()
    assert [decoded(path) for path in expanded["files"]] == [str(good)]
    assert [(decoded(item["path"]), item["reason"]) for item in expanded["skipped"]] == [(str(bad), "unsupported")]
    assert expanded["failed"] == []
    paths = [encode(str(path)) for path in (good, bad, tmp_path / "absent.md")]
    answer = service.ask("POST", "local/add", {"paths": paths, "title": "Berries"}).json()
    assert [decoded(item["path"]) for item in answer["failed"]] == [str(tmp_path / "absent.md")]
    assert [item["reason"] for item in answer["skipped"]] == ["unsupported"]
    (job,) = answer["jobs"]
    document = service.ask("GET", f"documents/{ended(service, job['job_id'])['document_id']}").json()
    assert (document["title"], document["original_filename"]) == ("Berries", "one 50%.md")


def test_why_check_rescan_and_settled(service: Service) -> None:
    path = service.write("spindle.md", "# Spindle\n\nSpindle wood is hard.\n")
    answer = service.ask("POST", "local/why", {"path": encode(str(path))}).json()
    assert answer.keys() >= {"path", "state", "reason", "detail", "document_id", "last_seen_at"}
    assert (answer["path"], answer["state"]) == (str(path), "indexed")
    assert service.ask("POST", "local/check").json() == {"ok": True, "problems": [], "unread": None, "notices": []}
    ticket = service.ask("POST", "local/rescan").json()["ticket"]
    eventually(lambda: service.ask("GET", f"local/settled?ticket={ticket}").json()["settled"])
    settled = service.ask("GET", f"local/settled?ticket={ticket}").json()
    assert settled.keys() >= {"settled", "indexed", "skipped", "failed", "paused"}


def test_the_description_of_the_api_is_served_and_names_every_public_route(service: Service) -> None:
    reply = service.ask("GET", "openapi.json")
    assert reply.status == 200
    described = reply.json()["paths"]
    for route, method in {
        "status": "get",
        "search": "get",
        "notes": "post",
        "documents": "get",
        "documents/{document_id}": "delete",
        "jobs": "get",
        "sources": "post",
    }.items():
        assert method in described[f"/api/v1/{route}"]
