"""The examination as a whole: what fails or hangs in it is told, and never ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kbsync.errors import ConfigurationError, StopEngine
from kbsync.interfaces.doctor import examine as examining
from kbsync.interfaces.doctor.examine import EXAMINATIONS, Examination, examine
from kbsync.interfaces.doctor.finding import Finding, Unclear, fine, warning
from kbsync.interfaces.doctor.subject import Subject
from kbsync.interfaces.service.service import Service
from tests.fakes.manual_clock import ManualClock

Look = Callable[[Subject], Sequence[Finding]]


def broken_service() -> Service:
    raise RuntimeError("no service manager has ever been here")


# Where nothing at all could be found out.
LOST = Subject(
    "linux",
    "/nowhere/bin/python",
    {},
    ManualClock(),
    broken_service,
    None,
    "No module named 'platformdirs'",
    "No module named 'pydantic'",
    "No module named 'platformdirs'",
)


def examined(monkeypatch: pytest.MonkeyPatch, **looks: Look) -> list[tuple[str, str, str]]:
    """Return (name, state, detail) of what these examinations find."""
    table = tuple(Examination(name, "", look, limit_s=0.2) for name, look in looks.items())
    monkeypatch.setattr(examining, "EXAMINATIONS", table)
    return [(check.name, check.state, check.detail) for check in examine(LOST)]


def raising(error: Exception) -> Look:
    def look(_subject: Subject) -> Sequence[Finding]:
        raise error

    return look


def test_every_error_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(
        monkeypatch,
        first=lambda _subject: [fine("Good."), warning("Not so good.", "Do it.")],
        foreseen=raising(StopEngine("It is another's.")),
        unclear=raising(Unclear("Nobody says.")),
        closed=raising(PermissionError(13, "Permission denied", "/kb/data/kb.sqlite3")),
        surprise=raising(ModuleNotFoundError("No module named 'apsw'")),
        last=lambda _subject: [fine("Good.")],
    )
    assert found == [
        ("first", "ok", "Good."),
        ("first", "warning", "Not so good."),
        ("foreseen", "unknown", "It is another's."),
        ("unclear", "unknown", "Nobody says."),
        (
            "closed",
            "unknown",
            "/kb/data/kb.sqlite3 is closed to this user: the permissions above say what helps.",
        ),
        ("surprise", "unknown", "It could not be examined: ModuleNotFoundError: No module named 'apsw'."),
        ("last", "ok", "Good."),
    ]


def test_examination_that_hangs_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    forever = threading.Event()

    def hang(_subject: Subject) -> Sequence[Finding]:
        forever.wait()
        return []

    begun = time.monotonic()
    found = examined(monkeypatch, hangs=hang, hangs_too=hang, goes=lambda _subject: [fine("Good.")])
    # Side by side: not one limit after another; a busy machine may add seconds to it.
    assert time.monotonic() - begun < 30
    forever.set()
    assert [state for _, state, _ in found] == ["unknown", "unknown", "ok"]


def test_where_nothing_is_known_everything_is_still_told() -> None:
    """Neither where kbsync's things lie, nor its settings, nor the service manager."""
    cheap = {one.name for one in EXAMINATIONS if not one.is_deep} - {"opencv"}  # which starts a program
    found = {check.name: check for check in examine(LOST, only=cheap)}
    assert found.keys() == cheap
    states = {name: check.state for name, check in found.items()}
    lost = ("configuration", "sources", "permissions", "logs", "database", "disk", "daemon", "port", "service")
    assert {states[name] for name in lost} == {"unknown"}
    assert "platformdirs" in found["permissions"].detail
    assert states["sqlite"] == states["open_files"] == "ok"


def test_settings_that_cannot_be_used_are_told_once() -> None:
    subject = replace(LOST, configured=ConfigurationError("workers: must be a whole number."))
    (finding,) = examine(subject, only={"memory"})
    assert (finding.state, finding.detail) == ("unknown", "It is told when the configuration can be read.")


def test_examinations_have_names_of_their_own_and_say_what_they_look_at() -> None:
    names = [one.name for one in EXAMINATIONS]
    assert len(set(names)) == len(names)
    assert all(one.about and one.name == one.name.lower().replace(" ", "_") for one in EXAMINATIONS)
