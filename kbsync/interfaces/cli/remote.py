"""The running daemon under the method names of `Operations`, so that a command is written once."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.interfaces.cli.client import Client, Record
from kbsync.interfaces.narrowing import EVERYTHING, Narrowing
from kbsync.interfaces.paths import decoded_record, encode


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

    def documents(self, state: str | None, document_type: str | None, limit: int, offset: int) -> Record:
        return self._client.get("documents", state=state or "all", type=document_type, limit=limit, offset=offset)

    def document(self, document_id: int) -> Record:
        return self._client.get(f"documents/{document_id}")

    def remove_document(self, document_id: int) -> Record:
        return self._client.delete(f"documents/{document_id}")

    def sources(self) -> Record:
        return self._client.get("sources")

    def add_source(self, path: str, *, recursive: bool = True, ignore: Sequence[str] = ()) -> Record:
        return self._client.post("sources", {"path": path, "recursive": recursive, "ignore": list(ignore)})

    def remove_source(self, path: str) -> Record:
        return self._client.post("local/sources/remove", {"path": encode(path)})

    def why(self, path: str) -> Record:
        return self._client.post("local/why", {"path": encode(path)})

    def check(self) -> Record:
        return self._client.post("local/check")

    def reindex(self, scope: str = "vectors") -> Record:
        return self._client.post("reindex", {"scope": scope})

    def reindex_status(self) -> Record:
        return self._client.get("reindex")

    def rescan(self) -> Record:
        return self._client.post("local/rescan")

    def settled(self, ticket: int) -> Record:
        return self._client.get("local/settled", ticket=ticket)
