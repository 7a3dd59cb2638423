"""The whole road: samples in a folder, found by what they say, each accounted for."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from kbsync.file_types import DOCUMENT_TYPES
from tests.end_to_end.conftest import Road
from tests.end_to_end.program import PATIENCE_S
from tests.fakes.eventually import eventually

SKIPPED = {"binary.md": "binary", "empty.md": "empty"}
INDEXED = sorted(
    name for name in os.listdir(Path(__file__).parent.parent / "samples") if "." in name and name not in SKIPPED
)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("借阅", "chinese.md"),
        ("逾期", "chinese.md"),
        ("貸出", "japanese.md"),
        ("返却", "japanese.md"),
        ("반납", "korean.md"),
        ("棚卸", "shift_jis.txt"),
        ("disk space", "deploy.sh"),
        ("push item", "queue.go"),
        ("count remote", "inventory.py"),
        ("check_disk_space", "deploy.sh"),
        ("Mekong", "rivers.csv"),
        ("greenhouse humidity", "settings.yaml"),
        ("Gravenstein", "orchard.md"),
    ],
)
def test_a_sample_is_found_by_words_and_parts_of_names(road: Road, query: str, name: str) -> None:
    hits = road.program.json("search", query)["hits"]
    assert hits[0]["path"] == str(road.folder / name)


def test_a_note_is_found_by_a_question_in_words_it_does_not_use(road: Road) -> None:
    question = "how can I trap stinging insects"
    assert road.program.json("search", question, "--mode", "lexical", code=3)["hits"] == []
    answer = road.program.json("search", question)
    assert answer["mode"] == "hybrid"
    assert answer["hits"][0]["path"] == str(road.folder / "orchard.md")


def test_a_hit_has_the_documented_fields(road: Road) -> None:
    answer = road.program.json("search", "Boskoop", "--limit", "1")
    assert answer.keys() >= {"query", "mode", "took_ms", "hits"}
    (hit,) = answer["hits"]
    assert hit.keys() >= {
        *("rank", "score", "document_id", "chunk_id", "title", "type", "path", "paths", "section_header", "page"),
        *("snippet", "text"),
    }
    assert (hit["rank"], hit["title"], hit["type"]) == (1, "The orchard book", "markdown")
    assert hit["paths"] == [hit["path"]]


def test_search_prints_title_snippet_and_path_for_people(road: Road) -> None:
    printed = road.program.run("search", "Boskoop", "-n", "1").stdout
    assert printed.startswith("1. The orchard book")
    assert str(road.folder / "orchard.md") in printed


def test_nothing_found_is_exit_code_three(road: Road) -> None:
    answer = road.program.run("search", "--mode", "lexical", "xyzzyplugh", code=3)
    assert answer.stdout == ""
    assert "Nothing found" in answer.stderr


@pytest.mark.parametrize("name", INDEXED)
def test_why_says_that_a_sample_is_indexed(road: Road, name: str) -> None:
    answer = road.program.json("why", str(road.folder / name))
    assert (answer["path"], answer["state"], answer["reason"]) == (str(road.folder / name), "indexed", None)
    assert isinstance(answer["document_id"], int)
    assert datetime.fromisoformat(answer["last_seen_at"]).tzinfo is not None
    assert answer["detail"]


@pytest.mark.parametrize(("name", "reason"), SKIPPED.items())
def test_why_says_that_a_sample_is_skipped(road: Road, name: str, reason: str) -> None:
    answer = road.program.json("why", str(road.folder / name))
    assert (answer["state"], answer["reason"], answer["document_id"]) == ("skipped", reason, None)


def test_why_of_what_was_never_seen_is_exit_code_three(road: Road) -> None:
    answer = road.program.run("why", str(road.folder / "never.md"), code=3)
    assert "none was ever seen" in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has mapped is told by Linux only")
def test_torch_is_in_a_child_and_never_in_the_daemon(road: Road) -> None:
    """Half a gigabyte that goes when the model rests."""
    road.daemon.settle()
    eventually(road.daemon.has_model, within_s=PATIENCE_S, every_s=0.2)
    assert road.daemon.client.get("search", q="quince", mode="hybrid")["mode"] == "hybrid"
    daemon = psutil.Process(road.daemon.process.pid)
    assert "libtorch" not in Path(f"/proc/{daemon.pid}/maps").read_text()
    holders = [child for child in daemon.children() if "libtorch" in Path(f"/proc/{child.pid}/maps").read_text()]
    assert holders
    assert daemon.memory_info().rss < 400_000_000
    status = road.program.json("status")
    assert (status["model_ready"], status["model_state"]) == (True, "ready")


def test_status_has_the_documented_fields_and_its_sums_agree(road: Road) -> None:
    road.daemon.settle()
    status = road.program.json("status")
    assert status["version"] == (Path(__file__).parents[2] / "VERSION").read_text().strip()
    assert status["embedding_dim"] == 384
    assert "MiniLM" in status["model_name"]
    assert status["device"].keys() >= {"kind", "name", "count", "memory"}
    assert status["device"]["count"] >= 1
    assert status["queue"] == {"queued": 0, "processing": 0}
    assert status["pid"] == road.daemon.process.pid
    assert status["endpoints"]
    assert status.keys() >= {"watchers", "scheduler", "last_check", "notices"}
    database = status["database"]
    assert set(database["documents_by_type"]) <= set(DOCUMENT_TYPES)
    listed = road.program.json("documents", "list", "--limit", "1000")
    assert sum(database["documents_by_type"].values()) == listed["total"] == len(listed["documents"])
    assert database["total_chunks"] >= listed["total"]
    assert database["size_bytes"] > 0
    totals = status["files"]["states"]
    for state in ("indexed", "waiting", "skipped", "failed"):
        assert sum(source["files"][state] for source in status["sources"]) == totals.get(state, 0)
    assert totals.get("waiting", 0) == 0
    of_indexed = sum(status["files"]["reasons"].get(reason, 0) for reason in ("no_text", "truncated"))
    left_out = totals.get("skipped", 0) + totals.get("failed", 0)
    assert sum(status["files"]["reasons"].values()) == of_indexed + left_out
    of_samples = next(source for source in status["sources"] if source["path"] == str(road.folder))
    assert (of_samples["state"], of_samples["files"]["failed"]) == ("watching", 0)
    assert of_samples["files"]["indexed"] >= len(INDEXED)


def test_wait_says_what_became_of_all_files(road: Road) -> None:
    answer = road.program.json("wait", "--timeout", "60")
    assert answer.keys() >= {"settled", "indexed", "skipped", "failed", "paused", "seconds"}
    assert answer["settled"] is True
    assert answer["paused"] == []
    assert answer["indexed"] >= len(INDEXED)


def test_the_database_is_whole(road: Road) -> None:
    assert road.program.json("check") == {"ok": True, "problems": [], "notices": [], "unread": None}
    last_check = road.program.json("status")["last_check"]
    assert last_check["ok"] is True


def test_every_folder_and_file_of_kbsync_is_private(road: Road) -> None:
    socket = Path(road.program.places.socket_path())
    assert stat.S_ISSOCK(socket.stat().st_mode)
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    for folder in (socket.parent, Path(road.program.places.data_dir), Path(road.program.places.log_dir)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in (road.program.places.database, road.program.places.lock_file, road.program.places.log_file):
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600


def test_the_folder_that_is_followed_is_not_written_to(road: Road, samples: Path) -> None:
    for name in [*INDEXED, *SKIPPED]:
        assert (road.folder / name).read_bytes() == (samples / name).read_bytes()
