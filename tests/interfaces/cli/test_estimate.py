"""What `sources add` says before it starts: files, bytes, and a time that says how rough it is."""

from __future__ import annotations

import pytest

from kbsync.interfaces.cli.estimate import duration, estimate_line, rough_seconds
from kbsync.interfaces.cli.output import Record


def of(document_type: str, files: int, megabytes: float) -> dict[str, Record]:
    return {document_type: {"files": files, "size_bytes": int(megabytes * 1e6)}}


def test_a_document_takes_longer_than_a_note_and_more_cores_take_less_time() -> None:
    assert rough_seconds(of("pdf", 100, 10), 2) > rough_seconds(of("markdown", 100, 0.1), 2) > 0
    assert rough_seconds(of("pdf", 100, 10), 8) == rough_seconds(of("pdf", 100, 10), 2) / 4
    assert rough_seconds({}, 2) == 0


def test_a_giant_log_counts_only_as_far_as_it_is_indexed() -> None:
    assert rough_seconds(of("text", 1, 5000), 2) == 250


def test_a_type_that_has_no_rate_counts_as_text() -> None:
    assert rough_seconds(of("email", 10, 1), 2) == rough_seconds(of("markdown", 10, 1), 2)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "10 seconds"),
        (34, "30 seconds"),
        (55, "1 minute"),
        (40 * 60, "40 minutes"),
        (3 * 3600, "3 hours"),
        (72 * 3600, "3 days"),
    ],
)
def test_a_time_is_told_as_roughly_as_it_is_known(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_the_sentence_says_files_bytes_and_that_it_is_rough() -> None:
    survey = {"files": 1, "size_bytes": 2_500_000, "complete": True, "by_type": {}}
    assert estimate_line(survey, 60) == "1 file, 2.5 MB to read; about 1 minute by a rough guess from the types."
    told = estimate_line({**survey, "files": 7, "complete": False}, 60)
    assert told == "at least 7 files, 2.5 MB to read; at least about 1 minute by a rough guess from the types."
    assert estimate_line({**survey, "files": 0}, 0) == "There is nothing to read in it."
