"""`kbsync add` says of a file that was named why it is left out, and of a folder's files how many are."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interfaces.conftest import Service


def test_a_named_file_that_is_no_text_is_told_with_its_name_and_ends_with_1(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "bin.md"
    path.write_bytes(bytes(range(256)) * 8)
    answer = service.command("add", str(path))
    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"kbsync: {path}: This is binary data")


def test_a_named_file_behind_a_link_is_a_named_one(service: Service, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "odd.zip").write_text("no archive")
    answer = service.command("add", str(tmp_path / "link" / "odd.zip"))
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "odd.zip: this type of file is not supported" in answer.stderr


def test_what_a_folder_holds_and_is_left_out_is_counted(service: Service, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good\n\nA rowan among others.\n")
    (tmp_path / "bin.md").write_bytes(bytes(range(256)) * 8)
    for name in ("a.zip", "b.zip"):
        (tmp_path / name).write_text("no archive")
    answer = service.command("add", "-r", str(tmp_path))
    assert answer.exit_code == 0
    assert answer.stderr == "kbsync: 3 left out (2 unsupported, 1 binary).\n"
    assert answer.stdout == ("Added: good.md (1 chunk)\nAdded 1 documents. 0 failed. 0 skipped (already indexed).\n")


def test_a_language_means_code(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("def plant_tree():\n    return 'sorb'\n")
    (added,) = json.loads(service.command("add", str(path), "--language", "python", "--json").stdout)["added"]
    document = json.loads(service.command("documents", "show", str(added["document_id"]), "--json").stdout)
    assert (document["type"], document["language"]) == ("code", "python")
