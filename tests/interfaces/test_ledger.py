"""The commands on the ledger, over the real socket: sums, history, diff, jobs, sources, and the notices they answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.interfaces.conftest import Service


def asked(service: Service, *arguments: str) -> dict[str, Any]:
    found = json.loads(service.command(*arguments, "--json").stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def unreadable(service: Service) -> Iterator[str]:
    """Return a file of the source that cannot be read for good."""
    path = service.folder / "broken.pdf"
    path.write_bytes(b"corrupt")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    service.settle()
    yield str(path)
    path.unlink()
    service.settle()


# ---- sums ----


def test_what_was_seen_is_what_was_indexed_waits_was_skipped_or_failed(service: Service, unreadable: str) -> None:
    service.write("summed.md", "# Summed\n\nA hazel.\n")
    service.write("summed.zip", "no archive")
    service.command("add", "--note", "A note of hazels.")
    status = asked(service, "status")
    states = ("indexed", "waiting", "skipped", "failed")
    for source in status["sources"]:
        assert source["files"]["seen"] == sum(source["files"][state] for state in states)
        assert source["files"]["failed"] >= 1
    assert status["files"]["seen"] == sum(source["files"]["seen"] for source in status["sources"])
    on_disk = sum(len(files) for _, _, files in os.walk(service.folder))
    assert status["files"]["seen"] == on_disk
    assert status["added"]["seen"] == sum(status["added"][state] for state in states)
    assert status["added"]["indexed"] >= 1
    lines = service.command("status").stdout.splitlines()
    assert any(line.startswith("by hand ") for line in lines)
    assert any(re.match(r"rescan +\S+ +\d{4}-\d\d-\d\d \d\d:\d\d ", line) for line in lines), "times that people read"


def test_a_file_that_failed_is_a_notice_with_the_command_that_names_it(service: Service, unreadable: str) -> None:
    (notice,) = [one for one in asked(service, "status")["notices"] if "left alone" in one]
    assert f"`kbsync why {service.folder}`" in notice
    printed = service.command("why", str(service.folder)).stdout
    assert unreadable in printed.splitlines()


def test_search_says_below_its_hits_what_needs_a_person_and_nothing_where_nothing_does(service: Service) -> None:
    service.write("noticed.md", "# Noticed\n\nA spindle tree.\n")
    answer = service.command("search", "spindle", "--mode", "lexical")
    assert answer.stderr == ""
    assert asked(service, "search", "spindle")["notices"] == []
    service.engine.writer.run(
        lambda connection: connection.execute(
            "UPDATE files SET state = 'failed', reason = 'password_required' "
            "WHERE CAST(path AS TEXT) LIKE '%noticed.md'"
        ).fetchall()
    )
    try:
        answer = service.command("search", "spindle", "--mode", "lexical")
        assert "protected by a password" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
        assert len(asked(service, "search", "spindle")["notices"]) == 1
    finally:
        service.command("jobs", "retry", "--failed")
        service.settle()


# ---- sources ----


def test_a_source_is_paused_and_followed_again(service: Service) -> None:
    folder = str(service.folder)
    assert service.command("sources", "pause", folder).stdout == f"{folder} is paused.\n"
    try:
        listed = service.command("sources", "list").stdout
        assert "paused (by_you): " in listed
        assert "`kbsync sources resume" in listed
        assert asked(service, "wait")["paused"] == [folder]
        (source,) = asked(service, "sources", "list")["sources"]
        assert (source["state"], source["reason"]) == ("paused", "by_you")
        assert asked(service, "status")["notices"] == [], "it was asked for a moment ago"
    finally:
        answer = service.command("sources", "resume", folder)
    assert answer.stdout == f"{folder} is followed again.\n"
    service.settle()
    (source,) = asked(service, "sources", "list")["sources"]
    assert (source["state"], source["reason"]) == ("watching", None)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["sources", "pause", "/never/listed"], 3),
        (["sources", "resume", "/never/listed"], 3),
        (["sources", "confirm", "/never/listed"], 3),
        (["jobs", "retry"], 2),
        (["jobs", "retry", "1", "--failed"], 2),
        (["jobs", "retry", "999999"], 3),
        (["jobs", "list", "--state", "lost"], 2),
        (["diff", "/never/listed"], 3),
        (["purge", "--document", "999999", "--yes"], 3),
        (["documents", "export", "999999"], 3),
        (["documents", "export", "/never/seen.md"], 3),
        (["documents", "open", "999999"], 3),
        (["add", "a.md", "b.md", "--title", "Both"], 2),
        (["add", "-r", "/tmp", "--title", "All"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_command_ends_with_the_documented_code(service: Service, arguments: list[str], code: int) -> None:
    result = service.command(*arguments)
    assert result.exit_code == code, result.output
    assert result.stderr


def test_what_cannot_be_resumed_or_confirmed_is_refused_with_a_hint(service: Service) -> None:
    for word in ("resume", "confirm"):
        answer = service.command("sources", word, str(service.folder))
        assert answer.exit_code == 2
        assert "kbsync sources list" in answer.stderr


def test_a_file_below_a_folder_that_is_ignored_by_now_is_left_out_not_gone(service: Service) -> None:
    (service.folder / "drafts").mkdir()
    service.write("drafts/alder.md", "# Alder\n\nAn alder.\n")
    service.settle()
    path = str(service.folder / "drafts" / "alder.md")
    assert asked(service, "why", path)["state"] == "indexed"
    service.write(".kbignore", "drafts/\n")
    service.settle()
    found = asked(service, "why", path)
    assert (found["state"], found["reason"]) == ("skipped", "ignored")
    assert f"It lies in {service.folder / 'drafts'}" in found["detail"]
    (service.folder / "drafts" / "alder.md").unlink()
    assert asked(service, "why", path)["state"] == "gone"
    (service.folder / ".kbignore").unlink()
    service.settle()


def test_with_nothing_to_purge_nobody_is_asked(service: Service) -> None:
    service.command("purge", "--yes")
    assert service.command("purge", "--dry-run").stdout == "Nothing to purge.\n"
    answer = service.command("purge")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("Nothing to purge. ")


def test_a_job_and_all_that_failed_are_not_asked_for_at_once(service: Service) -> None:
    assert "not both" in service.command("jobs", "retry", "1", "--failed").stderr


# ---- history, diff, jobs ----


def test_history_tells_the_newest_first_of_a_file_or_a_folder(service: Service) -> None:
    path = service.write("storied.md", "# Storied\n\nA rowan.\n")
    found = asked(service, "history", str(path))
    assert [event["kind"] for event in found["events"]] == ["indexed"]
    assert (found["total"], found["events"][0]["path"]) == (1, str(path))
    path.unlink()
    service.settle()
    service.settle()
    below = asked(service, "history", str(service.folder), "--limit", "1")
    assert len(below["events"]) == 1
    assert below["total"] > 1
    shown = service.command("history", str(path)).stdout
    assert "storied.md" in shown
    at = datetime.fromisoformat(found["events"][0]["at"])
    assert at.tzinfo is UTC
    assert f"{at.astimezone():%Y-%m-%d %H:%M:%S}" in shown, "by the machine's own time"
    assert asked(service, "history", "/never/seen.md") == {"events": [], "total": 0}
    assert service.command("history", "/never/seen.md").exit_code == 0


def test_diff_says_why_nothing_would_be_done(service: Service) -> None:
    service.command("sources", "pause", str(service.folder))
    try:
        printed = service.command("diff", str(service.folder))
    finally:
        service.command("sources", "resume", str(service.folder))
        service.settle()
    assert "is paused by you" in printed.stderr
    assert printed.stdout == "Nothing else would be done.\n"


def test_diff_is_empty_where_everything_was_seen(service: Service) -> None:
    service.settle()
    assert asked(service, "diff") == {"changes": [], "total": 0, "notices": []}
    assert asked(service, "diff", str(service.folder))["total"] == 0


def test_a_failed_file_is_read_again_by_hand(service: Service, unreadable: str) -> None:
    (failed, *_) = asked(service, "jobs", "list", "--state", "failed")["jobs"]
    assert failed["path"] == unreadable
    again = asked(service, "jobs", "retry", str(failed["id"]))["job"]
    assert again["path"] == unreadable
    service.settle()
    found = asked(service, "jobs", "retry", "--failed")
    assert [job["path"] for job in found["jobs"]] == [unreadable]
    service.settle()
    assert asked(service, "why", unreadable)["state"] == "failed"
    assert unreadable in service.command("jobs", "list", "--state", "failed").stdout


# ---- what is asked for and is not there ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--source", "/never/listed"], "Nothing is indexed of a source /never/listed. Sources: "),
        (["--language", "klingon"], "No document is in klingon. Languages: "),
        (["--in", "/never/seen"], "Nothing that is indexed lies in /never/seen."),
    ],
)
def test_a_filter_that_nothing_meets_is_told(service: Service, arguments: list[str], words: str) -> None:
    service.write("told.md", "# Told\n\nA holly.\n")
    answer = service.command("search", "holly", "--mode", "lexical", *arguments)
    assert answer.exit_code == 3
    assert words in answer.stderr
    assert words in asked(service, "search", "holly", *arguments)["hint"]


def test_a_query_without_words_says_what_to_type(service: Service) -> None:
    answer = service.command("search", " ")
    assert answer.exit_code == 3
    assert "Type words" in answer.stderr
    assert asked(service, "search", "xyzzyplugh", "--mode", "lexical")["hint"] is None


def test_a_word_with_a_minus_that_is_no_option_says_how_to_write_it(service: Service) -> None:
    answer = service.command("search", "lighthouse", "-storm")
    assert answer.exit_code == 2
    assert "kbsync search -- lighthouse -storm" in answer.stderr
    assert "kbsync search --" not in service.command("search", "lighthouse", "--lmit", "3").stderr


def test_a_folder_that_cannot_be_followed_is_refused_before_it_is_counted(service: Service) -> None:
    answer = service.command("sources", "add", str(service.folder))
    assert answer.exit_code == 2
    assert len(answer.stderr.splitlines()) == 1
    assert "is a source already" in answer.stderr
