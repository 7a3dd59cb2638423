"""Everything that can be asked, in JSON values: the routes of HTTP and, without a daemon, the commands call it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kbsync.compose import Engine
from kbsync.config import file as config_file
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.errors import FailFile, FileGone, NotRunning, RetryLater, SkipFile
from kbsync.interfaces import notices as told
from kbsync.interfaces.hints import hint_of
from kbsync.interfaces.ledger import Ledger
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
    search_record,
    shown_path,
    source_record,
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
from kbsync.model import IngestOptions, Source, SourceMode
from kbsync.sources.ignore import rules_for
from kbsync.version import version

LIMIT = LARGEST_LIMIT
# A folder is counted for so many seconds at most: whoever asks waits.
_SURVEY_S = 5.0


class Operations(Ledger):
    """What an open engine can be asked, with its daemon or without. Any thread may ask.

    Paths come in and go out as text; bytes that are no UTF-8 travel as surrogate escapes on the way in.
    """

    def __init__(
        self, engine: Engine, daemon: Daemon | None, endpoints: Sequence[str] = (), notices: Sequence[str] = ()
    ) -> None:
        super().__init__(engine)
        self._daemon = daemon
        self._endpoints = list(endpoints)
        self._standing_notices = list(notices)

    def status(self) -> Record:
        """Return what `status` shows."""
        batcher = self._engine.batcher
        statistics = self._engine.kb.statistics()
        last_check = str(statistics.pop("last_check") or "")
        running = {} if self._daemon is None else self._daemon.status()
        if isinstance(scheduler := running.get("scheduler"), dict):
            running["scheduler"] = {name: time_of(at) for name, at in scheduler.items()}
        sources = self.sources()["sources"]
        reindex = self.reindex_status()
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
            "sources": sources,
            "watchers": [],
            "scheduler": {},
            **running,
            "endpoints": self._endpoints,
            "last_check": {
                "at": time_of(float(last_check.split()[0])) if last_check else None,
                "ok": last_check.endswith("ok") if last_check else None,
            },
            "notices": [
                *self._standing_notices,
                *self._pressing(sources),
                *told.of_failures(*self._engine.kb.failures(), lasting=True),
                *told.of_engine(running),
                *reindex_notices(reindex),
            ],
        }

    def _pressing(self, sources: Sequence[Record]) -> list[str]:
        """Return the notices that a person should not have to look for."""
        watchers = [] if self._daemon is None else self._daemon.loops.watchers.status()
        return [
            *told.of_sources(sources, self._engine.seams.clock.now()),
            *told.of_watchers(watchers),
            *told.of_failures(*self._engine.kb.failures(), lasting=False),
        ]

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
        found = self._engine.kb.search(
            query, known_mode(mode), limit, offset, narrowing.filters(), every_version=narrowing.all_versions
        )
        record = search_record(found)
        if not found.hits and not offset:
            unmet = self._engine.kb.unmet(query, narrowing.filters(), every_version=narrowing.all_versions)
            record["hint"] = hint_of(unmet)
        record["notices"] = self._pressing(self.sources()["sources"])
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

    def survey(self, path: str, *, recursive: bool = True, ignore: Sequence[str] = ()) -> Record:
        """Return `{files, size_bytes, complete, by_type: {type: {files, size_bytes}}}` of a folder, within seconds."""
        found = self._engine.kb.adding.survey(
            os.path.realpath(absolute_path(path)), recursive=recursive, ignore=tuple(ignore), within_s=_SURVEY_S
        )
        by_type = {kind: {"files": count, "size_bytes": found.sizes[kind]} for kind, count in found.files.items()}
        return {
            "files": sum(found.files.values()),
            "size_bytes": sum(found.sizes.values()),
            "complete": found.complete,
            "by_type": by_type,
        }

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

    def sources(self) -> Record:
        """Return `{sources, total}`: the configured folders and how they are doing."""
        rows, counts = self._engine.kb.sources()
        records = [source_record(row, counts.get(row.id, {}), running=self._daemon is not None) for row in rows]
        modes = {
            **{entry.path: entry.mode for entry in self._engine.settings.sources},
            **{source.path: source.mode for source in self._engine.sources.all()},
        }
        for row, record in zip(rows, records, strict=True):
            record["mode"] = modes.get(row.path, "mirror")
        if self._daemon is not None:
            # A walk that finds nothing new writes nothing: only the running daemon knows when it was.
            for row, record in zip(rows, records, strict=True):
                if (scan := self._daemon.loops.rescans.last.get(row.id)) is not None:
                    record["last_scan_at"] = time_of(scan.begun_at)
        return {"sources": records, "total": len(records)}

    def add_source(
        self, path: str, *, recursive: bool = True, ignore: Sequence[str] = (), mode: SourceMode = "mirror"
    ) -> Record:
        """Write a folder into the configuration and begin to follow it: `{added}`."""
        # A pattern that cannot be used is refused first.
        rules_for(Source(0, absolute_path(path), ignore=tuple(ignore)))
        added = config_file.add_source(
            self._engine.locations.config_file,
            absolute_path(path),
            recursive=recursive,
            ignore=tuple(ignore),
            mode=mode,
        )
        self._follow()
        return {"added": shown_path(added)}

    def remove_source(self, path: str) -> Record:
        """Take a folder out of the configuration; what it held is hidden from search: `{removed}`."""
        removed = config_file.remove_source(self._engine.locations.config_file, absolute_path(path))
        self._follow()
        return {"removed": shown_path(removed)}

    def pause_source(self, path: str) -> Record:
        """Have a source left alone until it is resumed: `{source}`. Raises NotFound."""
        return self._controlled(self._engine.source_control.pause(absolute_path(path)).path)

    def resume_source(self, path: str) -> Record:
        """Go on with a source that was paused: `{source}`. Raises NotFound and UsageError."""
        return self._controlled(self._engine.source_control.resume(absolute_path(path)).path)

    def confirm_source(self, path: str) -> Record:
        """Say that what a source misses is gone on purpose: `{source}`. Raises NotFound and UsageError."""
        return self._controlled(self._engine.source_control.confirm(absolute_path(path)).path)

    def _controlled(self, path: str) -> Record:
        shown = shown_path(path)
        return {"source": next(source for source in self.sources()["sources"] if source["path"] == shown)}

    def check(self) -> Record:
        """Check that the database is whole."""
        return check_record(self._engine.kb.check())

    def reindex(self, scope: str = "vectors") -> Record:
        """Have the index made anew (`vectors`, `stale` or `all`) while search goes on; return how far it is."""
        wanted = known_scope(scope)
        self._running()
        self._engine.reindexing.begin(wanted)
        self._engine.work.ring()
        return self.reindex_status()

    def reindex_status(self) -> Record:
        """Return how far the index is made anew."""
        return reindex_record(self._engine.reindexing.status())

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

    def _log_failure(self, path: str, error: str) -> None:
        self._engine.error_log.record(path, error, self._engine.seams.clock.now())

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


def _options(
    title: str | None, document_type: str | None, language: str | None, ocr: str | None, password_file: str | None
) -> IngestOptions:
    """Return what was set by hand; a language without a type means code. Raises UsageError."""
    known, kind = known_language(language), known_file_type(document_type)
    if known is not None and kind is None:
        kind = "code"
    return IngestOptions(title, kind, known, known_ocr(ocr), password_file)
