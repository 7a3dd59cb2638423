"""`kbsync add`: files, folders and notes by hand. What is added is copied, so that it stays when the file goes."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from kbsync.errors import KbsyncError, UsageError
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, print_json
from kbsync.interfaces.cli.session import session_with_engine
from kbsync.interfaces.values import (
    FILE_TYPES,
    LANGUAGES,
    known_file_type,
    known_language,
    known_ocr,
    listed,
)

if TYPE_CHECKING:
    from kbsync.compose import Engine
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations

# Files staged in one request; their jobs run while the next are staged.
_BATCH = 50
_POLL_S = 0.1


class Outcome:
    """What came of the files so far; printed as it comes unless JSON is wanted."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.added: list[Record] = []
        self.skipped: list[Record] = []
        self.failed: list[Record] = []
        # What was named itself and is left out all the same: each is told, and the command ends with 1.
        self.refused = False
        self._left_out: Counter[str] = Counter()

    def skip(self, path: str, reason: str, message: str | None = None, *, named: bool = False) -> None:
        """Take in a file that is left out: one that was `named` is told with the message, others are counted."""
        self.skipped.append({"path": _shown(path), "reason": reason})
        if reason == "already_indexed":
            self._say(f"Skipped: {os.path.basename(path) or 'note'} (already indexed)")
        elif named:
            self.refused = True
            name = os.path.basename(path)
            complain(f"{path}: {message}" if name not in (message or "") else str(message))
        else:
            self._left_out[reason] += 1

    def fail(self, path: str, error: str) -> None:
        """Take in a file that could not be read; an error that names it stands by itself."""
        self.failed.append({"path": _shown(path), "error": error})
        complain(f"Failed: {path}: {error}" if path and path not in error else f"Failed: {error}")

    def absent(self, path: str) -> None:
        """Take in a name that nothing has."""
        error = f"There is no file {path}."
        self.failed.append({"path": _shown(path), "error": error})
        complain(error)

    def take(self, job: Record, path: str, *, named: bool) -> None:
        """Take in an ended job."""
        if job["state"] == "done":
            self.added.append({"path": _shown(path), "document_id": job["document_id"], "chunks": job["chunk_count"]})
            self._say(f"Added: {os.path.basename(path) or 'note'} ({counted(job['chunk_count'], 'chunk')})")
        elif job["state"] == "skipped":
            self.skip(path, job["reason"], job["error"], named=named)
        else:
            self.fail(path, job["error"])

    def tell_left_out(self) -> None:
        """Say how many files of folders were left out, and why."""
        if self._left_out:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self._left_out.most_common())
            complain(f"{self._left_out.total()} left out ({reasons}).")

    @property
    def summary(self) -> str:
        known = sum(1 for skipped in self.skipped if skipped["reason"] == "already_indexed")
        return f"Added {len(self.added)} documents. {len(self.failed)} failed. {known} skipped (already indexed)."

    def record(self) -> Record:
        return {"added": self.added, "skipped": self.skipped, "failed": self.failed, "summary": self.summary}

    def _say(self, text: str) -> None:
        if not self._quiet:
            line(text)


