"""Everything that can be asked, in JSON values: the routes of HTTP and, without a daemon, the commands call it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kbsync.compose import Engine
from kbsync.config.relocated import entries_of
from kbsync.daemon.daemon import Daemon
from kbsync.errors import FailFile, FileGone, NotRunning, RetryLater, SkipFile, UsageError
from kbsync.interfaces import notices as told
from kbsync.interfaces.backups import backup_record
from kbsync.interfaces.folders import Folders
from kbsync.interfaces.hints import hint_of
from kbsync.interfaces.measured import Measuring
from kbsync.interfaces.narrowing import EVERYTHING, Narrowing
from kbsync.interfaces.paths import absolute_path
from kbsync.interfaces.records import (
    Record,
    check_record,
    chunk_record,
    conversion_record,
    document_record,
    reindex_notices,
    reindex_record,
    rest_record,
    schedule_record,
    search_record,
    time_of,
)
from kbsync.interfaces.values import (
    LARGEST_LIMIT,
    in_range,
    known_file_type,
    known_language,
    known_listed_type,
    known_mode,
    known_ocr,
    known_scope,
)
from kbsync.knowledge_base.backup import Backups
from kbsync.model import IngestOptions
from kbsync.version import version

LIMIT = LARGEST_LIMIT
_LONGEST_PAUSE_S = 366 * 86400.0


class Operations(Folders):
    """What an open engine can be asked, with its daemon or without. Any thread may ask.

    Paths come in and go out as text; bytes that are no UTF-8 travel as surrogate escapes on the way in.
    """

    def __init__(
        self, engine: Engine, daemon: Daemon | None, endpoints: Sequence[str] = (), notices: Sequence[str] = ()
    ) -> None:
        super().__init__(engine, daemon)
        self._endpoints = list(endpoints)
        self._standing_notices = list(notices)
        self.measuring = Measuring(engine, daemon)
        config_file = engine.locations.config_file
        self._backups = Backups(
            engine.locations,
            engine.writer,
            engine.readers,
            engine.stored,
            engine.seams.clock,
            engine.sources.all,
            lambda: entries_of(config_file),
            engine.own,
            engine.stop.is_set,
        )

    def status(self) -> Record:
        """Return what `status` shows."""
        batcher = self._engine.batcher
        statistics = self._engine.kb.statistics()
        last_check = str(statistics.pop("last_check") or "")
        checked = self._engine.kb.checkup.last()
        running = {} if self._daemon is None else self._daemon.status()
        if isinstance(scheduler := running.get("scheduler"), dict):
            running["scheduler"] = {name: time_of(at) for name, at in scheduler.items()}
        if isinstance(schedule := running.get("schedule"), list):
            running["schedule"] = [schedule_record(job) for job in schedule]
        sources = self.sources()["sources"]
        reindex, rest = self.reindex_status(), self._rest()
        return {
            "version": version(),
            "running": self._daemon is not None,
            "pid": os.getpid(),
            "model_name": batcher.model_name,
            "embedding_dim": batcher.dimension,
            "device": self._device(),
            **statistics,
            "reindex": reindex,
            "conversion": conversion_record(self._engine.slots, self._engine.cage.status()),
            "rest": rest,
            "slowed": self._engine.rest.slows(),
            "sources": sources,
            "watchers": [],
            "projects": [],
            "scheduler": {},
            "schedule": [],
            **running,
            "endpoints": self._endpoints,
            "last_check": {
                "at": time_of(float(last_check.split()[0])) if last_check else None,
                "ok": last_check.endswith("ok") if last_check else None,
                "problems": check_record(checked)["problems"],
            },
            "notices": [
                *([] if rest is None else [rest["detail"]]),
                *self._standing_notices,
                *self._set_aside(),
                *self._built_anew(),
                *self._pressing(sources),
                *told.of_projects(running.get("projects")),
                *told.of_check(checked),
                *told.of_failures(*self._engine.kb.failures(), lasting=True),
                *told.of_engine(running),
                *self._engine.shortcomings(),
                *reindex_notices(reindex, self._engine.rest.defers() or str(running.get("model_error"))),
            ],
        }

    def _set_aside(self) -> list[str]:
        told_of = self._engine.kb.set_aside(self._engine.locations.data_dir)
        return [] if told_of is None else [told_of]

    def _built_anew(self) -> list[str]:
        unread = self._engine.kb.unread()
        return told.of_unread(unread, running=self._daemon is not None) if unread.is_anew else []

    def _pressing(self, sources: Sequence[Record]) -> list[str]:
        """Return the notices that a person should not have to look for."""
        watchers = [] if self._daemon is None else self._daemon.loops.watchers.status()
        outage = self._engine.outage.notice()
        return [
            *([outage] if outage is not None else self._room()),
            *self._held_log(),
            *told.of_sources(sources, self._engine.seams.clock.now()),
            *told.of_watchers(watchers),
            *told.of_failures(*self._engine.kb.failures(), lasting=False),
        ]

    def _held_log(self) -> list[str]:
        wal = self._engine.writer.wal
        if wal is None or not wal.held:
            return []
        return told.of_write_ahead_log(self._engine.locations.database, wal.bytes)

    def _room(self) -> list[str]:
        return told.of_room(self._engine.kb.waiting_for_room(), self._engine.locations.data_dir)

    def search(
        self,
        query: str,
        mode: str = "hybrid",
        limit: int = 10,
        offset: int = 0,
        narrowing: Narrowing = EVERYTHING,
    ) -> Record:
        """Return the hits for a query of any characters."""
        in_range(limit, offset)
        wanted, filters = known_mode(mode), narrowing.filters()
        with self._engine.measures.searches.time(wanted):
            found = self._engine.kb.search(query, wanted, limit, offset, filters, every_version=narrowing.all_versions)
        record = search_record(found)
        if not found.hits and not offset:
            unmet = self._engine.kb.unmet(query, narrowing.filters(), every_version=narrowing.all_versions)
            record["hint"] = hint_of(unmet)
        checkup = self._engine.kb.checkup
        rest = self._rest()
        record["notices"] = [
            *([rest["detail"]] if rest is not None and self._engine.kb.unsettled() else []),
            *told.of_words(checkup.last(), is_met=self._daemon is None and checkup.met_damage()),
            *self._built_anew(),
            *self._pressing(self.sources()["sources"]),
        ]
        return record

    def expand(self, path: str, *, recursive: bool, dry_run: bool = False) -> Record:
        """Return `{files, skipped, failed}`: what a path named by hand stands for. A dry run logs no failure."""
        try:
            found = self._engine.kb.adding.expand(absolute_path(path), recursive=recursive)
        except (FailFile, FileGone, RetryLater) as error:
            if not dry_run:
                self._log_failure(path, str(error))
            raise
        for where, message in () if dry_run else found.failed:
            self._log_failure(where, message)
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
            password_file = absolute_path(password_file)
        options = _options(title, document_type, language, ocr, password_file)
        jobs: list[Record] = []
        skipped: list[Record] = []
        failed: list[Record] = []
        for path in paths:
            try:
                job_id = self._engine.kb.adding.add_file(absolute_path(path), options)
            except SkipFile as error:
                skipped.append({"path": path, "reason": error.reason, "detail": str(error)})
            except (FailFile, FileGone, RetryLater) as error:
                self._log_failure(path, str(error))
                failed.append({"path": path, "error": str(error)})
            else:
                jobs.append({"path": path, "job_id": job_id})
        if jobs:
            self._engine.work.ring()
        return {"jobs": jobs, "skipped": skipped, "failed": failed}

    def look_at(
        self, paths: Sequence[str], title: str | None, document_type: str | None, language: str | None, ocr: str | None
    ) -> Record:
        """Say what `add` would do: `{wanted: [{path, type, size_bytes}], skipped: [...], failed: [...]}`."""
        options = _options(title, document_type, language, ocr, None)
        wanted: list[Record] = []
        skipped: list[Record] = []
        failed: list[Record] = []
        for path in paths:
            try:
                found = self._engine.kb.adding.look_at(absolute_path(path), options)
            except SkipFile as error:
                skipped.append({"path": path, "reason": error.reason, "detail": str(error)})
            except (FailFile, FileGone, RetryLater) as error:
                failed.append({"path": path, "error": str(error)})
            else:
                if found is None:
                    skipped.append({"path": path, "reason": "already_indexed", "detail": None})
                else:
                    wanted.append({"path": path, "type": found[0], "size_bytes": found[1]})
        return {"wanted": wanted, "skipped": skipped, "failed": failed}

    def upload(
        self,
        name: str,
        size: int,
        content: Iterable[bytes],
        title: str | None = None,
        document_type: str | None = None,
        language: str | None = None,
        ocr: str | None = None,
    ) -> Record:
        """Stage and queue what is sent under a file name: `{job_id}`. `size` is what was announced, in bytes."""
        options = _options(title, document_type, language, ocr, None)
        job_id = self._engine.kb.adding.add_upload(name, size, content, options)
        self._engine.work.ring()
        return {"job_id": job_id}

    def note(self, text: str, title: str | None) -> Record:
        """Queue a note: `{job_id}`."""
        job_id = self._engine.kb.adding.add_note(text, title)
        self._engine.work.ring()
        return {"job_id": job_id}

    def documents(self, state: str | None, document_type: str | None, limit: int, offset: int) -> Record:
        """Return `{documents, total}`, newest first."""
        in_range(limit, offset)
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

    def check(self, *, repair: bool = False) -> Record:
        """Check that all is whole; `repair`: mend what is not. `notices` names a damaged database that is kept.

        `unread`: what a rebuild or this repair leaves to be read, a sentence; None where that is nothing.
        """
        kb = self._engine.kb
        record = check_record(kb.repair() if repair else kb.check())
        if repair and self._daemon is None:
            self._engine.reindexing.fill_gaps()
        unread = kb.unread()
        if repair:
            self._engine.work.ring()
        is_left = unread.is_anew or any(problem["repaired"] for problem in record["problems"])
        sentences = told.of_unread(unread, running=self._daemon is not None) if is_left else []
        return {**record, "unread": sentences[0] if sentences else None, "notices": self._set_aside()}

    def backup(self, path: str) -> Record:
        """Write a backup to a folder that is new or empty, as `backup_record`. Raises UsageError and RetryLater."""
        return backup_record(self._backups.write(absolute_path(path)))

    def reindex(self, scope: str = "vectors") -> Record:
        """Have the index made anew (`vectors`, `stale` or `all`) while search goes on; return how far it is."""
        wanted = known_scope(scope)
        self._running()
        self._engine.reindexing.begin(wanted)
        self._engine.work.ring()
        return self.reindex_status()

    def reindex_status(self) -> Record:
        """Return how far the index is made anew."""
        status, deferred = self._engine.reindexing.status(), self._engine.rest.defers()
        if self._daemon is not None and deferred is not None and status.state == "running":
            status = replace(status, state="waiting", error=deferred)
        return reindex_record(status)

    def pause(self, seconds: float | None) -> Record:
        """Have all work rest for so many seconds, None: until `resume`. Return `{rest}`. Raises UsageError."""
        if seconds is not None and not 0 < seconds <= _LONGEST_PAUSE_S:
            raise UsageError("A pause with an end lasts a year at most.", hint="Without one it lasts until `resume`.")
        resting = self._engine.rest.pause(seconds)
        return {"rest": rest_record(resting, self._engine.seams.clock.now())}

    def resume(self) -> Record:
        """Go on: `{was_paused, rest}`, where `rest` says what still stands in the way, such as quiet hours."""
        return {"was_paused": self._engine.rest.resume(), "rest": self._rest()}

    def _rest(self) -> Record | None:
        return rest_record(self._engine.rest.now(), self._engine.seams.clock.now())

    def rescan(self) -> Record:
        """Have every source walked now: `{ticket}` for `settled`."""
        return {"ticket": self._running().rescan()}

    def settled(self, ticket: int) -> Record:
        """Say whether all is done: `{settled, indexed, skipped, failed, paused, waiting, held_up, rest}`.

        `held_up` says why what is left will not be done for now, None while it is being done; `rest` is as in `status`
        where that is why.
        """
        settled = self._running().settled(ticket)
        held_up = None if settled else self._running().held_up(ticket)
        sources = self.sources()["sources"]
        totals = {
            state: sum(source["files"][state] for source in sources) for state in ("indexed", "skipped", "failed")
        }
        paused = [source["path"] for source in sources if source["state"] in ("paused", "held")]
        return {
            "settled": settled,
            **totals,
            "paused": paused,
            "waiting": self._engine.kb.unsettled(),
            "held_up": held_up,
            "rest": None if held_up is None or self._engine.embedders.problem() is not None else self._rest(),
        }

    def _log_failure(self, path: str, error: str) -> None:
        self._engine.error_log.record(path, error, self._engine.seams.clock.now())

    def _running(self) -> Daemon:
        if self._daemon is None:
            raise NotRunning("The daemon is not running.", hint="Start it with `kbsync run`.")
        return self._daemon

    def _device(self) -> Record:
        """Name the devices that have the model loaded, or had last; before that, what is configured."""
        info = self._engine.batcher.device_info
        if info is None:
            return {"kind": str(self._engine.settings.models.device), "name": None, "count": 0, "memory": None}
        return {"kind": info.kind, "name": info.name, "count": info.count, "memory": info.memory}


def _options(
    title: str | None, document_type: str | None, language: str | None, ocr: str | None, password_file: str | None
) -> IngestOptions:
    """Return what was set by hand; a language without a type means code. Raises UsageError."""
    known, kind = known_language(language), known_file_type(document_type)
    if known is not None and kind is None:
        kind = "code"
    return IngestOptions(title, kind, known, known_ocr(ocr), password_file)
