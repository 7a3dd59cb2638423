"""The routes that have the index made anew, and say how far it is."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from kbsync.interfaces.http.schemas import answered
from kbsync.interfaces.operations import Operations
from kbsync.model import ReindexScope


class ReindexRequest(BaseModel):
    """What is to be made anew: every vector; documents that older rules made; or both, of all documents."""

    scope: ReindexScope = "vectors"


class ReindexAnswer(BaseModel):
    """How far it is. `state`: idle, running or waiting (`error` says why); `left_s` is a guess."""

    model_config = ConfigDict(extra="allow")

    state: str
    model_name: str
    live_model_name: str
    chunks_done: int
    chunks_total: int
    stale_left: int
    begun_at: str | None
    finished_at: str | None
    left_s: int | None
    error: str | None


def add_reindex_routes(app: FastAPI, operations: Operations) -> None:
    """Add `POST` and `GET reindex`. The first returns at once; search goes on meanwhile."""

    @app.post("/api/v1/reindex", status_code=202, responses=answered(ReindexAnswer, 202))
    def reindex(request: ReindexRequest | None = None) -> dict[str, Any]:
        return operations.reindex("vectors" if request is None else request.scope)

    @app.get("/api/v1/reindex", responses=answered(ReindexAnswer))
    def reindex_status() -> dict[str, Any]:
        return operations.reindex_status()
