"""What can be asked of single paths, jobs and documents, and what may be done about them, in JSON values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from kbsync.compose import Engine
from kbsync.errors import NotFound, UsageError
from kbsync.interfaces.paths import absolute_path
from kbsync.interfaces.records import (
    Record,
    change_record,
    event_record,
    job_record,
    leftover_record,
    why_record,
)
from kbsync.interfaces.values import LARGEST_LIMIT, in_range, known_job_state
from kbsync.knowledge_base.difference import Difference, differences, of_source
from kbsync.knowledge_base.explain import Explanation
from kbsync.knowledge_base.unseen import Looks
from kbsync.model import Source
from kbsync.reasons import FileState
from kbsync.store.jobs import JobRow


class Ledger:
    """Questions about what the engine knows of files. Any thread may ask.

    Paths come in as text; bytes that are no UTF-8 travel as surrogate escapes on the way in.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def why(self, path: str) -> Record:
        """Say why a path is in its state; one that was never seen is looked at. Raises NotFound."""
        engine, path = self._engine, absolute_path(path)
        looks = Looks(engine.seams.fs, engine.own, engine.kb.adding)
        try:
            found = looks.made_exact(engine.sources.all(), engine.kb.why(path, engine.settings.keep_days))
            if found.state is FileState.GONE and not self._is_held(found.document_id, path):
                # It may be there, below a folder that a rule leaves out by now: that the ledger does not tell.
                found = self._looked(looks, path) or found
        except NotFound:
            looked = self._looked(looks, path)
            if looked is None:
                raise
            found = looked
        problem = engine.embedders.problem() if found.state is FileState.WAITING and found.files is None else None
        if problem is not None:
            found = replace(found, detail=f"{found.detail} It waits for the model: {problem}")
        elif found.state is FileState.WAITING and (rests := engine.rest.holds()) is not None:
            found = replace(found, detail=f"{found.detail} {rests}")
        return why_record(found)

    def _looked(self, looks: Looks, path: str) -> Explanation | None:
        found, held_up = looks.unseen(self._engine.sources.all(), path), self._engine.kb.held_up(path)
        return found if found is None or held_up is None else replace(found, detail=f"{found.detail} {held_up}")

    def history(self, path: str | None = None, limit: int = 100) -> Record:
        """Return `{events, total}`, newest first: of a path and what is below it, or of everything."""
        in_range(limit, 0)
        found, total = self._engine.kb.history(None if path is None else absolute_path(path), limit)
        return {"events": [event_record(event) for event in found], "total": total}

    def diff(self, source: str | None = None, limit: int = 100) -> Record:
        """Return `{changes, total, notices}`: what a rescan would find, by source and path. Raises NotFound."""
        in_range(limit, 0)
        engine = self._engine
        followed = engine.sources.all()
        if source is None:
            found = self._differences(followed)
            changes = [change for one in found for change in one.changes]
            notices = [notice for one in found for notice in one.notices]
        else:
            wanted = os.path.realpath(absolute_path(source))
            asked = next((one for one in followed if one.path == wanted), None)
            if asked is None:
                raise NotFound(f"{source} is not a source.", hint="`kbsync sources list` shows them.")
            found = self._differences([asked])
            if any(change.change == "gone" for change in found[0].changes) or found[0].notices:
                # What is missing here may have moved into another one.
                found = self._differences([asked, *(one for one in followed if one != asked)])
            changes, notices = of_source(found, asked), list(found[0].notices)
        records = [change_record(change) for change in changes]
        return {"changes": records[:limit], "total": len(records), "notices": notices}

    def _differences(self, followed: Sequence[Source]) -> list[Difference]:
        engine = self._engine
        now, most_share = engine.seams.clock.now(), engine.settings.max_missing_share
        return differences(engine.seams.fs, engine.readers, engine.own, followed, now, most_share)

    def jobs(self, state: str | None = None, limit: int = 100) -> Record:
        """Return `{jobs, total}`, newest first."""
        in_range(limit, 0)
        found, total = self._engine.kb.jobs(state=known_job_state(state), limit=limit)
        return {"jobs": [job_record(job) for job in found], "total": total}

    def jobs_by_id(self, job_ids: Sequence[int]) -> Record:
        """Return `{jobs, held_up}`: those of the ids that exist, and why none of them goes on, None while they do."""
        found: list[JobRow] = self._engine.kb.jobs_by_id(list(job_ids))
        return {"jobs": [job_record(job) for job in found], "held_up": self._engine.embedders.problem()}

    def job(self, job_id: int) -> Record:
        """Return a job. Raises NotFound."""
        found = self.jobs_by_id([job_id])["jobs"]
        if not found:
            raise NotFound(f"There is no job {job_id}.", hint="Ended jobs are forgotten after two weeks.")
        return dict(found[0])

    def retry_job(self, job_id: int) -> Record:
        """Have a failed job run again: `{job}`, the one that does. Raises NotFound and UsageError."""
        job = self._engine.kb.retry_job(job_id)
        self._engine.work.ring()
        return {"job": job_record(job)}

    def retry_failed(self) -> Record:
        """Have every followed file that failed be read again: `{jobs, total, not_retried}`.

        `not_retried`: files that were added by hand, whose copies went when they failed.
        """
        found, not_retried = self._engine.kb.retry_failed()
        self._engine.work.ring()
        jobs = [job_record(job) for job in found[:LARGEST_LIMIT]]
        return {"jobs": jobs, "total": len(found), "not_retried": not_retried}

    def listen_to_jobs(self, listener: Callable[[frozenset[int]], None]) -> Callable[[], None]:
        """Have `listener` hear the ids of jobs that changed; return how to end that. It must be quick."""
        return self._engine.kb.listen_to_jobs(listener)

    def content(self, document_id: int | None = None, path: str | None = None) -> Record:
        """Say where a document's bytes are: `{id, title, name, content_hash, copy, damaged, files, text}`.

        `copy` is kbsync's own, `files` are those that hold it; a note has its `text` instead. `damaged`: what a repair
        left of a copy that was damaged.
        Raises NotFound, also for a path of which nothing is indexed.
        """
        if document_id is None:
            document_id = self._document_at(path or "")
        document, paths, chunks = self._engine.kb.document(document_id)
        is_note = document.type == "note"
        name = os.path.basename(paths[0]) if paths else document.original_filename or str(document.id)
        return {
            "id": document.id,
            "title": document.title,
            "name": f"{document.title}.txt" if is_note else name,
            "content_hash": document.content_hash,
            "copy": document.stored_path,
            "damaged": [] if document.stored_path is None else self._engine.stored.aside_of([document.stored_path]),
            "files": paths,
            "text": "".join(chunk.text for chunk in chunks) if is_note else None,
        }

    def to_purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> Record:
        """Return what a purge would delete: `{documents, total, kept}`. Raises NotFound and UsageError.

        `kept`: how many it leaves, since kbsync's copy may be the only one.
        """
        found = self._engine.kb.retention.to_purge(_days(older_than_days), document_id)
        documents = [leftover_record(leftover) for leftover in found.documents]
        return {"documents": documents, "total": len(documents), "kept": len(found.kept)}

    def purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> Record:
        """Delete superseded and missing documents for good: as `to_purge`, and `complete`, `size_bytes`.

        Not `complete`: a search held on to the database's log; what it holds is overwritten the next time.
        """
        found, complete = self._engine.kb.retention.purge(_days(older_than_days), document_id)
        documents = [leftover_record(leftover) for leftover in found.documents]
        return {
            "documents": documents,
            "total": len(documents),
            "kept": len(found.kept),
            "complete": complete,
            "size_bytes": self._engine.kb.size_bytes(),
        }

    def _is_held(self, document_id: int | None, path: str) -> bool:
        """Say whether a path gives a document that is searchable, though no file is there: its copy is kept."""
        try:
            return document_id is not None and path in self._engine.kb.document(document_id)[1]
        except NotFound:
            return False  # over its time, or purged

    def _document_at(self, path: str) -> int:
        found = self._engine.kb.why(absolute_path(path))
        if found.files is not None:
            raise UsageError(f"{path} is a folder; name a file.", hint="`kbsync why` with it says what is in it.")
        if found.document_id is None:
            raise NotFound(
                f"Nothing is indexed of {path}: it is {found.state}.", hint="`kbsync why` with it tells more."
            )
        return found.document_id


def _days(days: float) -> float:
    if not 0 <= days <= 36_500:
        raise UsageError("Days must be 0 to 36500.")
    return days
