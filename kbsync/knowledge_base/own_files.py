"""Looks at the files that kbsync keeps beside its database: are they there, what they were, and wanted by anybody.

Reading them takes long and needs no transaction: what is found is looked up in the database once more before it counts.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kbsync.errors import KbsyncError, RetryLater
from kbsync.filesystem import RealFileSystem, as_text
from kbsync.knowledge_base import rebuilt
from kbsync.knowledge_base.damage import Damage, Problem
from kbsync.knowledge_base.integrity import problem_of
from kbsync.sources.snapshot import read_snapshot
from kbsync.store import documents, jobs, meta
from kbsync.store.connection import Connection
from kbsync.store.documents import StoredCopy
from kbsync.store.found import Found
from kbsync.store.full_text_copy import Pace
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers

# So many bytes are read again in a day, or what makes all of them within this many days.
_BYTES_A_TURN, _TURNS = 1 << 30, 30
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file to be read again: a document's stored copy, or a kept conversion."""

    content_hash: str
    path: str
    size: int
    copy: StoredCopy | None


class OwnFiles:
    """Asks about the folders of the data folder. Any thread may ask."""

    def __init__(self, readers: Readers, stored: StoredFiles, kept: KeptConversions) -> None:
        self._readers = readers
        self._stored = stored
        self._kept = kept
        # What the last check came by: (copies that hold other bytes, conversions that cannot be read).
        self.found_damaged: tuple[list[StoredCopy], list[str]] = ([], [])

    def check(self, pace: Pace, cursor: str | None) -> tuple[list[Problem], str | None]:
        """Return (what is wrong; where the next turn begins). `cursor`: read again only a turn's share; None: all.

        Raises what `pace` raises, which is called for every block that is read.
        """
        portion, following = self._turn(cursor)
        damaged, unreadable = self.found_damaged = self._damaged(portion, pace)
        found = {
            Damage.STORED_GONE: [told(copy) for copy in self.gone()],
            Damage.STORED_DAMAGED: [told(copy) for copy in damaged],
            Damage.STORED_UNCLAIMED: [as_text(path) for path in self.unclaimed()],
            Damage.STAGED_GONE: [job for _number, job in self.staged_gone()],
            Damage.STAGING: [as_text(path) for path in self.staging_left()],
            Damage.CONVERSIONS: [as_text(path) for path in unreadable],
        }
        problems = [problem_of(kind, Found(len(where), where[0])) for kind, where in found.items() if where]
        return [self._advised(problem) for problem in problems], following

    def advice(self) -> str:
        """Say what a person can do about documents whose stored copy is gone, and where what is left of it lies."""
        aside = self._stored.aside_of([copy.path for copy in self.gone()])
        kept = f" What is left of them lies in {as_text(os.path.dirname(aside[0]))}." if aside else ""
        return f"Add the file once more; or `kbsync documents remove` takes the document out.{kept}"

    def _advised(self, problem: Problem) -> Problem:
        if problem.kind != Damage.STORED_GONE:
            return problem
        anew = "Where the file is still there, `kbsync check --repair` takes the copy anew from it."
        return replace(problem, hint=f"{anew} {self.advice()}")

    def gone(self) -> list[StoredCopy]:
        """Return the documents whose stored copy is not there."""
        missing = [copy for copy in self._readers.read(documents.stored_copies) if not os.path.isfile(copy.path)]
        still = set(self._readers.read(documents.stored_copies)) if missing else set()
        return [copy for copy in missing if copy in still]

    def _damaged(self, portion: Sequence[_Kept], pace: Pace) -> tuple[list[StoredCopy], list[str]]:
        """Return (the documents whose stored copy holds other bytes, the conversions that cannot be read)."""
        damaged, unreadable = [], []
        for kept in portion:
            if kept.copy is None:
                if not _is_whole(kept.path, pace):
                    unreadable.append(kept.path)
            elif not is_right(kept.copy, pace):
                damaged.append(kept.copy)
        still = set(self._readers.read(documents.stored_copies)) if damaged else set()
        return [copy for copy in damaged if copy in still], [path for path in unreadable if os.path.exists(path)]

    def unclaimed(self) -> list[str]:
        """Return the stored copies of no document that no job is about to take in again."""
        # In this order: what is linked now is named by a commit before its staged twin goes.
        there = [path for path, links in self._stored.stored() if links == 1]
        if not there or self._readers.read(rebuilt.is_settling):
            return []

        def claimed(connection: Connection) -> set[str]:
            return documents.stored_paths(connection) | jobs.staged_names(connection)

        names = {os.path.basename(path) for path in self._readers.read(claimed)}
        return [path for path in there if os.path.basename(path) not in names]

    def staged_gone(self) -> list[tuple[int, str]]:
        """Return (job, what it was to read) of those that wait for a copy which is not there."""

        def waiting(connection: Connection) -> list[tuple[int, str, str | None]]:
            return jobs.waiting_for_copies(connection)

        missing = [job for job in self._readers.read(waiting) if job[2] is None or not os.path.exists(job[2])]
        still = set(self._readers.read(waiting)) if missing else set()
        return [(number, as_text(path) or "a note") for number, path, copy in missing if (number, path, copy) in still]

    def staging_left(self) -> list[str]:
        """Return the staged copies that neither a job nor anybody in this process needs."""
        in_hand = self._stored.in_hand()
        there = self._stored.staged()
        needed = {os.path.basename(path) for path in self._readers.read(jobs.staged_paths) | in_hand}
        return [path for path in there if os.path.basename(path) not in needed and os.path.exists(path)]

    def _turn(self, cursor: str | None) -> tuple[list[_Kept], str | None]:
        every = self._all()
        if cursor is None:
            return every, None
        budget = max(_BYTES_A_TURN, -(-sum(kept.size for kept in every) // _TURNS))
        portion: list[_Kept] = []
        for kept in every:
            if kept.content_hash <= cursor:
                continue
            if budget <= 0 and kept.content_hash != portion[-1].content_hash:
                return portion, portion[-1].content_hash
            portion.append(kept)
            budget -= kept.size
        return portion, ""

    def _all(self) -> list[_Kept]:
        copies = self._readers.read(documents.stored_copies)
        found = [_Kept(copy.content_hash, copy.path, copy.size, copy) for copy in copies if os.path.isfile(copy.path)]
        found += [_Kept(content_hash, path, size, None) for content_hash, path, size in self._kept.listed()]
        return sorted(found, key=lambda kept: (kept.content_hash, kept.path))


def told(copy: StoredCopy) -> str:
    """Return how a stored copy is told to people."""
    return f"document {copy.document_id}, {as_text(copy.path)}"


def is_right(copy: StoredCopy, pace: Pace) -> bool:
    """Return whether a stored copy holds what it should; one that went meanwhile, or cannot be read now, is not judged.

    Raises what `pace` raises.
    """
    ended: list[BaseException] = []

    def paced(_block: bytes) -> None:
        try:
            pace(0.0)
        except BaseException as error:
            ended.append(error)
            raise

    try:
        return read_snapshot(RealFileSystem(), copy.path, 0, paced).content_hash == copy.content_hash
    except (KbsyncError, RetryLater):
        if ended:
            raise
        return True


def _is_whole(path: str, pace: Pace) -> bool:
    reader = zlib.decompressobj()
    try:
        for block in _blocks(path):
            pace(0.0)
            while block and not reader.eof:
                reader.decompress(block, _BLOCK)
                block = reader.unconsumed_tail
    except zlib.error:
        return False
    except OSError:
        return True  # it went meanwhile, or the disk cannot be read now
    return reader.eof


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            yield block


def cursor_of(connection: Connection) -> str:
    """Return where the next turn of reading again begins."""
    return meta.get(connection, meta.STORED_SCRUB) or ""
