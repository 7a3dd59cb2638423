"""Checks a knowledge base and has it repaired, by hand or in its time; `meta` keeps what came of it for `status`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

import structlog

from kbsync.clock import Clock
from kbsync.errors import DatabaseDamaged, IndexDamaged, RetryLater, StorageUnavailable
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import integrity, own_files, repair_rows
from kbsync.knowledge_base.damage import SENTENCES, Damage, Problem
from kbsync.knowledge_base.own_files import OwnFiles
from kbsync.knowledge_base.repair import Outcome, Repair
from kbsync.reasons import Reason
from kbsync.store import damage, events, meta
from kbsync.store.connection import Connection
from kbsync.store.full_text_copy import Pace
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")

# Damage hides behind damage: what a missing table is missing shows when it is there again.
_ROUNDS = 4
_CORRUPT_HINT = (
    "`kbsync run` sets the damaged file aside, keeps what can be read of it and builds the index anew from your "
    "folders."
)


class Checkup:
    """Any thread may ask; one check or repair runs at a time. `stopping` says that the process is to end.

    `mended`: what was mended already while the database was opened; the next check tells of it.
    """

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        files: OwnFiles,
        repair: Repair,
        mended: Sequence[Problem],
        stopping: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._files = files
        self._repair = repair
        self._untold = list(mended)
        self._stopping = stopping
        self._one = threading.Lock()

    def check(self) -> list[Problem]:
        """Return all that is wrong, [] for a whole knowledge base; others read and write meanwhile.

        All files that kbsync keeps are read again. Raises RetryLater.
        """
        with self._one:
            problems, _ = self._found(self._unpaced, None)
            return self._record(problems, None)

    def repair(self) -> list[Problem]:
        """Mend all that is wrong and return it, each kind with what became of it. Raises RetryLater."""
        with self._one:
            problems = self._mended(self._unpaced, None)
        self._note_corrupt(problems)
        altered = next((one for one in problems if one.kind == Damage.SCHEMA and not one.repaired), None)
        if altered is not None:  # a person asked for it: a table of another form is another database
            damage.suspect(self._readers.path, altered.first)
        return problems

    def in_turn(self, pace: Pace) -> list[Problem]:
        """Do the same in the daily turn: of the kept files only a share is read again. `pace` rests between.

        Raises DatabaseDamaged for a damaged file: the process is to end, and the next start sets it aside.
        """
        with self._one:
            cursor = self._readers.read(own_files.cursor_of)
            problems = self._mended(pace, cursor)
        if (corrupt := self._note_corrupt(problems)) is not None:
            raise DatabaseDamaged(f"{corrupt.detail} The check says: {corrupt.first}.", hint=_CORRUPT_HINT)
        return problems

    def mend_full_text(self) -> bool:
        """Make the full-text indexes anew where somebody met with their damage; return whether that was so."""
        if not self.met_damage():
            return False
        with self._one:
            log.error("full_text_damaged", done="made anew")
            self._repair.mend_full_text()
            self._writer.index_damaged.clear()
            self._readers.index_damaged.clear()
            now = self._clock.now()
            detail = f"{Damage.FTS}: {SENTENCES[Damage.FTS]} It was made anew from the text."
            self._writer.run(lambda connection: events.record(connection, "repaired", now, detail=detail))
        return True

    def in_spite_of_full_text(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; it is done once more where a full-text index that it met had to be made anew."""
        try:
            return work()
        except IndexDamaged as error:
            self.mend_full_text()
            self._untold.append(repair_rows.mended_at_start(Damage.FTS, [error.message]))
            return work()

    def last(self) -> list[Problem]:
        """Return what the last check found, with what became of it."""
        return self._readers.read(last_problems)

    def met_damage(self) -> bool:
        """Return whether somebody met with a damaged full-text index."""
        return self._writer.index_damaged.is_set() or self._readers.index_damaged.is_set()

    def _note_corrupt(self, problems: Sequence[Problem]) -> Problem | None:
        """Have the next start set a damaged file aside; return that damage, None where there is none."""
        corrupt = next((problem for problem in problems if problem.kind == Damage.CORRUPT), None)
        if corrupt is not None:
            damage.suspect(self._readers.path, corrupt.first)
        return corrupt

    def _unpaced(self, _seconds: float) -> None:
        if self._stopping():
            raise RetryLater(Reason.RETRY, "kbsync is stopping.", hint="Ask again when it is back.")

    def _found(self, pace: Pace, cursor: str | None) -> tuple[list[Problem], str | None]:
        try:
            problems = integrity.check_beside(self._readers, pace)
        except DatabaseDamaged as error:
            problems = [Problem(Damage.CORRUPT, SENTENCES[Damage.CORRUPT], 1, error.message)]
        kinds = {problem.kind for problem in problems}
        if Damage.CORRUPT in kinds:
            return [replace(problem, hint=_CORRUPT_HINT) for problem in problems], cursor
        if Damage.SCHEMA in kinds:
            return problems, cursor  # what documents and jobs need of their files cannot be asked yet
        of_files, following = self._files.check(pace, cursor)
        return [*problems, *of_files], following

    def _mended(self, pace: Pace, cursor: str | None) -> list[Problem]:
        before: dict[str, Problem] = {}
        outcomes: dict[str, Outcome] = {}
        now, following = self._found(pace, cursor)
        for _ in range(_ROUNDS):
            before.update({problem.kind: problem for problem in now if _is_news(problem, before)})
            wanted = {problem.kind for problem in now} - outcomes.keys() - {Damage.CORRUPT}
            if not wanted:
                break
            outcomes.update(self._repair.mend(wanted))
            failpoint("repair.round")
            now, _ = self._found(pace, cursor)
        left = _left(before, now)
        problems = [_told(problem, left.get(kind), outcomes.get(kind)) for kind, problem in before.items()]
        return self._record(problems, following)

    def _record(self, found: Sequence[Problem], following: str | None) -> list[Problem]:
        """Write down what a check found and return it, with what had been mended before and was not told yet."""
        now, kinds = self._clock.now(), {problem.kind for problem in found}
        problems = [*(before for before in self._untold if before.kind not in kinds), *found]
        self._untold = []
        is_whole = all(problem.repaired for problem in problems)

        def record(connection: Connection) -> None:
            meta.put(connection, meta.LAST_CHECK, f"{now} {'ok' if is_whole else 'problems'}")
            written = json.dumps([asdict(problem) for problem in problems], ensure_ascii=False)
            if (meta.get(connection, meta.CHECKED) or "[]") != written:
                meta.put(connection, meta.CHECKED, written)
            if following is not None and (meta.get(connection, meta.STORED_SCRUB) or "") != following:
                meta.put(connection, meta.STORED_SCRUB, following)
            for problem in found:
                if problem.repaired:
                    events.record(
                        connection, "repaired", now, detail=f"{problem.kind}: {problem.detail} {problem.done}"
                    )

        for problem in problems:
            log.error(
                "integrity",
                kind=problem.kind,
                detail=problem.detail,
                count=problem.count,
                first=problem.first,
                repaired=problem.repaired,
                done=problem.done,
                hint=problem.hint,
            )
        try:
            self._writer.run(record)
        except (DatabaseDamaged, StorageUnavailable) as error:
            log.error("check_not_recorded", error=str(error))
        return problems


