"""What came of the files of one `kbsync add`: told as it comes, counted for the summary, recorded for JSON."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kbsync.interfaces.cli.exits import complain
from kbsync.interfaces.cli.output import Record, counted, line, size

# What is said of an added file that cannot be found, or not all of it.
_SHORTCOMINGS = {"no_text": "no text in it to search", "truncated": "{}; only its first part is searchable"}


class Outcome:
    """The files so far. `quiet`: JSON is wanted, so only what went wrong is told. One thread uses it.

    `aside` surrounds each line, so that a progress bar can step back; `brief` leaves out the lines of what was added.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext
        self.brief = False
        self.added: list[Record] = []
        self.skipped: list[Record] = []
        self.failed: list[Record] = []
        self.queued: list[Record] = []
        self.wanted: list[Record] = []
        # What was named itself and is left out all the same: each is told, and the command ends with 1.
        self.refused = False
        self._left_out: Counter[str] = Counter()

    def skip(self, path: str, reason: str, message: str | None = None, *, named: bool = False) -> None:
        """Take in a file that is left out: one that was `named` is told with the message, others are counted."""
        self.skipped.append({"path": _shown(path), "reason": reason})
        if reason == "already_indexed":
            self._say(f"Skipped: {_name(path)} (already indexed)")
        elif named:
            self.refused = True
            name = os.path.basename(path)
            self._complain(f"{path}: {message}" if name not in (message or "") else str(message))
        else:
            self._left_out[reason] += 1

    def fail(self, path: str, error: str) -> None:
        """Take in a file that could not be read; an error that names it stands by itself."""
        self.failed.append({"path": _shown(path), "error": error})
        self._complain(f"Failed: {path}: {error}" if path and path not in error else f"Failed: {error}")

    def absent(self, path: str) -> None:
        """Take in a name that nothing has."""
        error = f"There is no file {path}."
        self.failed.append({"path": _shown(path), "error": error})
        self._complain(error)

    def take(self, job: Record, path: str, *, named: bool) -> None:
        """Take in an ended job."""
        if job["state"] == "done":
            self.added.append({"path": _shown(path), "document_id": job["document_id"], "chunks": job["chunk_count"]})
            if not self.brief or job["reason"] is not None:
                found = counted(job["chunk_count"], "chunk")
                self._say(f"Added: {_name(path)} ({_SHORTCOMINGS.get(job['reason'], '{}').format(found)})")
        elif job["state"] == "skipped":
            self.skip(path, job["reason"], job["error"], named=named)
        else:
            self.fail(path, job["error"])

    def queue(self, path: str, job_id: int) -> None:
        """Take in a file whose job is not waited for."""
        self.queued.append({"path": _shown(path), "job_id": job_id})
        self._say(f"Queued: {_name(path)} (job {job_id})")

    def want(self, path: str, document_type: str, size_bytes: int) -> None:
        """Take in a file that would be added."""
        self.wanted.append({"path": _shown(path), "type": document_type, "size_bytes": size_bytes})
        self._say(f"Would add: {path or 'note'} ({document_type}, {size(size_bytes)})")

    def tell_left_out(self) -> None:
        """Say how many files of folders were left out, and why."""
        if self._left_out:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self._left_out.most_common())
            self._complain(f"{self._left_out.total()} left out ({reasons}).")

    @property
    def told(self) -> int:
        """How many files it knows the end of."""
        return len(self.added) + len(self.skipped) + len(self.failed) + len(self.queued) + len(self.wanted)

    def summary(self, verb: str = "Added", files: list[Record] | None = None) -> str:
        """Return the line that ends a batch; `verb` and `files` where nothing was to be added yet."""
        known = sum(1 for skipped in self.skipped if skipped["reason"] == "already_indexed")
        count = len(self.added if files is None else files)
        # This sentence is a contract that scripts read: one is "1 documents" too.
        return f"{verb} {count} documents. {len(self.failed)} failed. {known} skipped (already indexed)."

    def record(self) -> Record:
        """Return the lists of `add --json`, without the summary."""
        return {"added": self.added, "skipped": self.skipped, "failed": self.failed}

    def _say(self, text: str) -> None:
        if not self._quiet:
            with self.aside():
                line(text)
                sys.stdout.flush()  # who pipes the lines wants them while the next file is read

    def _complain(self, text: str) -> None:
        with self.aside():
            complain(text)


def _name(path: str) -> str:
    return os.path.basename(path) or "note"


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
