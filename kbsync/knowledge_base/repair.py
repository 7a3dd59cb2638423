"""The repair: one step for each kind of damage, which makes it whole from what is sure.

What can be derived is made anew, what belongs to nothing goes, and where ledger and documents disagree the files
decide: they are read again. Every step is whole or not done at all, and does nothing where it was done before: a
repair that is interrupted is simply begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kbsync.clock import Clock
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import repair_documents, repair_rows
from kbsync.knowledge_base.damage import Damage
from kbsync.knowledge_base.own_files import OwnFiles
from kbsync.knowledge_base.repair_files import FileRepair
from kbsync.log import ErrorLog
from kbsync.store import mending
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.writer import Writer

_REBUILT = "It was made anew from the text."
_READ_AGAIN = "Their files are read again; the daemon does it."
# Of a ledger that lost rows nobody knows which others it lost.
_MAY_COME_BACK = "Files that you removed longer ago than the history tells may come back: remove them once more."
_OF_NOTES = (
    "The text of notes {} is there, but not in one piece, and was left as it is; what remains of it is in the table "
    "`chunks`. Bring back a backup, or write them down once more."
)
_BY_HAND = "`kbsync check --repair` has the next start set the database aside, and the index is built anew."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did about a kind of damage, and what a person can do about what is left of it."""

    done: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Models:
    """The embedding models at hand. `dimensions`: of each, by fingerprint.

    `follow` makes the tables of vectors fit the configured one; `changed` hears that search is to use other ones.
    """

    dimensions: Callable[[], dict[str, int]]
    follow: Callable[[Connection], object]
    changed: Callable[[], object]


