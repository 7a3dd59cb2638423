"""The routes over the Unix socket that ask about single paths and documents, and pass a person's word on to sources."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kbsync.interfaces.operations import LIMIT, Operations
from kbsync.interfaces.paths import decoded, encode

Record = dict[str, Any]


class FolderRequest(BaseModel):
    """A source's path, percent-encoded from its raw bytes."""

    path: str


class HistoryRequest(BaseModel):
    """A path, percent-encoded from its raw bytes, or none for everything."""

    path: str | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT)] = 100


class DiffRequest(BaseModel):
    """A source's path, percent-encoded from its raw bytes, or none for all of them."""

    source: str | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT)] = 100


class ContentRequest(BaseModel):
    """A document by its number, or by a path (percent-encoded from its raw bytes) that holds it."""

    document_id: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    path: str | None = None


class PurgeRequest(BaseModel):
    """What is to be purged: documents that nothing holds since so many days, or one of them."""

    older_than_days: Annotated[float, Field(ge=0, le=36_500)] = 0.0
    document_id: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    dry_run: bool = True


def add_ledger_routes(app: APIRouter, operations: Operations) -> None:
    """Add them below `/api/v1/local`."""

    @app.post("/api/v1/local/sources/pause")
    def pause_source(request: FolderRequest) -> Record:
        return operations.pause_source(decoded(request.path))

    @app.post("/api/v1/local/sources/resume")
    def resume_source(request: FolderRequest) -> Record:
        return operations.resume_source(decoded(request.path))

    @app.post("/api/v1/local/sources/confirm")
    def confirm_source(request: FolderRequest) -> Record:
        return operations.confirm_source(decoded(request.path))

    @app.post("/api/v1/local/history")
    def history(request: HistoryRequest) -> Record:
        return operations.history(None if request.path is None else decoded(request.path), request.limit)

    @app.post("/api/v1/local/diff")
    def diff(request: DiffRequest) -> Record:
        return operations.diff(None if request.source is None else decoded(request.source), request.limit)

    @app.post("/api/v1/local/jobs/retry-failed")
    def retry_failed() -> Record:
        return operations.retry_failed()

    @app.post("/api/v1/local/content")
    def content(request: ContentRequest) -> Record:
        path = None if request.path is None else decoded(request.path)
        found = operations.content(request.document_id, path)
        copy = None if found["copy"] is None else encode(found["copy"])
        return {
            **found,
            "name": encode(found["name"]),
            "copy": copy,
            "damaged": [encode(file) for file in found["damaged"]],
            "files": [encode(file) for file in found["files"]],
        }

    @app.post("/api/v1/local/purge")
    def purge(request: PurgeRequest) -> Record:
        ask = operations.to_purge if request.dry_run else operations.purge
        return ask(request.older_than_days, request.document_id)
