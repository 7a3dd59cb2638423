"""`kbsync reindex` says in a line how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbsync.interfaces.cli.reindex import said
from tests.interfaces.cli.test_models import kbsync

WHOLE: dict[str, Any] = {
    "state": "idle",
    "model_name": "wider",
    "live_model_name": "wider",
    "chunks_done": 1,
    "chunks_total": 1,
    "stale_left": 0,
    "begun_at": None,
    "finished_at": None,
    "left_s": None,
    "error": None,
}
BEGUN = {"state": "running", "begun_at": "2026-01-01T00:00:00+00:00", "chunks_done": 20, "chunks_total": 5000}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "The index is whole: 1 chunk by wider."),
        (BEGUN, "Reindexing: 20 of 5000 chunks by wider"),
        (BEGUN | {"left_s": 99}, "Reindexing: 20 of 5000 chunks by wider; about 99 s left"),
        (BEGUN | {"left_s": 150}, "Reindexing: 20 of 5000 chunks by wider; about 2 min left"),
        (BEGUN | {"left_s": 12600}, "Reindexing: 20 of 5000 chunks by wider; about 3.5 h left"),
        ({"state": "running", "stale_left": 2}, "Reindexing: 2 documents to be made anew"),
        (BEGUN | {"state": "waiting", "error": "No."}, "Waiting: 20 of 5000 chunks by wider; No."),
    ],
)
def test_line_says_what_is_left(changed: dict[str, Any], line: str) -> None:
    assert said(WHOLE | changed) == line


def test_without_a_daemon_it_ends_with_4(tmp_path: Path) -> None:
    code, _, error = kbsync(tmp_path, "reindex")
    assert code == 4
    assert "kbsync run" in error