def add(
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH...", help="Files or folders.")] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Take in what folders hold.")] = False,
    note: Annotated[str | None, typer.Option("--note", help="Add this text as a note.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the note or file.")] = None,
    document_type: Annotated[
        str | None,
        typer.Option("--type", help=f"Read the file as this type, whatever its ending: {listed(FILE_TYPES)}."),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help=f"Read the file as code in this language: {listed(LANGUAGES)}.")
    ] = None,
    ocr: Annotated[
        str | None,
        typer.Option("--ocr", help="Read text in pictures: auto (where a page has no other), always, never."),
    ] = None,
    password_file: Annotated[
        str | None, typer.Option("--password-file", help="A file with the passwords of protected PDFs, one a line.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, help="Files at once, when no daemon runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add files, folders or a note to the index by hand. Files are copied; the originals may go."""
    with errors_told():
        if note is not None and paths:
            raise UsageError("Give files or folders, or --note TEXT, not both.", hint="`kbsync add --help` shows how.")
        if note is None and not paths:
            raise UsageError("Give files or folders, or --note TEXT.", hint="`kbsync add --help` shows how.")
        known_file_type(document_type)
        known_language(language)
        known_ocr(ocr)
        if password_file is not None:
            password_file = _readable(password_file)
        outcome = Outcome(as_json)
        with session_with_engine(workers) as (operations, engine):
            if note is not None:
                job_id = int(operations.note(note, title)["job_id"])
                _finish(operations, engine, {job_id: ""}, outcome, named=True)
            else:
                options = title, document_type, language, ocr, password_file
                _add_paths(operations, engine, paths or [], recursive, options, outcome)
    if as_json:
        print_json(outcome.record())
    else:
        outcome.tell_left_out()
        if recursive or len(outcome.added) + len(outcome.skipped) + len(outcome.failed) != 1:
            line(outcome.summary)
    if outcome.failed or outcome.refused:
        raise typer.Exit(FAILED)


def _add_paths(
    operations: Remote | Operations,
    engine: Engine | None,
    paths: list[str],
    recursive: bool,
    options: tuple[str | None, str | None, str | None, str | None, str | None],
    outcome: Outcome,
) -> None:
    """Add what the paths stand for."""
    for path in paths:
        absolute = os.path.abspath(path)
        if _is_absent(absolute):
            outcome.absent(path)
            continue
        try:
            found = operations.expand(absolute, recursive=recursive)
        except UsageError:
            raise
        except KbsyncError as error:
            outcome.fail(path, str(error))
            continue
        for skipped in found["skipped"]:
            outcome.skip(skipped["path"], skipped["reason"])
        for failed in found["failed"]:
            outcome.fail(failed["path"], failed["error"])
        files = found["files"]
        named = not os.path.isdir(absolute) or os.path.islink(absolute)
        for start in range(0, len(files), _BATCH):
            answer = operations.add(files[start : start + _BATCH], *options)
            for skipped in answer["skipped"]:
                outcome.skip(skipped["path"], skipped["reason"], skipped["detail"], named=named)
            for failed in answer["failed"]:
                outcome.fail(failed["path"], failed["error"])
            _finish(operations, engine, {job["job_id"]: job["path"] for job in answer["jobs"]}, outcome, named=named)


def _finish(
    operations: Remote | Operations, engine: Engine | None, pending: dict[int, str], outcome: Outcome, *, named: bool
) -> None:
    """Wait until the jobs have ended (or work them here) and take in what came of them."""
    if engine is not None and pending:
        _work(engine)
    while pending:
        for job in operations.jobs_by_id(list(pending))["jobs"]:
            if job["state"] not in ("queued", "processing"):
                outcome.take(job, pending.pop(job["id"]), named=named)
        if pending:
            time.sleep(_POLL_S)
            if engine is not None:
                _work(engine)  # a passing failure waits for its next attempt


def _work(engine: Engine) -> None:
    """Work what was added by hand, with as many workers as are set, until none may run now."""
    from kbsync.model import Lane, Priority

    def steps() -> None:
        text, document = (engine.worker(lambda _source_id: None, lane, Priority.ADDED) for lane in get_args(Lane))
        while text.step() or document.step():
            pass

    if engine.settings.workers == 1:
        steps()
        return
    threads = [threading.Thread(target=steps, daemon=True) for _ in range(engine.settings.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _is_absent(path: str) -> bool:
    """Say whether nothing has this name. What cannot be looked at is not absent: the look by the engine says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _readable(path: str) -> str:
    """Return the password file's absolute path: the daemon works in another folder. Raises UsageError."""
    absolute = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(absolute) or not os.access(absolute, os.R_OK):
        raise UsageError(f"The password file {path} is not there or cannot be read.")
    return absolute


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
