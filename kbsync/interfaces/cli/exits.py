"""Exit codes, and how an error becomes one: a message on stderr, never a traceback for what was foreseen."""

from __future__ import annotations

import errno
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kbsync.errors import ConfigurationError, KbsyncError, NotFound, NotRunning, Unconfirmed, UsageError

DONE, FAILED, USAGE, NOTHING, UNREACHABLE, UNANSWERED, BAD_CONFIGURATION, INTERRUPTED = 0, 1, 2, 3, 4, 5, 78, 130

EPILOG = (
    "Exit codes: 0 done, 1 something failed, 2 wrong usage, 3 nothing found, or what was named is not known, "
    "4 the daemon is not running, 5 a question went unanswered or was answered no, 78 bad configuration, "
    "130 ended by Ctrl+C."
)

_CODES: tuple[tuple[type[KbsyncError], int], ...] = (
    (Unconfirmed, UNANSWERED),  # a UsageError too: the first one that fits counts
    (UsageError, USAGE),
    (NotFound, NOTHING),
    (NotRunning, UNREACHABLE),
    (ConfigurationError, BAD_CONFIGURATION),
)

# Joiners and the soft hyphen belong to ordinary text, though Python calls them unprintable.
_INVISIBLE = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}\N{SOFT HYPHEN}"


def code_of(error: KbsyncError) -> int:
    """Return the exit code that belongs to an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


@contextmanager
def errors_told() -> Iterator[None]:
    """Turn a foreseen error into its message and exit code."""
    try:
        yield
    except KbsyncError as error:
        complain(str(error))
        raise typer.Exit(code_of(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except typer.Abort as abort:  # a question was ended by Ctrl+C, or by the end of what could be read
        raise typer.Exit(INTERRUPTED if isinstance(abort.__context__, KeyboardInterrupt) else UNANSWERED) from None


def complain(message: str) -> None:
    """Print a message for people on stderr, on one line. Nobody there to read it is no reason to end."""
    try:
        print(f"kbsync: {one_line(message)}", file=sys.stderr)
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.EIO, errno.EBADF):
            # The reader, or the terminal, is gone for good. What is in the buffer would fail again at the end.
            sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def printable(text: str) -> str:
    """Return text without control characters: a file name or a document cannot steer the terminal."""
    return "".join(
        character if character in "\n\t" or _is_harmless(character) else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def one_line(text: str) -> str:
    """Return text that is printable and stays on its line: a file name cannot forge another line of an answer."""
    return printable(text.replace("\n", "\N{REPLACEMENT CHARACTER}"))


def _is_harmless(character: str) -> bool:
    # Wide and no-break spaces (Zs) are as ordinary.
    return character.isprintable() or unicodedata.category(character) == "Zs" or character in _INVISIBLE
