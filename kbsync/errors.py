"""What can go wrong, told by class: the class is the decision, callers never read the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.reasons import Reason


class KbsyncError(Exception):
    """Anything kbsync raises on purpose. `hint` says what to do next, in one sentence."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        # A file name that is no UTF-8 may be part of it; what people and the database get is text.
        message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way from one process to another with reason and hint."""
        return _rebuilt, (type(self), self.__dict__)


def _rebuilt(kind: type[KbsyncError], fields: dict[str, object]) -> KbsyncError:
    error = kind.__new__(kind, fields["message"])
    error.__dict__.update(fields)
    return error


# What these say is about the program and the system; the messages of others may quote what was just read.
_ABOUT_US = (
    *(KbsyncError, OSError, ImportError, MemoryError, RecursionError),
    *(TypeError, AttributeError, NameError, ZeroDivisionError),
)


def without_text(error: BaseException) -> str:
    """Return an error as a log may tell it: its class, and its message where that cannot quote a document."""
    name, message = type(error).__name__, str(error) if isinstance(error, _ABOUT_US) else ""
    return f"{name}: {message}" if message else name


class RetryLater(KbsyncError):
    """The job may succeed later without anybody's doing: it waits and is tried again."""

    def __init__(self, reason: Reason, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Unready(RetryLater):
    """What every job needs is not there now, such as the model: the job waits for it; its attempt does not count."""


class StorageUnavailable(RetryLater):
    """kbsync's own disk or database cannot be used just now (full, read-only, locked): no file is to blame for it.

    Everything that wants to write waits; no attempt is counted, and work goes on by itself when it can.
    """


def disk_full(path: str) -> StorageUnavailable:
    """Return the error of a disk without room for what was to be written at a path of ours."""
    return StorageUnavailable(Reason.NO_SPACE, f"The disk that holds {path} is full.", hint="Free some space.")


def folder_gone(folder: str) -> StorageUnavailable:
    """Return the error of a folder of ours that somebody moved or removed, or whose disk is away."""
    return StorageUnavailable(
        Reason.IO, f"The folder {folder} is gone.", hint="Put it back where it was, or mount its disk again."
    )


class SkipFile(KbsyncError):
    """The file is not for the index. It is accounted for and left alone until it or the rules change."""

    def __init__(self, reason: Reason, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class FailFile(KbsyncError):
    """This file cannot be indexed as it is. Its job ends; everything else goes on."""

    def __init__(self, reason: Reason, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class FileGone(KbsyncError):
    """The file is not there any more: the job ends without a verdict, the next scan decides."""


class FileChanged(KbsyncError):
    """The file changed while it was read: the job goes back to the queue and waits until it is quiet.

    `wait_s`: how many seconds it should be left alone; None: a moment.
    """

    def __init__(self, message: str, *, hint: str = "", wait_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.wait_s = wait_s


class IndexDamaged(RetryLater):
    """The full-text index is damaged, the database is not: it is made anew from the text, by the daemon at once.

    What is written waits for that; search goes on without words.
    """


class StopEngine(KbsyncError):
    """Going on would do harm: the process ends with a clear message, data untouched."""


class DatabaseDamaged(StopEngine):
    """The database file itself is damaged: the next start sets it aside and builds the index anew."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a configuration. `line` and `column` count from 1, `variable` beats the file.

    `setting` is empty where the file is no TOML.
    """

    setting: str
    message: str
    line: int | None = None
    column: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column}"
        place = f"variable {self.variable}" if self.variable else f"line {self.line}{column}" if self.line else ""
        return ": ".join(filter(None, (place, self.setting, self.message)))


class ConfigurationError(StopEngine):
    """The configuration cannot be used (exit code 78 of `kbsync run`). `mistakes`: each by itself, where known."""

    def __init__(self, message: str, *, hint: str = "", mistakes: Sequence[Mistake] = ()) -> None:
        super().__init__(message, hint=hint)
        self.mistakes = tuple(mistakes)


class UsageError(KbsyncError):
    """The request itself is wrong (exit code 2, HTTP 400)."""


class Unconfirmed(UsageError):
    """Nothing was done: the request needs a person's yes, which it did not carry (exit code 5, HTTP 409)."""


class NotFound(KbsyncError):
    """What was asked for is not there (exit code 3, HTTP 404)."""


class NotRunning(KbsyncError):
    """The daemon is not running or cannot be reached (exit code 4)."""


class EngineBusy(KbsyncError):
    """Another process works on this data folder (exit code 1)."""


class ServiceFailed(KbsyncError):
    """The system's own service manager refused, or there is none for this user (exit code 1)."""
