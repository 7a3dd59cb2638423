"""Logging by structlog: JSON lines into a rotating file, readable lines on a terminal; and the log of failed files."""

from __future__ import annotations

import errno
import json
import logging
import logging.handlers
import os
import sys
import threading
from datetime import UTC, datetime

import structlog

from kbsync.filesystem import is_at

_MEGABYTE = 1 << 20
# Kept: this file and four before it.
_LOG_BYTES, _LOG_FILES = 5 * _MEGABYTE, 4


# The program's log, once it is configured.
_written: _PrivateRotatingFile | None = None


def problem() -> str | None:
    """Return why the log cannot be written now, None where it can: nothing else is the worse for it."""
    failed = None if _written is None else _written.failed
    return None if failed is None else f"The log {failed} Everything else goes on."


def configure(log_file: str, level: str, *, terminal: bool) -> None:
    """Send the program's log records (and warnings of libraries) to the file and, if asked, to stderr."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
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
    logging.getLogger("kbsync").setLevel(level.upper())


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
                structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=30),
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

    def close(self) -> None:
        self._handler.close()
