"""The lives of a database during which T5 has the power go, and what must be found of one afterwards."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import apsw

from kbsync.errors import KbsyncError
from kbsync.filesystem import Stat
from kbsync.knowledge_base import commits, integrity
from kbsync.knowledge_base.commits import Judged
from kbsync.model import Origin, Priority
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import documents, files, maintenance, migrations, origins, sources, vectors
from kbsync.store.connection import Connection, connect_writer
from kbsync.store.soundness import Verdict, look
from kbsync.store.writer import Readers, Writer
from tests.fakes.hash_embedder import hash_vectors
from tests.faults.power_log import DiskLog
from tests.faults.recording_vfs import recorded
from tests.store.made_documents import EMBEDDER, NOW, made_update

# What the database is told to wait for: FULL is what kbsync does, the others are controls.
Waiting = Literal["FULL", "NORMAL", "OFF"]
_NAME = "kb.sqlite3"
_ROOT = "/watched"
_RULES = "rules"
_AT_ONCE = 8
# So that a database as small as this one writes its pages back every few commits.
_PAGES_A_CHECKPOINT = 24
_WORDS = ("apple", "pear", "plum", "quince", "medlar", "cherry", "fig", "grape")


@dataclass(slots=True)
class Life:
    """What a database in a folder went through. `states[n]` is its content after n commits, as a digest.

    `begun[n]` and `told[n]`: the place in the log at which the n-th commit was asked for, and told to be on the disk.
    """

    folder: str
    log: DiskLog = field(default_factory=DiskLog)
    states: list[str] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)

    def at(self, point: int) -> tuple[int, int]:
        """Return which state a database must have at least and at most that loses its power at a place of the log."""
        oldest = max((number for number, place in enumerate(self.told) if place <= point), default=0)
        newest = max((number for number, place in enumerate(self.begun) if place < point), default=0)
        return oldest, newest

    def harm(self, place: str, point: int) -> tuple[str, str] | None:
        """Return (which of the counts, what exactly) is wrong with what is left in a folder, None where all is well."""
        oldest, newest = self.at(point)
        path = os.path.join(place, _NAME)
        try:
            if (verdict := look(path, NOW)) != Verdict():
                return "corrupt", f"at the first look: {verdict}"
            with _opened(path) as writer:
                complaints = writer.run(lambda connection: connection.execute("PRAGMA quick_check").fetchall())
                if complaints != [("ok",)]:
                    return "corrupt", str(complaints[0])
                problems = writer.run(integrity.check)
                if problems:
                    return "corrupt", str(problems[0])
                found = writer.run(digest)
        except (KbsyncError, apsw.Error) as error:
            return "corrupt", str(error)
        if found in self.states[oldest : newest + 1]:
            return None
        if found not in self.states:
            return "mixed", "a content that it never had"
        state = len(self.states) - 1 - self.states[::-1].index(found)
        return ("lost" if state < oldest else "newer"), f"state {state}, of {oldest} to {newest}"


def told_to_wait(waiting: Waiting, connection: Connection) -> None:
    """Have a connection of kbsync's wait less for the disk than kbsync does."""
    if waiting != "FULL":
        connection.execute(f"PRAGMA synchronous = {waiting}")


def digest(connection: Connection) -> str:
    """Return a hash of every row of every ordinary table; what the full-text index holds follows from them."""
    names = connection.execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name <> 'sqlite_schema' "
        "ORDER BY name"
    ).fetchall()
    told = hashlib.sha256()
    for (name,) in names:
        # The order of rows says nothing: a VACUUM may change it.
        told.update(repr((name, sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))))).encode())
    return told.hexdigest()


@contextmanager
def _opened(path: str) -> Iterator[Writer]:
    writer = Writer(path)
    writer.open()
    try:
        yield writer
    finally:
        writer.close()


# ---- what is played ----


