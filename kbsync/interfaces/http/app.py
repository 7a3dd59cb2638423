"""The HTTP API under /api/v1: thin routes over `Operations`. Routes below /local need the user's own file system."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from kbsync.errors import (
    ConfigurationError,
    EngineBusy,
    FailFile,
    FileGone,
    KbsyncError,
    NotFound,
    RetryLater,
    SkipFile,
    UsageError,
)
from kbsync.file_types import DocumentType
from kbsync.interfaces.http.body_limit import BodyLimit
from kbsync.interfaces.operations import LIMIT, Operations
from kbsync.interfaces.paths import decoded, encoded
from kbsync.model import SearchMode
from kbsync.version import version

_STATUS: tuple[tuple[type[KbsyncError], int], ...] = (
    (UsageError, 400),
    (NotFound, 404),
    (FileGone, 404),
    (ConfigurationError, 409),
    (EngineBusy, 409),
    (SkipFile, 422),
    (FailFile, 422),
    (RetryLater, 503),
)
# More than anybody types; longer ones are refused, not cut.
_QUERY_CHARACTERS = 10_000
# The longest note or list of paths, with room to spare.
LARGEST_BODY = 16 * (1 << 20)
# SQLite has no larger number.
_LARGEST_ID = (1 << 63) - 1

Record = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=LIMIT)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
DocumentId = Annotated[int, Path(ge=0, le=_LARGEST_ID)]
JobIds = Annotated[list[Annotated[int, Field(ge=0, le=_LARGEST_ID)]], Field(max_length=LIMIT)]


class NoteRequest(BaseModel):
    """A note to add."""

    text: str
    title: str | None = None


class SourceRequest(BaseModel):
    """A folder to follow."""

    path: str
    recursive: bool = True
    ignore: list[str] = []


class PathRequest(BaseModel):
    """A path of this machine, percent-encoded from its raw bytes, so that any name can be told."""

    path: str
    recursive: bool = False


class AddRequest(BaseModel):
    """Files to stage and queue, with what was set by hand. Paths and `password_file` as in PathRequest."""

    paths: list[str] = Field(max_length=1000)
    title: str | None = None
    type: DocumentType | None = None
    language: str | None = None
    ocr: str | None = None
    password_file: str | None = None


def build_app(operations: Operations) -> FastAPI:
    """Return the app. Every route blocks in a thread of its own; none holds the event loop."""
    app = FastAPI(title="kbsync", version=version(), docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json")

    @app.exception_handler(KbsyncError)
    def failed(_request: Request, error: KbsyncError) -> JSONResponse:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return JSONResponse(
            {"error": error.message, "hint": error.hint, "kind": type(error).__name__}, status_code=status
        )

    @app.exception_handler(RequestValidationError)
    def refused(_request: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not repeated: it may be something that JSON cannot carry (NaN, half a surrogate pair).
        mistakes = [f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}" for found in error.errors()]
        message = UsageError("; ".join(mistakes)).message
        return JSONResponse({"error": message, "hint": "", "kind": UsageError.__name__}, status_code=422)

    app.add_middleware(BodyLimit, largest=LARGEST_BODY)
    _add_public_routes(app, operations)
    _add_local_routes(app, operations)
    return app


def _add_public_routes(app: FastAPI, operations: Operations) -> None:
    @app.get("/api/v1/status")
    def status() -> Record:
        return operations.status()

    @app.get("/api/v1/search")
    def search(
        q: Annotated[str, Query(max_length=_QUERY_CHARACTERS)],
        mode: SearchMode = "hybrid",
        limit: Limit = 10,
        offset: Offset = 0,
    ) -> Record:
        return operations.search(q, mode, limit, offset)

    @app.post("/api/v1/notes", status_code=202)
    def note(request: NoteRequest) -> Record:
        return operations.note(request.text, request.title)

    @app.get("/api/v1/documents")
    def documents(
        state: Literal["current", "superseded", "missing", "all"] = "current",
        type: DocumentType | None = None,  # noqa: A002 (the name in the API)
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Record:
        return operations.documents(None if state == "all" else state, type, limit, offset)

    @app.get("/api/v1/documents/{document_id}")
    def document(document_id: DocumentId) -> Record:
        return operations.document(document_id)

    @app.delete("/api/v1/documents/{document_id}")
    def remove_document(document_id: DocumentId) -> Record:
        return operations.remove_document(document_id)

    @app.get("/api/v1/jobs")
    def jobs(
        state: Literal["queued", "processing", "done", "failed", "skipped"] | None = None, limit: Limit = 100
    ) -> Record:
        return operations.jobs(state, limit)

    @app.get("/api/v1/sources")
    def sources() -> Record:
        return operations.sources()

    @app.post("/api/v1/sources")
    def add_source(request: SourceRequest) -> Record:
        return operations.add_source(request.path, recursive=request.recursive, ignore=request.ignore)


def _add_local_routes(app: FastAPI, operations: Operations) -> None:
    @app.post("/api/v1/local/sources/remove")
    def remove_source(request: PathRequest) -> Record:
        return operations.remove_source(decoded(request.path))

    @app.post("/api/v1/local/expand")
    def expand(request: PathRequest) -> Record:
        return encoded(operations.expand(decoded(request.path), recursive=request.recursive))

    @app.post("/api/v1/local/add")
    def add(request: AddRequest) -> Record:
        paths = [decoded(path) for path in request.paths]
        password_file = None if request.password_file is None else decoded(request.password_file)
        return encoded(operations.add(paths, request.title, request.type, request.language, request.ocr, password_file))

    @app.post("/api/v1/local/jobs")
    def jobs_by_id(job_ids: JobIds) -> Record:
        return operations.jobs_by_id(job_ids)

    @app.post("/api/v1/local/why")
    def why(request: PathRequest) -> Record:
        return operations.why(decoded(request.path))

    @app.post("/api/v1/local/check")
    def check() -> Record:
        return operations.check()

    @app.post("/api/v1/local/rescan")
    def rescan() -> Record:
        return operations.rescan()

    @app.get("/api/v1/local/settled")
    def settled(ticket: int) -> Record:
        return operations.settled(ticket)
