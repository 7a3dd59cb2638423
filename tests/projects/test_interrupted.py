"""An ingest that ends anywhere is finished by the next one, as if nobody had ended it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbsync.errors import StorageUnavailable
from kbsync.projects import manifest, page
from tests.projects.desk import NOW, Desk, local_stamp
from tests.projects.killed_ingest import FILES

ROOT = Path(__file__).resolve().parents[2]


def test_killed_at_any_step_the_second_run_reaches_what_a_clean_one_reaches(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.projects.killed_ingest", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    clean, *killed = json.loads(run.stdout)
    assert len(killed) > 60
    assert len(clean["tree"]) == 2 + 3 + 4
    for one in killed:
        where = f"call {one['at']}, {'after' if one['after'] else 'before'}"
        assert one["valid"], where
        assert one["refused"] == 0, where
        assert one["tree"] == clean["tree"], where
    told(f"ingest of a project killed at {len(killed)} steps: 0 differ from a clean run")


def test_what_was_killed_while_it_finished_another_run_takes_nothing_in_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.put("a.md", "The only file of this project, with enough words.")
    unlink, write = os.unlink, manifest.write

    def killed_before(target: str) -> None:
        if target == str(path):
            raise SystemExit
        unlink(target)

    def killed_after(*arguments: Any) -> None:
        write(*arguments)
        raise SystemExit

    monkeypatch.setattr(os, "unlink", killed_before)
    with pytest.raises(SystemExit):
        desk.ingest()
    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.setattr(manifest, "write", killed_after)
    with pytest.raises(SystemExit):
        desk.ingest()
    monkeypatch.setattr(manifest, "write", write)
    assert not desk.ingest().taken
    assert [os.listdir(desk.root / folder) for folder in ("sources", "archive")] == [[], [f"a_{local_stamp(NOW)}.md"]]


def test_a_full_disk_ends_an_ingest_with_everything_where_it_was_or_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES.items():
        desk.put(name, content)
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable):
        desk.ingest()
    monkeypatch.setattr(os, "fsync", real)
    assert len(desk.ingest().taken) == len(FILES)
    assert not [name for name in desk.tree() if ".kbsync-" in name]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"project": 1}', '{"files": [{"name": "../x"}]}', "\x00" * 40])
def test_a_broken_manifest_is_told_set_aside_and_made_anew_from_the_files(desk: Desk, damage: str) -> None:
    desk.put("a.md", "The first version of the file a, with enough words.")
    desk.put("长" * 80 + ".md", "一个名字很长的文件，它的归档名会被截短。")
    desk.ingest()
    desk.put("a.md", "The second version of the file a, with enough words.")
    desk.ingest()
    before = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    (desk.root / "manifest.json").write_text(damage, encoding="utf-8")
    outcome = desk.ingest()
    assert "made anew" in outcome.notices[0]
    assert (desk.root / "manifest.json.damaged-1").read_text(encoding="utf-8") == damage
    after = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    assert sorted(after["files"], key=str) == sorted(before["files"], key=str)
    assert not desk.ingest().notices


def test_a_manifest_or_page_that_is_gone_is_made_anew(desk: Desk) -> None:
    desk.put("a.md", "The only file of this project, with enough words.")
    desk.ingest()
    before = desk.tree()
    (desk.root / "manifest.json").unlink()
    (desk.root / "project.md").unlink()
    assert len(desk.ingest().notices) == 2
    assert desk.tree()["manifest.json"] == before["manifest.json"]
    assert page.rows(desk.page) == page.rows(before["project.md"].decode())
    assert page.entries(desk.page) == page.entries(before["project.md"].decode())


def test_fields_that_a_later_program_wrote_into_the_manifest_stay(desk: Desk) -> None:
    desk.put("a.md", "The only file of this project, with enough words.")
    desk.ingest()
    record = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    record["colour"] = "blue"
    record["files"][0]["tags"] = ["x"]
    (desk.root / "manifest.json").write_text(json.dumps(record), encoding="utf-8")
    desk.put("b.md", "Another file of this project, with enough words.")
    desk.ingest()
    after = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    assert (after["colour"], after["files"][0]["tags"]) == ("blue", ["x"])
    assert after["files"][1]["versions"][0]["archived"] == f"archive/b_{local_stamp(NOW)}.md"
