"""The routes over the Unix socket by which a person has all work rest, and go on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kbsync.interfaces.operations import Operations

Record = dict[str, Any]


class PauseRequest(BaseModel):
    """For how many seconds; none: until somebody says otherwise."""

    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


def add_rest_routes(app: APIRouter, operations: Operations) -> None:
    """Add them below `/api/v1/local`."""

    @app.post("/api/v1/local/pause")
    def pause(request: PauseRequest) -> Record:
        return operations.pause(request.seconds)

    @app.post("/api/v1/local/resume")
    def resume() -> Record:
        return operations.resume()
