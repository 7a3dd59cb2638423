"""Nothing of ours opens the database's files: closing such a descriptor drops SQLite's locks, and commits are lost."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults import watched_opens

ROOT = Path(__file__).parents[2]
# What gives the name of the database; and who may have it: SQLite's door, and what moves files that nobody has open.
_NAMES = {"database", "kb.sqlite3"}
_OPENERS = {
    "open",
    "copyfile",
    "copy",
    "copy2",
    "move",
    "read_bytes",
    "write_bytes",
    "read_text",
    "truncate",
    "sendfile",
}


def test_a_day_of_the_real_engine_opens_the_database_through_sqlite_only(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    """D18: walked, watched, hashed, checked, purged and started again, with its data in the folder that it follows."""
    home = tmp_path / "folder" / "home"
    home.mkdir(parents=True)
    outcome = subprocess.run(
        [sys.executable, "-m", watched_opens.__name__, home],
        cwd=ROOT,
        env={**os.environ, "KBSYNC_HTTP__PORT": "0"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    answer = json.loads(outcome.stdout.splitlines()[-1])
    assert answer["opens"] == []
    assert answer["documents"] >= 39
    told(f"raw opens of the database in a day of the engine: {len(answer['opens'])}")


def test_the_watch_sees_an_open_by_any_name_and_way(tmp_path: Path) -> None:
    """D18: else the test before would prove nothing."""
    code = (
        "import os, sys, pathlib, shutil; from tests.faults.watched_opens import watched; found = watched();"
        "os.chdir(sys.argv[1]); pathlib.Path('kb.sqlite3').write_bytes(b''); open('kb.sqlite3-wal', 'w').close();"
        "os.close(os.open('kb.sqlite3', os.O_RDONLY, dir_fd=os.open('.', os.O_RDONLY)));"
        "shutil.copyfile('kb.sqlite3', 'other'); print(len(found))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert int(outcome.stdout) >= 4


def opened_by_name(source: str) -> list[int]:
    """Return the lines on which something that opens files is given the database's name."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        named = [
            part
            for argument in (*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else []))
            for part in ast.walk(argument)
            if (isinstance(part, ast.Attribute) and part.attr in _NAMES)
            or (isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith("kb.sqlite3"))
        ]
        if called in _OPENERS and named:
            lines.append(node.lineno)
    return lines


def test_no_line_of_ours_opens_the_database_by_its_name() -> None:
    """D18: whatever no test comes by."""
    assert opened_by_name("open(locations.database)") == [1]
    assert opened_by_name("os.open(os.path.join(folder, 'kb.sqlite3-wal'), 0)") == [1]
    assert opened_by_name("Path(places.database).read_bytes()") == [1]
    assert opened_by_name("connect(locations.database)") == []
    sources = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "kbsync").rglob("*.py")
    }
    naming = {name: source for name, source in sources.items() if any(word in source for word in _NAMES)}
    assert "kbsync/config/locations.py" in naming
    found = {name: lines for name, source in naming.items() if (lines := opened_by_name(source))}
    assert found == {}
