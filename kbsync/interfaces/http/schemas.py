"""The shapes of the answers, for the API's description. A contract: fields are added, never renamed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Record(BaseModel):
    # What is added later is no mistake.
    model_config = ConfigDict(extra="allow")


class Refusal(_Record):
    """Why a request was not done. `kind` is the error's class."""

    error: str
    hint: str
    kind: str


class Device(_Record):
    """What the model runs on; `memory` in bytes."""

    kind: str
    name: str | None
    count: int
    memory: int | None


class Database(_Record):
    """What is in the index."""

    documents_by_type: dict[str, int]
    total_chunks: int
    size_bytes: int


class Queue(_Record):
    """What waits and what runs."""

    queued: int
    processing: int


class SourceRecord(_Record):
    """A configured folder, and how many of its paths are in each state."""

    path: str
    mode: str
    state: str
    reason: str | None
    detail: str | None
    since: str | None
    last_scan_at: str | None
    files: dict[str, int]


class Status(_Record):
    """How the engine is doing. `endpoints` are the URLs that answer, `notices` what needs a person."""

    version: str
    running: bool
    pid: int
    model_name: str
    embedding_dim: int
    device: Device
    database: Database
    queue: Queue
    files: dict[str, Any]
    added: dict[str, int]
    taken_in: int
    sources: list[SourceRecord]
    rest: dict[str, Any] | None
    slowed: bool
    watchers: list[dict[str, Any]]
    projects: list[dict[str, Any]]
    scheduler: dict[str, Any]
    schedule: list[dict[str, Any]]
    endpoints: list[str]
    last_check: dict[str, Any]
    notices: list[str]


class HitRecord(_Record):
    """A document found, by its best chunk."""

    rank: int
    score: float
    document_id: int
    chunk_id: int
    title: str
    type: str
    path: str | None
    paths: list[str]
    section_header: str | None
    page: int | None
    state: str
    snippet: str
    text: str


class SearchAnswer(_Record):
    """The hits, best first. `mode` is what was really done; `notice` says why where it is not what was asked.

    `hint`: what to try where nothing was found; `notices`: what needs a person, whatever was searched for.
    """

    query: str
    mode: str
    took_ms: float
    hits: list[HitRecord]
    notice: str | None
    hint: str | None
    notices: list[str]


class Accepted(_Record):
    """The job that does it."""

    job_id: int


class DocumentRecord(_Record):
    """A document. Times are ISO 8601 in UTC."""

    id: int
    title: str
    type: str
    language: str | None
    state: str
    reason: str | None
    content_hash: str
    original_filename: str | None
    stored_path: str | None
    size_bytes: int
    page_count: int | None
    paths: list[str]
    created_at: str
    updated_at: str
    metadata: dict[str, Any]


class ChunkRecord(_Record):
    """A part of a document, as it stands there."""

    id: int
    position: int
    text: str
    token_count: int
    metadata: dict[str, Any]


class DocumentWithChunks(DocumentRecord):
    """A document and its parts, in order."""

    chunks: list[ChunkRecord]


class DocumentsAnswer(_Record):
    """Newest first; `total` of those asked for."""

    documents: list[DocumentRecord]
    total: int


class RemovedDocument(_Record):
    """What was taken out."""

    removed: DocumentRecord


class JobRecord(_Record):
    """A job: queued, processing, done, failed or skipped. `document_id` and `chunk_count` when it is done."""

    id: int
    state: str
    kind: str
    path: str
    attempts: int
    not_before: str | None
    reason: str | None
    error: str | None
    document_id: int | None
    chunk_count: int | None
    created_at: str
    updated_at: str


class JobsAnswer(_Record):
    """Newest first; `total` of those asked for."""

    jobs: list[JobRecord]
    total: int


class RetriedJob(_Record):
    """The job that runs again: the same, or a new one."""

    job: JobRecord


class SourcesAnswer(_Record):
    """The configured folders."""

    sources: list[SourceRecord]
    total: int


class AddedSource(_Record):
    """The folder, as it stands in the configuration."""

    added: str


_REFUSALS = (400, 401, 403, 404, 408, 409, 411, 413, 415, 422, 503)
REFUSALS: dict[int | str, dict[str, Any]] = {status: {"model": Refusal} for status in _REFUSALS}


def answered(model: type[BaseModel], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the description of a route's answer."""
    return {status: {"model": model}}
