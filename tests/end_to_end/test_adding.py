"""`kbsync add` with the daemon running: messages to the letter, shapes of JSON, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.file_types import SUPPORTED
from tests.end_to_end.conftest import Road


def write(path: Path, word: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {path.stem}\n\nA text about {word} and nothing else.\n")
    return path


def test_a_file_is_added_once_and_then_skipped_by_its_content(road: Road, tmp_path: Path) -> None:
    path = write(tmp_path / "report.md", "addingonce")
    assert road.program.run("add", str(path)).stdout == "Added: report.md (1 chunk)\n"
    assert road.program.run("add", str(path)).stdout == "Skipped: report.md (already indexed)\n"
    path.unlink()
    (hit,) = road.program.json("search", "--mode", "lexical", "addingonce")["hits"]
    document = road.program.json("documents", "show", str(hit["document_id"]))
    assert Path(document["stored_path"]).is_file(), "what was added stays when the file goes"


def test_a_folder_needs_recursive_and_ends_with_the_summary(road: Road, tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "inner" / f"part{number}.md", f"folderword{number}")
    (tmp_path / "picture.zip").write_bytes(b"PK")
    (tmp_path / "nothing.md").touch()
    refused = road.program.run("add", str(tmp_path), code=2)
    assert "--recursive" in refused.stderr
    first = road.program.run("add", str(tmp_path), "--recursive").stdout.splitlines()
    assert first[-1] == "Added 3 documents. 0 failed. 0 skipped (already indexed)."
    write(tmp_path / "inner" / "part9.md", "folderword9")
    again = road.program.run("add", str(tmp_path), "--recursive").stdout.splitlines()
    assert "Skipped: part1.md (already indexed)" in again
    assert again[-1] == "Added 1 documents. 0 failed. 3 skipped (already indexed)."


def test_one_failure_does_not_end_the_batch(road: Road, tmp_path: Path) -> None:
    path = write(tmp_path / "good.md", "amongfailures")
    answer = road.program.run("add", str(tmp_path / "absent.md"), str(path), code=1)
    assert answer.stdout.splitlines()[-1] == "Added 1 documents. 1 failed. 0 skipped (already indexed)."
    assert str(tmp_path / "absent.md") in answer.stderr


def test_add_as_json_has_the_documented_shape(road: Road, tmp_path: Path) -> None:
    path, absent = write(tmp_path / "shape.md", "shapeword"), tmp_path / "absent.md"
    answer = road.program.json("add", str(path), str(absent), code=1)
    (added,), (failed,) = answer["added"], answer["failed"]
    assert (added["path"], added["chunks"]) == (str(path), 1)
    assert isinstance(added["document_id"], int)
    assert failed["path"] == str(absent)
    assert failed["error"]
    assert answer["skipped"] == []
    assert answer["summary"] == "Added 1 documents. 1 failed. 0 skipped (already indexed)."
    again = road.program.json("add", str(path))
    assert again["added"] == again["failed"] == []
    assert again["skipped"] == [{"path": str(path), "reason": "already_indexed"}]
    assert again["summary"] == "Added 0 documents. 0 failed. 1 skipped (already indexed)."


def test_a_note_is_one_chunk_with_its_title(road: Road) -> None:
    text = "Always restart nginx after config changes."
    answer = road.program.json("add", "--note", text, "--title", "nginx reminder")
    (added,) = answer["added"]
    assert added["chunks"] == 1
    document = road.program.json("documents", "show", str(added["document_id"]))
    assert (document["type"], document["title"], document["stored_path"]) == ("note", "nginx reminder", None)
    assert [chunk["text"] for chunk in document["chunks"]] == [text]
    (hit, *_) = road.program.json("search", "nginx reminder")["hits"]
    assert (hit["path"], hit["paths"]) == (None, [])


@pytest.mark.parametrize(("name", "content"), [("archive.zip", b"PK\x03\x04"), ("letter.doc", b"\xd0\xcf\x11\xe0")])
def test_an_unsupported_file_fails_and_the_message_lists_what_is_supported(
    road: Road, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    answer = road.program.run("add", str(path), code=1)
    for ending in SUPPORTED:
        assert ending in answer.stderr
    shape = road.program.json("add", str(path), code=1)
    assert shape["skipped"] == [{"path": str(path), "reason": "unsupported"}]
    assert shape["summary"] == "Added 0 documents. 0 failed. 0 skipped (already indexed)."


def test_type_and_language_by_hand_beat_the_ending(road: Road, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("# comment\nhand_made() {\n    echo typed by hand\n}\n")
    (added,) = road.program.json("add", str(path), "--type", "code", "--language", "bash")["added"]
    document = road.program.json("documents", "show", str(added["document_id"]))
    assert (document["type"], document["language"]) == ("code", "bash")


def test_an_only_copy_is_not_removed_unasked(road: Road) -> None:
    (added,) = road.program.json("add", "--note", "A removable thought about larks.")["added"]
    number = str(added["document_id"])
    assert "--yes" in road.program.run("documents", "remove", number, code=5).stderr
    road.program.run("documents", "remove", number, "--yes")
    assert "documents list" in road.program.run("documents", "show", number, code=3).stderr


def test_a_removed_document_of_a_followed_folder_is_left_out_until_it_is_added(road: Road) -> None:
    path = write(road.folder / "unwanted.md", "unwantedword")
    road.program.run("wait")
    number = str(road.program.json("why", str(path))["document_id"])
    road.program.run("documents", "remove", number)
    road.program.run("wait")
    assert path.exists()
    assert road.program.json("why", str(path))["reason"] == "removed_by_you"
    road.program.run("add", str(path))
    road.program.run("wait")
    assert road.program.json("why", str(path))["state"] == "indexed"
