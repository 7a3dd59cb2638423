"""`kbsync add`: files, folders and notes by hand. What is added is copied, so that it stays when the file goes."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import KbsyncError, UsageError
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json
from kbsync.interfaces.cli.session import session_with_engine

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

    def skip(self, path: str, reason: str, message: str | None = None) -> None:
        self.skipped.append({"path": _shown(path), "reason": reason})
        if reason == "already_indexed":
            self._say(f"Skipped: {os.path.basename(path) or 'note'} (already indexed)")
        elif message:
            complain(message)

    def fail(self, path: str, error: str) -> None:
        self.failed.append({"path": _shown(path), "error": error})
        complain(f"Failed: {path}: {error}" if path else f"Failed: {error}")

    def take(self, job: Record, path: str) -> None:
        """Take in an ended job."""
        if job["state"] == "done":
            self.added.append({"path": _shown(path), "document_id": job["document_id"], "chunks": job["chunk_count"]})
            self._say(f"Added: {os.path.basename(path) or 'note'} ({job['chunk_count']} chunks)")
        elif job["state"] == "skipped":
            self.skip(path, job["reason"], job["error"])
        else:
            self.fail(path, job["error"])

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
        str | None, typer.Option("--type", help="Read the file as this type, whatever its ending.")
    ] = None,
    language: Annotated[str | None, typer.Option("--language", help="Of code: python, bash or go.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, help="Files at once, when no daemon runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add files, folders or a note to the index by hand. Files are copied; the originals may go."""
    with errors_told():
        if (note is None) == (not paths):
            raise UsageError("Give files or folders, or --note TEXT.", hint="`kbsync add --help` shows how.")
        outcome = Outcome(as_json)
        explicit_skip = False
        with session_with_engine(workers) as (operations, engine):
            if note is not None:
                job_id = int(operations.note(note, title)["job_id"])
                _finish(operations, engine, {job_id: ""}, outcome)
            else:
                explicit_skip = _add_paths(
                    operations, engine, paths or [], recursive, (title, document_type, language), outcome
                )
    if as_json:
        print_json(outcome.record())
    elif recursive or len(outcome.added) + len(outcome.skipped) + len(outcome.failed) != 1:
        line(outcome.summary)
    if outcome.failed or explicit_skip:
        raise typer.Exit(FAILED)


def _add_paths(
    operations: Remote | Operations,
    engine: Engine | None,
    paths: list[str],
    recursive: bool,
    options: tuple[str | None, str | None, str | None],
    outcome: Outcome,
) -> bool:
    """Add what the paths stand for; return whether a file that was named itself was left out."""
    explicit_skip = False
    for path in paths:
        absolute = os.path.abspath(path)
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
        named = files == [absolute]
        for start in range(0, len(files), _BATCH):
            answer = operations.add(files[start : start + _BATCH], *options)
            for skipped in answer["skipped"]:
                outcome.skip(skipped["path"], skipped["reason"], skipped["detail"] if named else None)
                explicit_skip = explicit_skip or named
            for failed in answer["failed"]:
                outcome.fail(failed["path"], failed["error"])
            _finish(operations, engine, {job["job_id"]: job["path"] for job in answer["jobs"]}, outcome)
    return explicit_skip


def _finish(operations: Remote | Operations, engine: Engine | None, pending: dict[int, str], outcome: Outcome) -> None:
    """Wait until the jobs have ended (or work them here) and take in what came of them."""
    if engine is not None and pending:
        _work(engine)
    while pending:
        for job in operations.jobs_by_id(list(pending))["jobs"]:
            if job["state"] not in ("queued", "processing"):
                outcome.take(job, pending.pop(job["id"]))
        if pending:
            time.sleep(_POLL_S)
            if engine is not None:
                _work(engine)  # a passing failure waits for its next attempt


def _work(engine: Engine) -> None:
    """Work what was added by hand, with as many workers as are set, until none may run now."""
    from kbsync.model import Priority

    def steps() -> None:
        worker = engine.worker(lambda _source_id: None, Priority.ADDED)
        while worker.step():
            pass

    if engine.settings.workers == 1:
        steps()
        return
    threads = [threading.Thread(target=steps, daemon=True) for _ in range(engine.settings.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
