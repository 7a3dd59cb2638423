"""The running daemon under the method names of `Operations`, so that a command is written once."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.interfaces.cli.client import Client, Record
from kbsync.interfaces.narrowing import EVERYTHING, Narrowing
from kbsync.interfaces.paths import decoded, decoded_record, encode
from kbsync.model import SourceMode


class Remote:
    """What a command asks, sent to the daemon."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def status(self) -> Record:
        return self._client.get("status")

    def search(
        self,
        query: str,
        mode: str = "hybrid",
        limit: int = 10,
        offset: int = 0,
        narrowing: Narrowing = EVERYTHING,
    ) -> Record:
        return self._client.get(
            "search",
            q=query,
            mode=mode,
            limit=limit,
            offset=offset,
            type=narrowing.types,
            source=narrowing.sources,
            path=narrowing.places,
            language=narrowing.languages,
            title=narrowing.title,
            section=narrowing.section,
            since=narrowing.since,
            until=narrowing.until,
            all_versions=narrowing.all_versions,
        )

    def expand(self, path: str, *, recursive: bool, dry_run: bool = False) -> Record:
        body = {"path": encode(path), "recursive": recursive, "dry_run": dry_run}
        return decoded_record(self._client.post("local/expand", body))

    def add(
        self,
        paths: Sequence[str],
        title: str | None,
        document_type: str | None,
        language: str | None,
        ocr: str | None = None,
        password_file: str | None = None,
    ) -> Record:
        body = {
            "paths": [encode(path) for path in paths],
            "title": title,
            "type": document_type,
            "language": language,
            "ocr": ocr,
            "password_file": None if password_file is None else encode(password_file),
        }
        return decoded_record(self._client.post("local/add", body))

    def look_at(
        self, paths: Sequence[str], title: str | None, document_type: str | None, language: str | None, ocr: str | None
    ) -> Record:
        body = {
            "paths": [encode(path) for path in paths],
            "title": title,
            "type": document_type,
            "language": language,
            "ocr": ocr,
        }
        return decoded_record(self._client.post("local/look", body))

    def survey(self, path: str, *, recursive: bool = True, ignore: Sequence[str] = ()) -> Record:
        body = {"path": encode(path), "recursive": recursive, "ignore": list(ignore)}
        return self._client.post("local/survey", body)

    def note(self, text: str, title: str | None) -> Record:
        return self._client.post("notes", {"text": text, "title": title})

    def jobs_by_id(self, job_ids: Sequence[int]) -> Record:
        return self._client.post("local/jobs", list(job_ids))

    def jobs(self, state: str | None = None, limit: int = 100) -> Record:
        return self._client.get("jobs", state=state, limit=limit)

    def retry_job(self, job_id: int) -> Record:
        return self._client.post(f"jobs/{job_id}/retry")

    def retry_failed(self) -> Record:
        return self._client.post("local/jobs/retry-failed")

    def documents(self, state: str | None, document_type: str | None, limit: int, offset: int) -> Record:
        return self._client.get("documents", state=state or "all", type=document_type, limit=limit, offset=offset)

    def document(self, document_id: int) -> Record:
        return self._client.get(f"documents/{document_id}")

    def remove_document(self, document_id: int) -> Record:
        return self._client.delete(f"documents/{document_id}")

    def content(self, document_id: int | None = None, path: str | None = None) -> Record:
        body = {"document_id": document_id, "path": None if path is None else encode(path)}
        found = self._client.post("local/content", body)
        copy = None if found["copy"] is None else decoded(found["copy"])
        files = [decoded(file) for file in found["files"]]
        damaged = [decoded(file) for file in found["damaged"]]
        return {**found, "name": decoded(found["name"]), "copy": copy, "damaged": damaged, "files": files}

    def to_purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> Record:
        return self._purge(older_than_days, document_id, dry_run=True)

    def purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> Record:
        return self._purge(older_than_days, document_id, dry_run=False)

    def _purge(self, older_than_days: float, document_id: int | None, *, dry_run: bool) -> Record:
        body = {"older_than_days": older_than_days, "document_id": document_id, "dry_run": dry_run}
        return self._client.post("local/purge", body)

    def sources(self) -> Record:
        return self._client.get("sources")

    def add_source(
        self,
        path: str,
        *,
        recursive: bool = True,
        ignore: Sequence[str] = (),
        mode: SourceMode = "mirror",
        confirmed: bool = False,
    ) -> Record:
        asked = {"path": path, "recursive": recursive, "ignore": list(ignore), "mode": mode, "confirmed": confirmed}
        return self._client.post("sources", asked)

    def remove_source(self, path: str) -> Record:
        return self._client.post("local/sources/remove", {"path": encode(path)})

    def pause_source(self, path: str) -> Record:
        return self._client.post("local/sources/pause", {"path": encode(path)})

    def resume_source(self, path: str) -> Record:
        return self._client.post("local/sources/resume", {"path": encode(path)})

    def confirm_source(self, path: str) -> Record:
        return self._client.post("local/sources/confirm", {"path": encode(path)})

    def diff(self, source: str | None = None, limit: int = 100) -> Record:
        return self._client.post("local/diff", {"source": None if source is None else encode(source), "limit": limit})

    def history(self, path: str | None = None, limit: int = 100) -> Record:
        return self._client.post("local/history", {"path": None if path is None else encode(path), "limit": limit})

    def why(self, path: str) -> Record:
        return self._client.post("local/why", {"path": encode(path)})

    def check(self, *, repair: bool = False) -> Record:
        return self._client.post("local/check?repair=true" if repair else "local/check")

    def backup(self, path: str) -> Record:
        return self._client.post("local/backup", {"path": encode(path)})

    def reindex(self, scope: str = "vectors") -> Record:
        return self._client.post("reindex", {"scope": scope})

    def reindex_status(self) -> Record:
        return self._client.get("reindex")

    def pause(self, seconds: float | None) -> Record:
        return self._client.post("local/pause", {"seconds": seconds})

    def resume(self) -> Record:
        return self._client.post("local/resume")

    def rescan(self) -> Record:
        return self._client.post("local/rescan")

    def settled(self, ticket: int) -> Record:
        return self._client.get("local/settled", ticket=ticket)
