"""What needs a person is said in a sentence with the command that answers it; nothing to say, no line."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kbsync.interfaces import notices
from kbsync.interfaces.cli.status import notice_line
from kbsync.interfaces.records import reindex_notices
from kbsync.reasons import Reason
from kbsync.store.ledger import Failures

FOLDERS = {1: "/home/me/my notes"}


def source(**fields: object) -> dict[str, Any]:
    return {"path": "/n", "state": "watching", "reason": None, "detail": None, "since": None, **fields}


@pytest.mark.parametrize(
    ("reason", "count", "lasting", "words"),
    [
        (Reason.PASSWORD_REQUIRED, 2, False, "2 files in /home/me/my notes are protected by a password"),
        (Reason.PERMISSION, 1, False, "1 file in /home/me/my notes is not readable for you"),
        (Reason.CORRUPT, 3, True, "`kbsync jobs retry --failed` tries again"),
    ],
)
def test_files_that_failed_are_told_with_a_command(reason: Reason, count: int, lasting: bool, words: str) -> None:
    failures = [Failures(1, reason, count, "/home/me/my notes/a.pdf")]
    (told,) = notices.of_failures(failures, FOLDERS, lasting=lasting)
    assert words in told
    assert "`kbsync why '/home/me/my notes'`" in told
    assert notices.of_failures(failures, FOLDERS, lasting=not lasting) == []


def test_failures_of_a_folder_that_is_followed_no_more_are_not_told() -> None:
    assert notices.of_failures([Failures(9, Reason.CORRUPT, 1, "/x")], FOLDERS, lasting=True) == []


def test_a_source_that_a_person_paused_is_brought_to_mind_after_a_week() -> None:
    paused = source(state="paused", reason="by_you", detail="paused", since="1970-01-02T00:00:00+00:00")
    assert notices.of_sources([paused], 2 * 86400.0) == []
    assert notices.of_sources([paused], 9 * 86400.0) == ["paused"]


def test_what_a_walk_said_of_a_source_is_told_at_once() -> None:
    found = [source(), source(state="held", reason="missing", detail="30 of 40 are missing")]
    assert notices.of_sources(found, 0.0) == ["30 of 40 are missing"]


def test_what_cannot_be_used_is_told_once() -> None:
    """The configuration, the model and the reindex say the same of a model that is not there."""
    error = "The model in /m cannot be used. Name another folder."
    running = {"config_error": error, "model_error": error}
    reindex = {"live_model_name": "a", "model_name": "a", "chunks_done": 0, "chunks_total": 1, "error": error}
    [told] = [*notices.of_engine(running), *reindex_notices(reindex, error)]
    assert told.startswith(error)
    assert len(notices.of_engine({"config_error": "port is no number", "model_error": error})) == 2
    assert len(reindex_notices(reindex)) == 1


def test_a_configuration_that_was_refused_says_what_holds_and_how_it_goes_on() -> None:
    [told] = notices.of_engine({"config_error": "workers must be 1 or more. Correct it."})
    assert told.startswith("workers must be 1 or more. Correct it. Until it is right the settings from before hold")
    assert "by itself" in told


def test_settings_that_wait_for_a_restart_are_named() -> None:
    [told] = notices.of_engine({"restart_for": ["http.port", "workers"]})
    assert told.startswith("http.port, workers are set anew")
    assert notices.of_engine({"restart_for": []}) == []


def test_one_line_stands_for_all_notices() -> None:
    assert notice_line(["a"]) == "a"
    assert re.fullmatch(r"a \(1 more notice: `kbsync status`\)", notice_line(["a", "b"]))
    assert "2 more notices" in notice_line(["a", "b", "c"])
