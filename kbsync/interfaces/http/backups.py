"""The route that writes a backup, over the Unix socket only: it goes to a folder of the user's own choice."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from kbsync.interfaces.operations import Operations
from kbsync.interfaces.paths import decoded


class BackupRequest(BaseModel):
    """The folder to write, percent-encoded from its raw bytes."""

    path: str


def add_backup_route(app: APIRouter, operations: Operations) -> None:
    """Add `POST local/backup`. It answers when the backup is there."""

    @app.post("/api/v1/local/backup")
    def backup(request: BackupRequest) -> dict[str, Any]:
        return operations.backup(decoded(request.path))