class _Played:
    """A database at work, seen by a reader of its own after each commit."""

    def __init__(self, life: Life, path: str, waiting: Waiting) -> None:
        self._life, self._waiting = life, waiting
        self._writer, self._readers = Writer(path), Readers(path)
        self._source_id = self._embedder_id = 0

    def open(self) -> None:
        self._life.begun.append(len(self._life.log))
        self._writer.open()
        self._writer.start()
        self._writer.run_alone(partial(told_to_wait, self._waiting))
        self._life.told.append(len(self._life.log))
        self._life.states.append(self._readers.read(digest))

    def close(self) -> None:
        self._readers.close()
        self._writer.close()

    def begin(self) -> None:
        def begin(connection: Connection) -> tuple[int, int]:
            return sources.ensure(connection, _ROOT, NOW), vectors.use_embedder(connection, EMBEDDER, NOW)

        self._source_id, self._embedder_id = self.commit(begin)

    def commit(self, work: Callable[[Connection], Any]) -> Any:
        """Have work done and told to be on the disk."""
        self._life.begun.append(len(self._life.log))
        result = self._writer.run(work)
        self._seen()
        return result

    def commit_together(self, works: Sequence[Callable[[Connection], Any]]) -> None:
        """Have work of many callers go into one transaction: they ask while the writer is busy."""
        is_busy, let_go = threading.Event(), threading.Event()

        def keep_busy(_connection: Connection) -> None:
            is_busy.set()
            let_go.wait()

        callers = [threading.Thread(target=self._writer.run, args=(work,)) for work in (keep_busy, *works)]
        callers[0].start()
        is_busy.wait()
        self._life.begun.append(len(self._life.log))
        for number, caller in enumerate(callers[1:], start=1):
            caller.start()
            while self._writer._requests.qsize() < number:
                time.sleep(0)  # one after the other: in the same order at every run
        let_go.set()
        for caller in callers:
            caller.join()
        self._seen()

    def alone(self, work: Callable[[Connection], Any]) -> None:
        """Have something done that changes no content."""
        self._writer.run_alone(work)
        assert self._readers.read(digest) == self._life.states[-1]

    def _seen(self) -> None:
        self._life.told.append(len(self._life.log))
        found = self._readers.read(digest)
        assert found != self._life.states[-1], "what was acknowledged is there"
        self._life.states.append(found)

    # ---- one commit each ----

    def queued(self, number: int, connection: Connection) -> None:
        path = _path(number)
        files.account(
            connection, self._source_id, path, _stat(number), FileState.WAITING, Reason.QUEUED, _RULES, NOW + number
        )
        job_queue.enqueue_path(connection, self._source_id, path, number, Priority.SCAN, NOW + number)

    def indexed(self, number: int, connection: Connection) -> None:
        job = job_queue.claim(connection, "text", Priority.LOW, NOW + number)
        assert job is not None
        commits.ingested(
            connection,
            job,
            made_update(f"hash {job.path} {number}", *_texts(number), title=_WORDS[number % len(_WORDS)]),
            self._embedder_id,
            Origin("path", job.path, job.source_id),
            Judged(_stat(number), _RULES),
            None,
            NOW + number,
        )

    def gone(self, number: int, connection: Connection) -> None:
        document_id = origins.end_path(connection, _path(number), "missing", NOW + number)
        assert document_id is not None
        files.mark_gone(connection, self._source_id, [_path(number)], NOW + number)
        if number % 2:
            documents.delete(connection, document_id)

    def index(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.commit(partial(self.queued, number))
            self.commit(partial(self.indexed, number))


def played(folder: str, waiting: Waiting) -> Life:
    """Play a database's life: made, filled, changed by many at once, checkpointed often, rewritten, opened anew."""
    life = Life(folder)
    with recorded(life.log, folder):
        play = _Played(life, os.path.join(folder, _NAME), waiting)
        play.open()
        play.begin()
        play.index(range(12))
        for start in (20, 30):
            play.commit_together([partial(play.queued, start + number) for number in range(_AT_ONCE)])
            play.commit_together([partial(play.indexed, start + number) for number in range(_AT_ONCE)])
        play.index(range(4))  # anew: the content of known paths changed
        play.alone(lambda connection: connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_A_CHECKPOINT}"))
        play.index(range(40, 52))
        for number in range(4, 12):
            play.commit(partial(play.gone, number))
        play.alone(maintenance.rewrite)
        play.index(range(60, 64))
        play.close()
        play = _reopened(play, life, folder, waiting)
        play.index(range(70, 74))
        play.close()
    return life


def _reopened(before: _Played, life: Life, folder: str, waiting: Waiting) -> _Played:
    play = _Played(life, os.path.join(folder, _NAME), waiting)
    play._source_id, play._embedder_id = before._source_id, before._embedder_id
    play.open()
    return play


def migrated(folder: str, waiting: Waiting) -> Life:
    """Play the start on a database of the first form. Whenever the power goes, the next start makes it the current one.

    So every state that may be found is the last one.
    """
    path = os.path.join(folder, _NAME)
    with closing(connect_writer(path, migrations.accept)) as connection:
        number, _name, sql = migrations.migrations()[0]
        connection.execute(sql)
        connection.pragma("application_id", migrations.APPLICATION_ID)
        connection.pragma("user_version", number)
        _fill_of_old(connection)
        connection.execute("PRAGMA journal_mode = DELETE")  # as a backup's copy is
    life = Life(folder, DiskLog({path: Path(path).read_bytes()}))
    with recorded(life.log, folder), closing(connect_writer(path, migrations.accept)) as connection:
        told_to_wait(waiting, connection)
        migrations.init_schema(connection)
        life.states.append(digest(connection))
    life.begun, life.told = [0], [0]
    return life


def _fill_of_old(connection: Connection) -> None:
    """Fill a database of the first form by statements of its time."""
    connection.execute(
        "INSERT INTO embedders (fingerprint, model_name, dimension, created_at) VALUES (?, 'old', ?, 1.0); "
        "INSERT INTO meta (key, value) VALUES ('live_embedder', '1'); "
        "CREATE TABLE vectors_1 (chunk_id INTEGER PRIMARY KEY REFERENCES chunks (id), text_hash BLOB NOT NULL, "
        "embedding BLOB NOT NULL) STRICT; CREATE INDEX vectors_1_text ON vectors_1 (text_hash)",
        (EMBEDDER.fingerprint, EMBEDDER.dimension),
    )
    for row in range(1, 40):
        title, text = f"title {row}", " ".join(_texts(row))
        enriched = f"{title}\n\n{text}"
        connection.execute(
            "INSERT INTO documents (title, type, content_hash, size_bytes, converter_fingerprint, "
            "chunker_fingerprint, created_at, updated_at) VALUES (?, 'note', ?, 1, 'c', 'c', 1.0, 1.0)",
            (title, f"hash {row}"),
        )
        connection.execute(
            "INSERT INTO chunks (document_id, position, text, metadata, token_count) VALUES (?, 0, ?, '{}', 3)",
            (row, text),
        )
        connection.execute("INSERT INTO origins (document_id, kind, since) VALUES (?, 'note', 1.0)", (row,))
        connection.execute(
            "INSERT INTO vectors_1 (chunk_id, text_hash, embedding) VALUES (?, ?, ?)",
            (row, vectors.text_hash(enriched), hash_vectors([enriched], EMBEDDER.dimension)[0].tobytes()),
        )


def _path(number: int) -> str:
    return f"{_ROOT}/{number}.md"


def _stat(number: int) -> Stat:
    return Stat("file", 100 + number, number, number, 1000 + number, 1)


def _texts(number: int) -> list[str]:
    dice = random.Random(number)
    return [" ".join(dice.choices(_WORDS, k=12)) for _ in range(1 + number % 4)]
