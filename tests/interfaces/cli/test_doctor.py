"""`kbsync doctor` as a program: in a service's environment, where everything is broken, beside a running daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.doctor import examine
from kbsync.interfaces.doctor.finding import Check
from kbsync.interfaces.service.here import needed
from tests.faults.ill_machine import listing

FINE = Check("disk", "ok", "There is room.", "")
NARROW = Check("watched_folders", "warning", "5 are too few.", "sudo sysctl x=1")
BROKEN = Check("database", "problem", "It is\nbroken.", "kbsync check --repair")
HIDDEN = Check("clock", "unknown", "Nobody says.", "")


def ran(environment: dict[str, str], python: str = sys.executable, block: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what the program says with these variables alone; `block`: packages that cannot be imported."""
    code = f"import sys; sys.modules.update(dict.fromkeys({block!r})); from kbsync.__main__ import main; main()"
    done = subprocess.run(
        [python, "-P", "-W", "ignore", "-c", code, "doctor", "--json"],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["ok"] == (done.returncode == 0)
    return answer


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in answer["checks"]}


def test_s02_doctor_works_in_the_environment_of_a_unit(tmp_path: Path) -> None:
    """S02: no PATH, locale C, an environment and a home with a space in their names."""
    environment, home = tmp_path / "my env", tmp_path / "my home"
    environment.symlink_to(sys.prefix)
    home.mkdir()
    python = str(environment / "bin" / "python")
    # What systemd gives to a unit beside what the unit itself sets.
    variables = {"HOME": str(home), "USER": "ann", "LANG": "C"}
    answer = ran({**variables, **needed({"KBSYNC_HOME": str(home / "kb")})}, python)
    found = {check["name"]: check for check in answer["checks"]}
    assert "unknown" not in states(answer).values()
    assert python in found["python"]["detail"]
    for name in ("python", "libraries", "sqlite", "configuration", "embedding_model", "opencv", "permissions"):
        assert found[name]["state"] == "ok", found[name]
    assert str(home / "kb") in found["logs"]["detail"]
    assert list(home.iterdir()) == []


def test_where_everything_is_broken_all_is_told(tmp_path: Path) -> None:
    home = tmp_path / "kb"
    (home / "data" / "kb.lock").mkdir(parents=True)
    (home / "data" / "kb.sqlite3").write_bytes(b"no database at all" * 1000)
    (home / "config.toml").write_bytes(b"workers = \xff\xfe")
    (home / "state").write_text("a file in a folder's place")
    (home / "logs").symlink_to(tmp_path / "nowhere")
    before = listing(tmp_path)
    answer = ran(
        {"KBSYNC_HOME": str(home), "PATH": "/nonexistent", "TMPDIR": "/nonexistent", "LC_ALL": "C"},
        block=("psutil", "sqlite_vec", "packaging", "structlog"),
    )
    assert listing(tmp_path) == before
    found = states(answer)
    assert found["configuration"] == "problem"
    assert set(found) == {one.name for one in examine.EXAMINATIONS if not one.is_deep}
    assert found["libraries"] == "unknown"
    assert found["sqlite"] == "warning"
    assert found["open_files"] == "ok"
    assert all(check["detail"] for check in answer["checks"])


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """Return what doctor finds, to be filled."""
    found: list[Check] = []
    monkeypatch.setattr(examine, "examine", lambda _subject, *, deep: found)
    return found


@pytest.mark.parametrize(
    ("found", "code", "last"),
    [
        ([FINE], 0, "All is well."),
        ([FINE, NARROW, HIDDEN], 0, "0 problems, 1 warning, 1 unknown. What helps stands behind the arrows."),
        ([BROKEN, NARROW, NARROW], 1, "1 problem, 2 warnings, 0 unknown. What helps stands behind the arrows."),
    ],
)
def test_a_line_says_how_it_is_and_the_next_what_helps(
    checks: list[Check], tmp_path: Path, found: list[Check], code: int, last: str
) -> None:
    checks += found
    answer = CliRunner().invoke(app, ["doctor"], env={"KBSYNC_HOME": str(tmp_path)})
    lines = answer.stdout.splitlines()
    assert (answer.exit_code, lines[-1]) == (code, last)
    assert len(lines) == 1 + len(found) + sum(bool(check.remedy) for check in found)
    if NARROW in found:
        at = next(number for number, line in enumerate(lines) if line.startswith("warning"))
        assert lines[at].split(maxsplit=3)[1:3] == ["watched", "folders"]
        assert lines[at + 1].strip() == "-> sudo sysctl x=1"


def test_json_has_a_record_for_each_check(checks: list[Check], tmp_path: Path) -> None:
    checks += [FINE, BROKEN]
    answer = CliRunner().invoke(app, ["doctor", "--json"], env={"KBSYNC_HOME": str(tmp_path)})
    assert answer.exit_code == 1
    assert json.loads(answer.stdout) == {
        "ok": False,
        "checks": [
            {"name": "disk", "state": "ok", "detail": "There is room.", "remedy": None},
            {"name": "database", "state": "problem", "detail": "It is\nbroken.", "remedy": "kbsync check --repair"},
        ],
    }


_NEVER_READ = """
import sys
from pydantic import BaseModel, model_validator
from kbsync.__main__ import main
from kbsync.interfaces.doctor import examine, subject

class Endless(BaseModel):
    @model_validator(mode="after")
    def _busy(self):
        while True:
            pass

subject._SETTINGS_S = 0.2
subject._loaded = lambda path: Endless()
examine.EXAMINATIONS = [one for one in examine.EXAMINATIONS if one.name == "configuration"]
sys.argv = ["kbsync", "doctor", "--json"]
main()
"""


def test_what_never_ends_is_left_behind_at_the_end(tmp_path: Path) -> None:
    """A thread inside pydantic would have the interpreter abort."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _NEVER_READ],
        env={"HOME": str(tmp_path), "KBSYNC_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (check,) = json.loads(done.stdout)["checks"]
    assert (check["state"], "no answer" in check["detail"]) == ("unknown", True)