class Repair:
    """Mends what a check named. One thread at a time."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        own_files: OwnFiles,
        files: FileRepair,
        kept: KeptConversions,
        models: Models,
        error_log: ErrorLog,
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._own_files = own_files
        self._files = files
        self._kept = kept
        self._models = models
        self._error_log = error_log
        # In this order: a later step may write to what an earlier one mends.
        self._steps: tuple[tuple[Collection[Damage], str, Callable[[], Outcome]], ...] = (
            ({Damage.SCHEMA}, "repair.schema", self._schema),
            (
                {Damage.TOKENIZER, Damage.FTS, Damage.FTS_MISSING, Damage.FTS_EXTRA},
                "repair.full_text",
                self._full_text,
            ),
            ({Damage.NAMES}, "repair.names", self._names),
            ({Damage.INDEXES}, "repair.indexes", self._indexes),
            ({Damage.FOREIGN_KEYS}, "repair.references", self._references),
            ({Damage.ROW_IDS}, "repair.row_ids", self._row_ids),
            ({Damage.VECTOR_TABLES}, "repair.vector_tables", self._vector_tables),
            ({Damage.DOCUMENTS_UNEXPLAINED}, "repair.explained", self._explained),
            ({Damage.EXCLUSIONS}, "repair.exclusions", self._exclusions),
            (
                {Damage.PATHS_MISSING, Damage.PATHS_GHOST, Damage.PATHS_TWICE, Damage.LEDGER},
                "repair.paths",
                self._paths,
            ),
            ({Damage.JOBS_STUCK, Damage.JOBS_TWICE}, "repair.jobs", self._jobs),
            ({Damage.DOCUMENTS_STATE}, "repair.states", self._states),
            ({Damage.STAGED_GONE}, "repair.staged_gone", self._staged_gone),
            ({Damage.STAGING}, "repair.staging", self._staging),
            ({Damage.STORED_UNCLAIMED}, "repair.unclaimed", self._unclaimed),
        )

    def mend(self, found: Collection[str]) -> dict[str, Outcome]:
        """Do what there is to do about these kinds of damage; return what was done about each. Raises RetryLater."""
        outcomes: dict[str, Outcome] = {}
        for kinds, place, step in self._steps:
            self._step([kind for kind in kinds if kind in found], place, step, outcomes)
        copies = [kind for kind in (Damage.STORED_GONE, Damage.STORED_DAMAGED, Damage.CONVERSIONS) if kind in found]
        self._step(copies, "repair.copies", self._copies, outcomes)
        # Last: whether a document can be made anew depends on its copy, and on the paths that hold it.
        stale = [kind for kind in _OF_VECTORS if kind in found]
        documents = [kind for kind in (Damage.CHUNKS_MISSING, Damage.TEXTS) if kind in found]
        self._step([*stale, *documents], "repair.texts", self._texts, outcomes)
        return outcomes

    def _step(
        self, kinds: Sequence[Damage], place: str, step: Callable[[], Outcome], outcomes: dict[str, Outcome]
    ) -> None:
        if kinds:
            outcome = step()
            failpoint(place)
            outcomes.update(dict.fromkeys(kinds, outcome))

    # ---- what can be derived ----

    def _schema(self) -> Outcome:
        now = self._clock.now()
        left = self._writer.run(lambda connection: repair_rows.mend_schema(connection, now))
        return Outcome("They were made anew; what lay in a table that is gone is read again.", _BY_HAND if left else "")

    def _full_text(self) -> Outcome:
        self._writer.run(mending.rebuild_full_text)
        return Outcome(_REBUILT)

    def _names(self) -> Outcome:
        self._writer.run(mending.rebuild_names)
        return Outcome("It was made anew from the paths.")

    def _indexes(self) -> Outcome:
        done = self._writer.run(mending.reindex)
        return Outcome("They were made anew from the tables." if done else "", "" if done else _BY_HAND)

    def _row_ids(self) -> Outcome:
        self._writer.run(mending.count_on)
        return Outcome("Numbers go on above all that ever were.")

    def _vector_tables(self) -> Outcome:
        now, dimensions = self._clock.now(), self._models.dimensions()

        def make(connection: Connection) -> None:
            mending.make_vector_tables(connection, dimensions, now)
            failpoint("repair.vector_tables_made")
            self._models.follow(connection)
            repair_rows.mend_vectors(connection)

        self._writer.run(make)
        self._models.changed()
        return Outcome("They were made to fit; what is missing in them is embedded anew by the daemon.")

    # ---- what belongs to nothing, or is not sure ----

    def _references(self) -> Outcome:
        now = self._clock.now()

        def drop(connection: Connection) -> tuple[int, list[int]]:
            repair_documents.make_cut_off_anew(connection)  # before what tells of them goes
            notes, left = repair_documents.bring_notes_back(connection, now)
            failpoint("repair.notes_back")
            repair_documents.read_again(connection, mending.drop_orphans(connection, left), now)
            return notes, left

        notes, left = self._writer.run(drop)
        done = "What hung on rows that are gone was deleted; files that it came from are read again."
        if notes:
            back = _counted(notes, "note whose row was lost is", "notes whose row was lost are")
            done = f"{back} back, with text and title. {done}"
        return Outcome(done, _OF_NOTES.format(", ".join(map(str, left))) if left else "")

    def _explained(self) -> Outcome:
        now = self._clock.now()
        given, gone = self._writer.run(lambda connection: repair_documents.explain(connection, now))
        return Outcome(f"{given} got one from the ledger, history or their copy; {gone} that nothing tells of went.")

    def _exclusions(self) -> Outcome:
        count = len(self._writer.run(repair_documents.leave_out_again))
        again = _counted(count, "file is", "files are")
        return Outcome(f"{again} left out again at the old place; what was moved since may come back.")

    def _paths(self) -> Outcome:
        now = self._clock.now()

        def mend(connection: Connection) -> tuple[bool, int]:
            has_lost_rows = bool(mending.ghosts(connection))
            return has_lost_rows, repair_documents.mend_ledger(connection, now)

        has_lost_rows, count = self._writer.run(mend)
        done = _READ_AGAIN if count else "They agree again: each holds what is there, or nothing."
        return Outcome(f"{done} {_MAY_COME_BACK}" if has_lost_rows else done)

    def _states(self) -> Outcome:
        self._writer.run(mending.follow_origins)
        return Outcome("Their state follows from what holds them again.")

    def _jobs(self) -> Outcome:
        now = self._clock.now()

        def put_right(connection: Connection) -> None:
            repair_documents.put_back(connection, now)
            repair_documents.mend_ledger(connection, now)

        self._writer.run(put_right)
        return Outcome("They are in the queue once, and run again.")

    def _texts(self) -> Outcome:
        def mend(connection: Connection) -> tuple[int, repair_documents.Mended]:
            missing, changed = repair_rows.mend_vectors(connection)
            wrong = repair_documents.wrong_documents(connection)
            return missing, repair_documents.mend_texts(connection, [*changed, *wrong])

        missing, mended = self._writer.run(mend)
        said = []
        if missing:
            said.append(f"{_counted(missing, 'is', 'are')} embedded anew; the daemon does it.")
        if mended.queued:
            queued = _counted(mended.queued, "document is", "documents are")
            said.append(f"{queued} made anew from the file or copy; the daemon does it.")
        if mended.mended:
            said.append(f"{_counted(mended.mended, 'was', 'were')} mended from what is there.")
        numbers = ", ".join(map(str, mended.left))
        hint = (
            f"There is nothing to read {numbers} anew from: `kbsync documents remove` takes it out." if numbers else ""
        )
        return Outcome(" ".join(said) or "What was wrong was deleted.", hint)

    # ---- files of our own ----

    def _staged_gone(self) -> Outcome:
        now, gone = self._clock.now(), [number for number, _ in self._own_files.staged_gone()]
        ended = self._writer.run(lambda connection: repair_documents.end_without_copy(connection, gone, now))
        for path, message in ended:
            self._error_log.record(path, message, now)
        return Outcome("Their jobs have failed.", "Send it again.")

    def _staging(self) -> Outcome:
        for path in self._own_files.staging_left():
            self._files.stored.discard(path)
            failpoint("repair.staging_file")
        return Outcome("They were removed.")

    def _unclaimed(self) -> Outcome:
        taken, aside, left = self._files.take_in(self._own_files.unclaimed())
        done = [f"{_counted(taken, 'is', 'are')} taken in as added anew; the daemon does it."] if taken else []
        done += [f"What is damaged lies in {place} now." for place in aside]
        hint = f"These cannot be taken in, move them away where they are not wanted: {', '.join(left)}" if left else ""
        return Outcome(" ".join(done), hint)

    def _copies(self) -> Outcome:
        damaged, unreadable = self._own_files.found_damaged
        for path in unreadable:
            self._kept.discard(path)
        whole = self._files.mend_copies([*self._own_files.gone(), *damaged])
        done = [f"{_counted(whole, 'was', 'were')} taken anew from a file with the same bytes."] if whole else []
        if unreadable:
            removed = _counted(len(unreadable), "conversion was", "conversions were")
            done.append(f"{removed} removed; what is needed is made again.")
        return Outcome(" ".join(done), self._own_files.advice())

    def mend_full_text(self) -> None:
        """Make the full-text indexes anew at once, for somebody met with their damage. Raises RetryLater."""
        now = self._clock.now()

        def mend(connection: Connection) -> None:
            repair_rows.mend_schema(connection, now)
            mending.rebuild_full_text(connection)
            mending.rebuild_names(connection)

        self._writer.run(mend)
        failpoint("repair.full_text_at_once")


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


_OF_VECTORS = (Damage.VECTORS_MISSING, Damage.VECTORS_EXTRA, Damage.VECTORS_BAD, Damage.VECTORS_STALE)