def last_problems(connection: Connection) -> list[Problem]:
    """Return what the last check found, with what became of it."""
    return [Problem(**problem) for problem in json.loads(meta.get(connection, meta.CHECKED) or "[]")]


def _is_news(problem: Problem, before: Mapping[str, Problem]) -> bool:
    was_set_aside = problem.kind == Damage.STORED_GONE and Damage.STORED_DAMAGED in before
    return problem.kind not in before and not was_set_aside


def _left(before: Mapping[str, Problem], now: Sequence[Problem]) -> dict[str, Problem]:
    """Return what is left, by kind. A damaged copy that was set aside is one that is gone: that is told once."""
    left = {problem.kind: problem for problem in now}
    if Damage.STORED_DAMAGED in before and Damage.STORED_GONE not in before and Damage.STORED_GONE in left:
        gone = left[Damage.STORED_GONE]
        left[Damage.STORED_DAMAGED] = replace(before[Damage.STORED_DAMAGED], count=gone.count, first=gone.first)
    return left


def _told(before: Problem, left: Problem | None, outcome: Outcome | None) -> Problem:
    done, hint = ("", "") if outcome is None else (outcome.done, outcome.hint)
    if left is None:
        return replace(before, repaired=True, done=done, hint="")
    return replace(left, done=done, hint=hint or left.hint)
