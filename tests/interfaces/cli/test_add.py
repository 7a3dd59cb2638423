"""`kbsync add` says of a file that was named why it is left out, and of a folder's files how many are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
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


def test_an_added_file_says_where_not_all_of_it_is_searchable(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"a wild service tree\n" + b"\n" * 21_000_000)
    answer = service.command("add", str(path))
    assert answer.stdout == "Added: long.log (1 chunk; only its first part is searchable)\n"
    assert "only its first part is searchable" in service.command("why", str(path)).stdout


def test_a_language_means_code(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("def plant_tree():\n    return 'sorb'\n")
    (added,) = json.loads(service.command("add", str(path), "--language", "python", "--json").stdout)["added"]
    document = json.loads(service.command("documents", "show", str(added["document_id"]), "--json").stdout)
    assert (document["type"], document["language"]) == ("code", "python")


# ---- what would be added ----


def test_a_dry_run_says_what_would_be_added_and_stages_nothing(service: Service, tmp_path: Path) -> None:
    service.write("known-to-dry-run.md", "# Known\n\nA hornbeam.\n")
    (tmp_path / "new.md").write_text("# New\n\nA service tree.\n")
    (tmp_path / "known.md").write_text("# Known\n\nA hornbeam.\n")
    (tmp_path / "odd.zip").write_text("no archive")
    before = service.engine.kb.jobs()[1]
    answer = service.command("add", "-r", str(tmp_path), "--dry-run")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        f"Would add: {tmp_path / 'new.md'} (markdown, 23 B)",
        "Skipped: known.md (already indexed)",
        "Would add 1 documents. 0 failed. 1 skipped (already indexed).",
    ]
    assert answer.stderr == "kbsync: 1 left out (1 unsupported).\n"
    record = json.loads(service.command("add", "-r", str(tmp_path), "--dry-run", "--json").stdout)
    assert record["wanted"] == [{"path": str(tmp_path / "new.md"), "type": "markdown", "size_bytes": 23}]
    assert record["added"] == record["failed"] == []
    assert {"path": str(tmp_path / "odd.zip"), "reason": "unsupported"} in record["skipped"]
    assert service.engine.kb.jobs()[1] == before
    assert os.listdir(service.engine.stored.staging_dir) == []


def test_a_dry_run_knows_that_another_type_would_read_a_file_again(service: Service) -> None:
    path = str(service.write("dry-type.md", "# Known\n\nA wayfaring tree.\n"))
    assert service.command("add", path, "--dry-run").stdout == "Skipped: dry-type.md (already indexed)\n"
    assert service.command("add", path, "--dry-run", "--type", "text").stdout.startswith(f"Would add: {path} (text")


# ---- what is not waited for ----


def test_without_waiting_the_jobs_are_named_and_the_daemon_ends_them(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "later.md"
    path.write_text("# Later\n\nA spindle tree.\n")
    record = json.loads(service.command("add", str(path), "--no-wait", "--json").stdout)
    (queued,) = record["queued"]
    assert queued["path"] == str(path)
    assert record["summary"] == "Queued 1 documents. 0 failed. 0 skipped (already indexed)."
    service.settle()
    (job,) = service.engine.kb.jobs_by_id([queued["job_id"]])
    assert job.state == "done"
    note = service.command("add", "--note", "A wild service tree.", "--no-wait")
    assert note.stdout.startswith("Queued: note (job ")
    assert (note.exit_code, note.stderr) == (0, "")


def test_without_waiting_and_without_a_daemon_it_says_who_works_the_jobs(tmp_path: Path) -> None:
    environment = {"KBSYNC_HOME": str(tmp_path / "home")}
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"# {name}\n\nA juniper.\n")
    answer = CliRunner().invoke(
        app, ["add", str(tmp_path / "a.md"), str(tmp_path / "b.md"), "--no-wait"], env=environment
    )
    assert answer.exit_code == 0
    first, second, summary = answer.stdout.splitlines()
    assert (first, second) == ("Queued: a.md (job 1)", "Queued: b.md (job 2)")
    assert summary == "Queued 2 documents. 0 failed. 0 skipped (already indexed)."
    assert "2 jobs waiting; `kbsync run`" in answer.stderr


@pytest.mark.parametrize("more", [["--no-wait", "a.md"], ["--note", "text"]], ids=" ".join)
def test_a_dry_run_goes_with_files_only(service: Service, more: list[str]) -> None:
    assert service.command("add", "--dry-run", *more).exit_code == 2


# ---- what was set by hand ----


def test_another_type_by_hand_reads_a_followed_file_again_in_place(service: Service) -> None:
    path = service.write("by-hand.txt", "# Privet\n\nA hedge.\n")
    number = json.loads(service.command("why", str(path), "--json").stdout)["document_id"]
    (added,) = json.loads(service.command("add", str(path), "--type", "code", "--language", "bash", "--json").stdout)[
        "added"
    ]
    assert added["document_id"] == number
    document = json.loads(service.command("documents", "show", str(number), "--json").stdout)
    assert (document["type"], document["language"], document["paths"]) == ("code", "bash", [str(path)])
    again = service.command("add", str(path), "--type", "code", "--language", "bash")
    assert again.stdout == "Skipped: by-hand.txt (already indexed)\n"


# ---- failures ----


def test_every_failure_of_a_batch_is_in_the_error_log_and_none_of_a_dry_run(service: Service, tmp_path: Path) -> None:
    log = Path(service.engine.locations.error_log)
    absent = str(tmp_path / "absent.md")

    def logged() -> list[dict[str, str]]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [record for line in lines if (record := json.loads(line))["path"] == absent]

    assert service.command("add", absent, "--dry-run").exit_code == 1
    assert logged() == []
    good = tmp_path / "good.md"
    good.write_text("# Good\n\nA whitebeam.\n")
    answer = service.command("add", absent, str(good))
    assert answer.exit_code == 1
    assert answer.stdout.splitlines()[-1] == "Added 1 documents. 1 failed. 0 skipped (already indexed)."
    assert len(logged()) == 1


def test_a_source_is_estimated_before_it_is_followed(service: Service, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("# Larch\n\nA larch.\n")
    answer = service.command("sources", "add", str(tmp_path))
    assert answer.stdout == f"Following {tmp_path}.\n"
    assert answer.stderr.startswith(f"kbsync: {tmp_path}: 2 files, 36 B to read; about ")
    assert "rough" in answer.stderr
    service.command("sources", "remove", str(tmp_path))
    record = json.loads(service.command("sources", "add", str(tmp_path), "--json").stdout)
    assert record["estimate"]["by_type"] == {"markdown": {"files": 2, "size_bytes": 36}}
    assert record["estimate"]["complete"] is True
    service.command("sources", "remove", str(tmp_path))
