"""Ingests that are killed at every step: `python -m tests.projects.killed_ingest FOLDER`.

For each call that changes a file, before it and after it, a fork of this process ingests and ends there at once. Then
another one ingests to the end. Prints a JSON list: of each, where it ended and what the project holds afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.projects.desk import Desk

_CALLS = ("replace", "rename", "link", "unlink", "fsync", "makedirs")
_KILLED, _DONE = 9, 0
FILES = {
    "old.md": "The old file comes in its second version, which speaks of June.",
    "方案.md": "# 方案\n\n新的方案说明了预算和时间安排的全部内容。\n",
    "report.pdf": "%PDF-1.7 The report is about the third quarter of the year.",
}


def prepare(folder: Path) -> Desk:
    """Return a project with one file that is in already, and three that wait."""
    desk = Desk(folder)
    desk.put("old.md", "The old file came in its first version, which spoke of May.")
    desk.ingest()
    desk.clock.advance(3600)
    for name, content in FILES.items():
        desk.put(name, content)
    return desk


def play(folder: Path, at: int, *, after: bool) -> dict[str, Any] | None:
    """Kill an ingest at its call number `at`; return what the next one makes of it, None where there is none."""
    desk = prepare(folder)
    child = os.fork()
    if child == 0:
        _die_at(at, after=after)
        desk.ingest()
        os._exit(_DONE)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == _DONE:
        return None
    assert status == _KILLED, status
    valid = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))["project"] == "kb"
    outcome = desk.ingest()
    again = desk.ingest()
    return {
        "at": at,
        "after": after,
        "valid": valid,
        "refused": len(outcome.refused) + len(again.refused) + len(again.taken) + len(again.notices),
        "tree": {name: content.decode("latin-1") for name, content in desk.tree().items()},
    }


def _die_at(at: int, *, after: bool) -> None:
    left = [at]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and not after:
                os._exit(_KILLED)
            result = call(*arguments, **options)
            if left[0] == 0:
                os._exit(_KILLED)
            return result

        return counting

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))
    tempfile.mkstemp = counted(tempfile.mkstemp)


def main() -> None:
    """Play every step and print what came of each; the first entry is a run that nobody kills."""
    folder = Path(sys.argv[1])
    (folder / "clean").mkdir()
    clean = prepare(folder / "clean")
    clean.ingest()
    results: list[dict[str, Any]] = [
        {"at": 0, "tree": {name: content.decode("latin-1") for name, content in clean.tree().items()}}
    ]
    for after in (False, True):
        at = 1
        while True:
            place = folder / f"{at}-{after}"
            place.mkdir()
            found = play(place, at, after=after)
            shutil.rmtree(place)
            if found is None:
                break
            results.append(found)
            at += 1
    print(json.dumps(results))


if __name__ == "__main__":
    main()
