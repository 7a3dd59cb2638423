"""Uploads: a document's bytes as the body of a request, staged piece by piece as they come, never whole in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from kbsync.errors import UsageError
from kbsync.file_types import DocumentType
from kbsync.interfaces.http.guard import BYTES, UPLOAD
from kbsync.interfaces.operations import Operations
from kbsync.model import OcrMode
from kbsync.sources.ignore import TOO_LARGE_BYTES

LARGEST_UPLOAD = TOO_LARGE_BYTES

_BODY = {"required": True, "content": {BYTES.decode(): {"schema": {"type": "string", "format": "binary"}}}}


def add_upload_route(app: FastAPI, operations: Operations, responses: dict[int | str, dict[str, Any]]) -> None:
    """Add `POST documents`."""

    @app.post(
        UPLOAD, status_code=202, summary="Upload a document", openapi_extra={"requestBody": _BODY}, responses=responses
    )
    async def upload(
        request: Request,
        filename: Annotated[str, Query(max_length=1000, description="its plain name; the ending tells the type")],
        title: Annotated[str | None, Query(max_length=1000)] = None,
        type: DocumentType | None = None,  # noqa: A002 (the name in the API)
        language: Annotated[str | None, Query(description="of code")] = None,
        ocr: OcrMode | None = None,
    ) -> dict[str, Any]:
        """Queue the body (application/octet-stream) as a document; the job tells what becomes of it.

        The bytes are on the disk when this answers. Of a job that fails they are not kept: send them again.
        """
        content = _pieces(request.stream(), asyncio.get_running_loop())
        size = int(request.headers.get("content-length", "0"))
        return await run_in_threadpool(operations.upload, filename, size, content, title, type, language, ocr)


def _pieces(stream: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Yield what comes to the event loop in a thread that may block. Raises UsageError where it breaks off."""

    async def following() -> bytes | None:
        return await anext(stream, None)

    while True:
        try:
            piece = asyncio.run_coroutine_threadsafe(following(), loop).result()
        except ClientDisconnect:
            raise UsageError("The upload broke off.", hint="Send it again.") from None
        if piece is None:
            return
        yield piece
