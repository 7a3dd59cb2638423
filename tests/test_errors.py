"""An error's class is the decision; what people read is always text, with the way out after it."""

from __future__ import annotations

import os

import pytest

from kbsync import errors
from kbsync.reasons import SENTENCES, Reason


def test_the_hint_follows_the_message() -> None:
    assert str(errors.UsageError("It is wrong.", hint="Do it right.")) == "It is wrong. Do it right."
    assert str(errors.NotFound("It is not there.")) == "It is not there."


def test_a_name_that_is_no_text_is_shown_and_can_be_printed() -> None:
    error = errors.FailFile(Reason.CORRUPT, os.fsdecode(b"/notes/caf\xe9.md") + " is damaged.")
    assert error.message == "/notes/caf\\udce9.md is damaged."
    assert str(error).encode()
    assert error.args == (error.message,)


@pytest.mark.parametrize("kind", [errors.RetryLater, errors.SkipFile, errors.FailFile])
def test_a_verdict_carries_its_reason(kind: type[errors.RetryLater | errors.SkipFile | errors.FailFile]) -> None:
    assert kind(Reason.IO, "Broken.").reason is Reason.IO


def test_a_wrong_configuration_stops_the_engine() -> None:
    assert issubclass(errors.ConfigurationError, errors.StopEngine)


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Reason)
    assert all(sentence.endswith(".") for sentence in SENTENCES.values())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.FailFile(Reason.IO, "It is gone.", hint="Look."), "FailFile: It is gone. Look."),
        (PermissionError(13, "Permission denied", "/notes/a.md"), "[Errno 13] Permission denied: '/notes/a.md'"),
        (AttributeError("'NoneType' object has no attribute 'text'"), "'NoneType' object has no attribute 'text'"),
        (MemoryError(), "MemoryError"),
        (ValueError("invalid literal for int(): 'a line of the document'"), "ValueError"),
        (KeyError("a line of the document"), "KeyError"),
        (UnicodeEncodeError("ascii", "a line", 0, 1, "a line"), "UnicodeEncodeError"),
        (RuntimeError("a line of the document"), "RuntimeError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_log_is_told_of_an_error_quotes_no_document(error: BaseException, told: str) -> None:
    """A13: what others say of a surprise may be what they were reading."""
    assert errors.without_text(error).endswith(told)
    assert errors.without_text(error).startswith(type(error).__name__)
    assert "line" not in errors.without_text(error)
