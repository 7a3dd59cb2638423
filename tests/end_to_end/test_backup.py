"""A backup goes to another home by the real commands: no model is loaded, and everything is found as before."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.end_to_end.program import Program
from tests.fakes.backed_up import backed_up, disk_world, write_notes
from tests.fakes.simulated_engine import SimulatedEngine


def test_a_backup_is_restored_under_other_roots_by_command(tmp_path: Path) -> None:
    """D12: what one machine wrote the other one restores, checks and searches."""
    old, new = tmp_path / "old machine", tmp_path / "new machine"
    write_notes(old / "notes", 5)
    engine = SimulatedEngine(disk_world(old / "home", old / "notes"))
    engine.rescan()
    (tmp_path / "brought.md").write_text("# Brought\n\nA quince by hand.\n")
    engine.add(str(tmp_path / "brought.md"))
    backed_up(engine, tmp_path / "backup")
    engine.close()
    new.mkdir()
    shutil.move(old / "notes", new / "notes")
    program = Program(new / "home")
    done = program.json("restore", str(tmp_path / "backup"), "--map", f"{old}={new}")
    assert (done["documents"], done["moved"], done["config"]) == (6, 5, "placed")
    assert program.json("check")["ok"]
    found = program.json("search", "plum", "numbered", "3")["hits"]
    assert found[0]["path"] == str(new / "notes" / "note-0003.md")
    assert program.json("search", "quince")["hits"][0]["title"] == "Brought"
    [event] = program.json("history", "--limit", "1")["events"]
    assert event["kind"] == "restored"
    # And back into a backup, without a daemon.
    again = program.json("backup", str(tmp_path / "second"))
    assert (again["path"], again["documents"], again["stored_files"]) == (str(tmp_path / "second"), 6, 1)
