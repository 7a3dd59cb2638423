"""Everything that can be asked, in JSON values: the routes of HTTP and, without a daemon, the commands call it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kbsync.compose import Engine
from kbsync.config import file as config_file
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.errors import FailFile, FileGone, NotRunning, RetryLater, SkipFile, UsageError
from kbsync.interfaces.records import (
    Record,
    check_record,
    chunk_record,
    conversion_record,
    document_record,
    job_record,
    search_record,
    shown_path,
    source_record,
    time_of,
    why_record,
)
from kbsync.interfaces.values import (
    LARGEST_LIMIT,
    LARGEST_OFFSET,
    known_file_type,
    known_language,
    known_listed_type,
    known_mode,
    known_ocr,
)
from kbsync.model import IngestOptions, Source
from kbsync.sources.ignore import rules_for
from kbsync.store.jobs import JobRow
from kbsync.version import version

LIMIT = LARGEST_LIMIT


class Operations:
    """What an open engine can be asked, with its daemon or without. Any thread may ask.

    Paths come in and go out as text; bytes that are no UTF-8 travel as surrogate escapes on the way in.
    """

    def __init__(self, engine: Engine, daemon: Daemon | None, endpoints: Sequence[str] = ()) -> None:
        self._engine = engine
        self._daemon = daemon
        self._endpoints = list(endpoints)

    def status(self) -> Record:
        """Return what `status` shows."""
        batcher = self._engine.batcher
        statistics = self._engine.kb.statistics()
        last_check = str(statistics.pop("last_check") or "")
        running = {} if self._daemon is None else self._daemon.status()
        sources = self.sources()["sources"]
        return {
            "version": version(),
            "running": self._daemon is not None,
            "pid": os.getpid(),
            "model_name": batcher.model_name,
            "embedding_dim": batcher.dimension,
            "device": self._device(),
            **statistics,
            "conversion": conversion_record(self._engine.slots, self._engine.cage.status()),
            "sources": sources,
            "watchers": [],
            "scheduler": {},
            **running,
            "endpoints": self._endpoints,
            "last_check": {
                "at": time_of(float(last_check.split()[0])) if last_check else None,
                "ok": last_check.endswith("ok") if last_check else None,
            },
            "notices": _notices(sources, running),
        }

    def search(self, query: str, mode: str = "hybrid", limit: int = 10, offset: int = 0) -> Record:
        """Return the hits for a query of any characters."""
        _in_range(limit, offset)
        return search_record(self._engine.kb.search(query, known_mode(mode), limit, offset))

    def expand(self, path: str, *, recursive: bool) -> Record:
        """Return `{files, skipped, failed}`: what a path named by hand stands for."""
        found = self._engine.kb.adding.expand(_absolute(path), recursive=recursive)
        return {
            "files": list(found.files),
            "skipped": [{"path": where, "reason": reason} for where, reason in found.skipped],
            "failed": [{"path": where, "error": error} for where, error in found.failed],
        }

    def add(
        self,
        paths: Sequence[str],
        title: str | None,
        document_type: str | None,
        language: str | None,
        ocr: str | None = None,
        password_file: str | None = None,
    ) -> Record:
        """Stage and queue files: `{jobs: [{path, job_id}], skipped: [{path, reason, detail}], failed: [...]}`.

        A language without a type means code.
        """
        if password_file is not None:
            password_file = _absolute(password_file)
        known, kind = known_language(language), known_file_type(document_type)
        if known is not None and kind is None:
            kind = "code"
        options = IngestOptions(title, kind, known, known_ocr(ocr), password_file)
        jobs: list[Record] = []
        skipped: list[Record] = []
        failed: list[Record] = []
        for path in paths:
            try:
                job_id = self._engine.kb.adding.add_file(_absolute(path), options)
            except SkipFile as error:
                skipped.append({"path": path, "reason": error.reason, "detail": str(error)})
            except (FailFile, FileGone, RetryLater) as error:
                self._engine.error_log.record(path, str(error), self._engine.seams.clock.now())
                failed.append({"path": path, "error": str(error)})
            else:
                jobs.append({"path": path, "job_id": job_id})
        if jobs:
            self._engine.work.ring()
        return {"jobs": jobs, "skipped": skipped, "failed": failed}

    def note(self, text: str, title: str | None) -> Record:
        """Queue a note: `{job_id}`."""
        job_id = self._engine.kb.adding.add_note(text, title)
        self._engine.work.ring()
        return {"job_id": job_id}

    def documents(self, state: str | None, document_type: str | None, limit: int, offset: int) -> Record:
        """Return `{documents, total}`, newest first."""
        _in_range(limit, offset)
        found, total = self._engine.kb.documents(
            state=state, document_type=known_listed_type(document_type), limit=limit, offset=offset
        )
        return {"documents": [document_record(document, paths) for document, paths in found], "total": total}

    def document(self, document_id: int) -> Record:
        """Return a document with its chunks."""
        document, paths, chunks = self._engine.kb.document(document_id)
        return {**document_record(document, paths), "chunks": [chunk_record(chunk) for chunk in chunks]}

    def remove_document(self, document_id: int) -> Record:
        """Take a document out of the index: `{removed: {...}}`."""
        return {"removed": document_record(self._engine.kb.remove_document(document_id), [])}

    def jobs(self, state: str | None = None, limit: int = 100) -> Record:
        """Return `{jobs, total}`, newest first."""
        _in_range(limit, 0)
        found, total = self._engine.kb.jobs(state=state, limit=limit)
        return {"jobs": [job_record(job) for job in found], "total": total}

    def jobs_by_id(self, job_ids: Sequence[int]) -> Record:
        """Return `{jobs}`: those of the ids that exist."""
        found: list[JobRow] = self._engine.kb.jobs_by_id(list(job_ids))
        return {"jobs": [job_record(job) for job in found]}

    def sources(self) -> Record:
        """Return `{sources, total}`: the configured folders and how they are doing."""
        rows, counts = self._engine.kb.sources()
        records = [source_record(row, counts.get(row.id, {}), running=self._daemon is not None) for row in rows]
        if self._daemon is not None:
            # A walk that finds nothing new writes nothing: only the running daemon knows when it was.
            for row, record in zip(rows, records, strict=True):
                if (scan := self._daemon.loops.rescans.last.get(row.id)) is not None:
                    record["last_scan_at"] = time_of(scan.begun_at)
        return {"sources": records, "total": len(records)}

    def add_source(self, path: str, *, recursive: bool = True, ignore: Sequence[str] = ()) -> Record:
        """Write a folder into the configuration and begin to follow it: `{added}`."""
        rules_for(Source(0, _absolute(path), ignore=tuple(ignore)))  # a pattern that cannot be used is refused first
        added = config_file.add_source(
            self._engine.locations.config_file, _absolute(path), recursive=recursive, ignore=tuple(ignore)
        )
        self._follow()
        return {"added": shown_path(added)}

    def remove_source(self, path: str) -> Record:
        """Take a folder out of the configuration; what it held is hidden from search: `{removed}`."""
        removed = config_file.remove_source(self._engine.locations.config_file, _absolute(path))
        self._follow()
        return {"removed": shown_path(removed)}

    def why(self, path: str) -> Record:
        """Say why a path is in its state."""
        return why_record(self._engine.kb.why(_absolute(path)))

    def check(self) -> Record:
        """Check that the database is whole."""
        return check_record(self._engine.kb.check())

    def rescan(self) -> Record:
        """Have every source walked now: `{ticket}` for `settled`."""
        return {"ticket": self._running().rescan()}

    def settled(self, ticket: int) -> Record:
        """Return `{settled, indexed, skipped, failed, paused, waiting}`: whether all is done that was asked for."""
        settled = self._running().settled(ticket)
        sources = self.sources()["sources"]
        totals = {
            state: sum(source["files"][state] for source in sources) for state in ("indexed", "skipped", "failed")
        }
        paused = [source["path"] for source in sources if source["state"] in ("paused", "held")]
        return {"settled": settled, **totals, "paused": paused, "waiting": self._engine.kb.unsettled()}

    def _follow(self) -> None:
        if self._daemon is not None:
            self._daemon.reload()
        else:
            self._engine.sources.follow(load_settings(self._engine.locations.config_file))

    def _running(self) -> Daemon:
        if self._daemon is None:
            raise NotRunning("The daemon is not running.", hint="Start it with `kbsync run`.")
        return self._daemon

    def _device(self) -> Record:
        """Name the devices that have the model loaded; before that, what is configured."""
        names = self._engine.batcher.device_names
        if not names:
            return {"kind": str(self._engine.settings.models.device), "name": None, "count": 0, "memory": None}
        from kbsync.embed.sentence_transformer import device_info

        info = device_info(names)
        return {"kind": info.kind, "name": info.name, "count": info.count, "memory": info.memory}


def _absolute(path: str) -> str:
    """Resolve the folders on the way, not the last name: a link that is named is told as a link."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError("A path must be absolute.")
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)


def _in_range(limit: int, offset: int) -> None:
    if not 0 < limit <= LIMIT or not 0 <= offset <= LARGEST_OFFSET:
        raise UsageError(f"limit must be 1 to {LIMIT}, offset 0 to {LARGEST_OFFSET}.")


def _notices(sources: Sequence[Record], running: dict[str, object]) -> list[str]:
    """Return what needs a person, a sentence each."""
    found = [str(source["detail"]) for source in sources if source["detail"]]
    found += [
        f"{source['files']['failed']} file{'s' if source['files']['failed'] > 1 else ''} in {source['path']} could not "
        "be read; `kbsync why PATH` tells why."
        for source in sources
        if source["files"]["failed"]
    ]
    for key in ("config_error", "model_error"):
        if running.get(key):
            found.append(str(running[key]))
    return found
