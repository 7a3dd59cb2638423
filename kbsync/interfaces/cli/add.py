"""`kbsync add`: files, folders and notes by hand. What is added is copied, so that it stays when the file goes."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import KbsyncError, UsageError
from kbsync.interfaces.cli.batch import Batch, Choices
from kbsync.interfaces.cli.exits import FAILED, INTERRUPTED, complain, errors_told
from kbsync.interfaces.cli.local_work import LocalWorkers
from kbsync.interfaces.cli.outcome import Outcome
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
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations


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
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=64, help="Files at once, at most.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be added, and add nothing.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Queue the files and end; the daemon reads them, now or when it runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add files, folders or a note to the index by hand. Files are copied; the originals may go."""
    with errors_told():
        if note is not None and paths:
            raise UsageError("Give files or folders, or --note TEXT, not both.", hint="`kbsync add --help` shows how.")
        if note is None and not paths:
            raise UsageError("Give files or folders, or --note TEXT.", hint="`kbsync add --help` shows how.")
        if dry_run and (no_wait or note is not None):
            raise UsageError("--dry-run says what files would be added; it goes neither with --no-wait nor --note.")
        if title is not None and paths and (recursive or len(paths) > 1):
            raise UsageError("A title is for one file; these may be several.", hint="Add that file by itself.")
        known_file_type(document_type)
        known_language(language)
        known_ocr(ocr)
        if password_file is not None:
            password_file = _readable(password_file)
        outcome = Outcome(as_json)
        choices = Choices(title, document_type, language, ocr, password_file)
        interrupted = False
        with ExitStack() as stack:
            operations, engine = stack.enter_context(session_with_engine(workers))
            local = None if engine is None else LocalWorkers(engine)
            progress = None
            if sys.stderr.isatty() and not dry_run and not no_wait:
                from kbsync.interfaces.cli.batch_progress import BatchProgress

                progress = BatchProgress()
                stack.callback(progress.close)
                outcome.aside = progress.aside
            batch = Batch(
                operations,
                outcome,
                choices,
                at_once=workers if engine is None else None,
                progress=progress,
                check=(lambda: None) if local is None else local.check,
            )
            try:
                if note is not None:
                    batch.take_job(int(operations.note(note, title)["job_id"]), "")
                else:
                    _take_paths(operations, batch, outcome, paths or [], recursive=recursive, dry_run=dry_run)
                outcome.brief = progress is not None and sys.stdout.isatty() and batch.total > 1
                if dry_run:
                    batch.look()
                elif no_wait:
                    batch.queue()
                else:
                    if local is not None and batch.total:
                        stack.callback(local.stop)
                        local.start()
                    batch.run()
                    no_wait = batch.held_up is not None
            except KeyboardInterrupt:
                interrupted = True
                if progress is not None:
                    progress.close()
                complain(_stopped(batch, dry_run=dry_run, daemon=engine is None))
        _report(outcome, as_json, recursive=recursive, dry_run=dry_run, no_wait=no_wait, interrupted=interrupted)
        if batch.held_up is not None:
            from kbsync.interfaces.notices import of_model

            complain(of_model(batch.held_up))
        elif outcome.queued and engine is not None:
            complain(
                f"{counted(len(outcome.queued), 'job')} waiting; `kbsync run` or the next `kbsync add` works them."
            )
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if outcome.failed or outcome.refused or batch.held_up is not None:
        raise typer.Exit(FAILED)


def _take_paths(
    operations: Remote | Operations,
    batch: Batch,
    outcome: Outcome,
    paths: list[str],
    *,
    recursive: bool,
    dry_run: bool,
) -> None:
    """Hand over what the paths stand for."""
    for path in paths:
        absolute = os.path.abspath(path)
        try:
            found = operations.expand(absolute, recursive=recursive, dry_run=dry_run)
        except UsageError:
            raise
        except KbsyncError as error:
            if _is_absent(absolute):
                outcome.absent(path)
            else:
                outcome.fail(path, str(error))
            continue
        for skipped in found["skipped"]:
            outcome.skip(skipped["path"], skipped["reason"])
        for failed in found["failed"]:
            outcome.fail(failed["path"], failed["error"])
        batch.take(found["files"], named=not os.path.isdir(absolute) or os.path.islink(absolute))


def _report(
    outcome: Outcome, as_json: bool, *, recursive: bool, dry_run: bool, no_wait: bool, interrupted: bool
) -> None:
    summary = outcome.summary()
    more: Record = {}
    if dry_run:
        summary, more = outcome.summary("Would add", outcome.wanted), {"wanted": outcome.wanted}
    elif no_wait:
        summary, more = outcome.summary("Queued", outcome.queued), {"queued": outcome.queued}
    if interrupted:
        more["interrupted"] = True
    if as_json:
        print_json({**outcome.record(), "summary": summary, **more})
        return
    outcome.tell_left_out()
    if recursive or interrupted or outcome.told != 1:
        line(summary)


def _stopped(batch: Batch, *, dry_run: bool, daemon: bool) -> str:
    """Return what Ctrl+C leaves behind, and how to go on."""
    if dry_run:
        return "Stopped; nothing was added."
    parts = [f"Stopped after {batch.done} of {counted(batch.total, 'file')}."]
    if batch.queued:
        waiting = counted(batch.queued, "more is queued", "more are queued")
        parts.append(f"{waiting}: {'the daemon reads them' if daemon else '`kbsync run` reads them too'}.")
    parts.append("Give the same command again to go on; what is indexed by then is skipped.")
    return " ".join(parts)


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
