"""Logging by structlog: JSON lines into a rotating file, readable lines on a terminal; and the log of failed files.

An event is a constant name with fields out of `FIELDS`. No text of a document goes in: of an error that is not ours
only the class and where it happened are told, for its message may quote what was being read.
"""

from __future__ import annotations

import errno
import json
import logging
import logging.handlers
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import structlog

from kbsync.errors import without_text
from kbsync.filesystem import is_at

_MEGABYTE = 1 << 20
# Kept: this file and four before it.
_LOG_BYTES, _LOG_FILES = 5 * _MEGABYTE, 4

# Every field that an event may have beside `event`, `level`, `logger`, `timestamp` and `exception`; one thing has one
# name everywhere. tests/test_log.py reads every call in the program.
FIELDS = {
    "aside": "the name or path under which something damaged is kept",
    "bytes": "how many bytes the event is about",
    "characters": "how long a text is",
    "count": "how many of what the event names",
    "counts": "several such numbers by name",
    "detail": "a sentence for people",
    "device": "what a model runs on",
    "document_id": "the row of a document",
    "done": "what was done about a problem",
    "error": "what went wrong, in a sentence with the remedy",
    "first": "the first of `count`: a path, or a row such as `document 3`",
    "free_bytes": "the room on the disk",
    "hint": "what a person can do",
    "is_at_hand": "whether a model is on this machine",
    "is_whole": "whether all of it could be done",
    "kind": "which problem, out of the list of `kbsync check`",
    "live_model": "the model whose vectors are searched",
    "loop": "the thread",
    "model": "the configured model",
    "needed_bytes": "the room that something takes",
    "path": "the file or folder",
    "reason": "why a path or source is in its state: one of `kbsync.reasons.Reason`",
    "repaired": "whether a problem is gone",
    "seconds": "how long it took or lasted",
    "size_bytes": "how large the database is",
    "source_id": "the row of a source",
    "state": "the state of a path or source",
    "watch_event": "what the system told of a folder: its kind and paths",
    "why": "what led to it, a few constant words",
}


# The program's log, once it is configured.
_written: _PrivateRotatingFile | None = None


def problem() -> str | None:
    """Return why the log cannot be written now, None where it can: nothing else is the worse for it."""
    failed = None if _written is None else _written.failed
    return None if failed is None else f"The log {failed} Everything else goes on."


def configure(log_file: str, level: str, *, terminal: bool) -> None:
    """Send the program's log records to the file and, from warnings on, to stderr if asked; what libraries log too.

    `level` is a setting's; of libraries warnings are heard, also those that Python's `warnings` shows.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_frames),
        structlog.processors.UnicodeDecoder(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    global _written
    _written = _file_handler(log_file, shared)
    handlers: list[logging.Handler] = [_written]
    if terminal:
        handlers.append(_terminal_handler(shared))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    set_level(level)


def set_level(level: str) -> None:
    """Have the program's own records be written from this level on: debug, info, warning or error."""
    logging.getLogger("kbsync").setLevel(level.upper())


def rotate() -> bool:
    """Begin a new file, and drop the oldest; return whether there was anything to put away. Any thread may.

    It happens by itself at 5 MB. Never raises: what does not work is `problem`.
    """
    return _written is not None and _written.put_away()


def tell_the_end() -> None:
    """Have what ends this process unforeseen be logged like any other surprise, in place of Python's own account.

    That one goes to a journal with the error's message, which may quote a document.
    """

    def told(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, frames)
        else:
            structlog.stdlib.get_logger(__name__).critical("ended_unforeseen", exc_info=(kind, error, frames))

    sys.excepthook = told


def _frames(exc_info: structlog.typing.ExcInfo) -> str:
    """Return an error with its causes as Python shows them, without the messages that may quote a document."""
    return "".join(_told(exc_info[1], exc_info[2], set())).rstrip("\n")


def _told(error: BaseException, frames: TracebackType | None, told: set[int]) -> Iterator[str]:
    told.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in told:
        yield from _told(before, before.__traceback__, told)
        yield "which led to:\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(frames)
    yield f"{_visible(without_text(error))}\n"


def _escaped(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make every value one line that steers no terminal: a file name cannot forge a record."""
    shown: dict[str, Any] = {}
    for name, value in event.items():
        if name == "exception":
            shown[name] = "\n".join(map(_visible, str(value).split("\n")))
        else:
            shown[name] = _visible(value) if isinstance(value, str) else value
    return shown


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _file_handler(log_file: str, shared: list[structlog.typing.Processor]) -> _PrivateRotatingFile:
    handler = _PrivateRotatingFile(log_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8", delay=True)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_dump),
            ],
        )
    )
    return handler


def _terminal_handler(shared: list[structlog.typing.Processor]) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _escaped,
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(), pad_event_to=30, exception_formatter=structlog.dev.plain_traceback
                ),
            ],
        )
    )
    handler.setLevel(logging.WARNING)
    return handler


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner reads, and that is never the reason for a crash (full disk, lost folder)."""

    # Why the last record could not be written, None where it was.
    failed: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. A file that was removed, or moved away, is made anew: nobody would find what goes into it."""
        self.failed = None
        stream = self.stream
        if stream is not None and not is_at(stream.fileno(), self.baseFilename):
            self.stream = None  # as the base class does it: opened anew when it writes
            try:
                stream.close()
            except OSError:
                pass  # what was left to write has no room
        super().emit(record)

    def _open(self):  # type: ignore[no-untyped-def]  # the base class returns a private stream type
        os.makedirs(os.path.dirname(self.baseFilename), mode=0o700, exist_ok=True)
        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=_open_private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        """Drop the record: a log that cannot be written must not stop the work."""
        error = sys.exc_info()[1]
        why, cure = str(error), "Make its folder writable again."
        if isinstance(error, OSError):
            why = error.strerror or why
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                cure = "Free some space."
        self.failed = f"{self.baseFilename} cannot be written: {why}. {cure}"

    def put_away(self) -> bool:
        """Begin a new file, the one before is kept; return whether there was anything in it."""
        self.acquire()
        try:
            if os.path.getsize(self.baseFilename) == 0:
                return False
            self.doRollover()
        except FileNotFoundError:
            return False
        except OSError:
            self.handleError(logging.makeLogRecord({}))
            return False
        finally:
            self.release()
        return True

    def close(self) -> None:
        try:
            super().close()
        except OSError:
            pass  # what was left to write has no room; the file is closed nevertheless


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # one that an older program made for everybody
    except OSError:
        pass  # another's file, such as a device: as private as they made it
    return descriptor


def _dump(value: object, **options: object) -> str:
    return json.dumps(value, ensure_ascii=True, default=repr)


class ErrorLog:
    """The log of files that failed: one escaped JSON line a failure, rotated at 5 MB. Any thread may record."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._handler = _PrivateRotatingFile(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def record(self, path: str, error: str, at: float) -> None:
        """Add a line with the file's path and the error message; `at` is wall time in seconds."""
        line = json.dumps({"at": datetime.fromtimestamp(at, UTC).isoformat(), "path": path, "error": error})
        with self._lock:
            self._handler.emit(logging.makeLogRecord({"msg": "%s", "args": (line,)}))

    def rotate(self) -> bool:
        """Begin a new file, the one before is kept; return whether there was anything in it. Never raises."""
        with self._lock:
            return self._handler.put_away()

    def close(self) -> None:
        self._handler.close()
