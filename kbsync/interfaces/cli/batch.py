"""The files of one `kbsync add` on their way: staged a few at a time, their jobs waited for, their ends told."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync.interfaces.cli.outcome import Outcome

if TYPE_CHECKING:
    from kbsync.interfaces.cli.batch_progress import BatchProgress
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations

# Files staged in one request: each costs a copy, and the bar stands still meanwhile.
_STAGED = 10
# Jobs that wait or run at the same time, unless the user wants fewer, and the bytes of their copies on the disk.
_AT_ONCE, _BYTES_AT_ONCE = 100, 1 << 30
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Choices:
    """What was set by hand for all files of the command."""

    title: str | None = None
    document_type: str | None = None
    language: str | None = None
    ocr: str | None = None
    password_file: str | None = None


class Batch:
    """Adds files through `operations`. `check` raises what ended the work.

    `at_once` of them are in the queue at most, and `bytes_at_once`, except for a single larger one.
    """

    def __init__(
        self,
        operations: Remote | Operations,
        outcome: Outcome,
        choices: Choices,
        *,
        at_once: int | None = None,
        bytes_at_once: int = _BYTES_AT_ONCE,
        progress: BatchProgress | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._operations = operations
        self._outcome = outcome
        self._choices = choices
        self._at_once = min(at_once or _AT_ONCE, _AT_ONCE)
        self._bytes_at_once = bytes_at_once
        self._progress = progress
        self._check = check
        # Path -> whether it was named itself, no path twice.
        self._named: dict[str, bool] = {}
        self._waiting: deque[str] = deque()
        self._pending: dict[int, str] = {}
        self._sizes: dict[str, int] = {}
        self._ended = 0
        self._pages = 0
        # Why the engine works no job now: then nobody waits for what is queued.
        self.held_up: str | None = None

    @property
    def total(self) -> int:
        """How many files were taken."""
        return len(self._named)

    @property
    def done(self) -> int:
        """How many of them have ended."""
        return self._ended

    @property
    def queued(self) -> int:
        """How many jobs wait or run."""
        return len(self._pending)

    def take(self, files: Iterable[str], *, named: bool) -> None:
        """Take files that are to be added; one that was taken before is not taken twice."""
        for path in files:
            if path not in self._named:
                self._waiting.append(path)
            self._named[path] = named or self._named.get(path, False)

    def take_job(self, job_id: int, path: str) -> None:
        """Take a job that is queued already."""
        self._named[path] = True
        self._pending[job_id] = path

    def run(self) -> None:
        """Add all files and wait until their jobs have ended, or until it is known that they will not for now."""
        while self._waiting or self._pending:
            self._check()
            if self.held_up is not None:
                self.queue()
                return
            held = sum(self._sizes.get(path, 0) for path in self._pending.values())
            self._stage(self._at_once - len(self._pending), self._bytes_at_once - held)
            if not self._collect() and self._pending:
                time.sleep(_POLL_S)

    def queue(self) -> None:
        """Stage and queue all files, however many, without waiting for any."""
        while self._waiting:
            self._stage(_STAGED)
        for job_id, path in self._pending.items():
            self._outcome.queue(path, job_id)

    def look(self) -> None:
        """Say what would be added; nothing is staged."""
        while files := self._next(_STAGED):
            choices = self._choices
            answer = self._operations.look_at(
                files, choices.title, choices.document_type, choices.language, choices.ocr
            )
            for wanted in answer["wanted"]:
                self._outcome.want(wanted["path"], wanted["type"], wanted["size_bytes"])
            self._left_out(answer)

    def _next(self, room: int, bytes_room: float = math.inf) -> list[str]:
        files: list[str] = []
        while self._waiting and len(files) < min(room, _STAGED):
            size = _size_of(self._waiting[0])
            if size > bytes_room and (files or self._pending):
                break
            bytes_room -= size
            files.append(self._waiting.popleft())
            self._sizes[files[-1]] = size
        return files

    def _stage(self, room: int, bytes_room: float = math.inf) -> None:
        files = self._next(room, bytes_room)
        if not files:
            return
        choices = self._choices
        answer = self._operations.add(
            files, choices.title, choices.document_type, choices.language, choices.ocr, choices.password_file
        )
        self._left_out(answer)
        self._pending.update({job["job_id"]: job["path"] for job in answer["jobs"]})

    def _left_out(self, answer: dict[str, Sequence[dict[str, str]]]) -> None:
        for skipped in answer["skipped"]:
            path = skipped["path"]
            self._outcome.skip(path, skipped["reason"], skipped["detail"], named=self._named.get(path, False))
        for failed in answer["failed"]:
            self._outcome.fail(failed["path"], failed["error"])
        self._ended += len(answer["skipped"]) + len(answer["failed"])

    def _collect(self) -> int:
        """Take in the jobs that have ended since; return how many."""
        if not self._pending:
            return 0
        answer = self._operations.jobs_by_id(list(self._pending))
        jobs = {job["id"]: job for job in answer["jobs"]}
        ended = 0
        current = None
        for job_id, path in list(self._pending.items()):
            job = jobs.get(job_id)
            if job is not None and job["state"] in ("queued", "processing"):
                if job["state"] == "processing":
                    current = current or path
                continue
            del self._pending[job_id]
            ended += 1
            self._ended += 1
            if job is None:
                self._outcome.fail(path, "Its job is not known any more; add it again.")
                continue
            self._pages += job["page_count"] or 0
            self._outcome.take(job, path, named=self._named[path])
        # A job that still runs has begun before, and may end well.
        self.held_up = None if current is not None else answer["held_up"]
        if self._progress is not None:
            self._progress.show(self._ended, self.total, self._pages, current)
        return ended


def _size_of(path: str) -> int:
    """Return a file's bytes; what cannot be looked at takes no room: the engine says why."""
    try:
        return os.lstat(path).st_size
    except (OSError, ValueError):
        return 0
