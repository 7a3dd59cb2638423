"""The HTTP API under /api/v1: thin routes over `Operations`. Routes below /local need the user's own file system."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from kbsync.errors import (
    ConfigurationError,
    EngineBusy,
    FailFile,
    FileGone,
    KbsyncError,
    NotFound,
    RetryLater,
    SkipFile,
    Unconfirmed,
    UsageError,
)
from kbsync.file_types import DocumentType
from kbsync.interfaces.http.answers import refusal
from kbsync.interfaces.http.backups import add_backup_route
from kbsync.interfaces.http.body_limit import BodyLimit
from kbsync.interfaces.http.guard import UPLOAD, Access, Guard, on_socket
from kbsync.interfaces.http.job_feed import JobFeed, add_events_route
from kbsync.interfaces.http.ledger import add_ledger_routes
from kbsync.interfaces.http.metrics import add_metrics_route
from kbsync.interfaces.http.reindex import add_reindex_routes
from kbsync.interfaces.http.rest import add_rest_routes
from kbsync.interfaces.http.schemas import (
    REFUSALS,
    Accepted,
    AddedSource,
    DocumentsAnswer,
    DocumentWithChunks,
    JobRecord,
    JobsAnswer,
    RemovedDocument,
    RetriedJob,
    SearchAnswer,
    SourcesAnswer,
    Status,
    answered,
)
from kbsync.interfaces.http.uploads import LARGEST_UPLOAD, add_upload_route
from kbsync.interfaces.narrowing import Narrowing
from kbsync.interfaces.operations import LIMIT, Operations
from kbsync.interfaces.paths import decoded, encoded
from kbsync.model import SearchMode, SourceMode
from kbsync.version import version

_STATUS: tuple[tuple[type[KbsyncError], int], ...] = (
    (Unconfirmed, 409),
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
JobId = Annotated[int, Path(ge=0, le=_LARGEST_ID)]
JobIds = Annotated[list[Annotated[int, Field(ge=0, le=_LARGEST_ID)]], Field(max_length=LIMIT)]


class NoteRequest(BaseModel):
    """A note to add."""

    text: str
    title: str | None = None


class SourceRequest(BaseModel):
    """A folder to follow. `confirmed`: an inbox may be emptied of the files that it holds already."""

    path: str
    recursive: bool = True
    ignore: list[str] = []
    mode: SourceMode = "mirror"
    confirmed: bool = False


class PathRequest(BaseModel):
    """A path of this machine, percent-encoded from its raw bytes, so that any name can be told."""

    path: str
    recursive: bool = False
    dry_run: bool = False
    ignore: list[str] = []


class AddRequest(BaseModel):
    """Files to stage and queue, with what was set by hand. Paths and `password_file` as in PathRequest."""

    paths: list[str] = Field(max_length=1000)
    title: str | None = None
    type: DocumentType | None = None
    language: str | None = None
    ocr: str | None = None
    password_file: str | None = None


def build_app(operations: Operations, access: Access | None = None) -> FastAPI:
    """Return the app. Every route blocks in a thread of its own; none holds the event loop.

    `access`: what a request over TCP must know; None: only the Unix socket is answered.
    """
    app = FastAPI(
        title="kbsync",
        description="Search and feed this machine's knowledge base. Over TCP every request carries the token.",
        version=version(),
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,
        responses=REFUSALS,
        # For the description: the guard has looked at it long before.
        dependencies=[Depends(HTTPBearer(auto_error=False, description="over TCP; none on the Unix socket"))],
    )

    @app.exception_handler(KbsyncError)
    def failed(_request: Request, error: KbsyncError) -> JSONResponse:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return refusal(status, error.message, hint=error.hint, kind=type(error).__name__)

    @app.exception_handler(RequestValidationError)
    def refused(_request: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not repeated: it may be something that JSON cannot carry (NaN, half a surrogate pair).
        mistakes = [f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}" for found in error.errors()]
        return refusal(422, UsageError("; ".join(mistakes)).message)

    @app.exception_handler(HTTPException)
    def unknown(_request: Request, error: HTTPException) -> JSONResponse:
        kind = NotFound if error.status_code == 404 else UsageError
        return refusal(error.status_code, f"{error.detail}.", kind=kind.__name__, headers=dict(error.headers or {}))

    @app.exception_handler(Exception)
    def surprised(_request: Request, _error: Exception) -> JSONResponse:
        return refusal(500, "kbsync met with a mistake of its own.", hint="Its log tells which.", kind="KbsyncError")

    app.state.job_feed = JobFeed(operations)
    app.add_middleware(BodyLimit, largest=LARGEST_BODY, uploads={UPLOAD: LARGEST_UPLOAD})
    app.add_middleware(Guard, access=access)  # the last one added is the first one asked
    _add_public_routes(app, operations)
    add_upload_route(app, operations, answered(Accepted, 202))
    add_events_route(app, app.state.job_feed)
    add_reindex_routes(app, operations)
    add_metrics_route(app, operations.measuring)
    socket_only = APIRouter(tags=["over the Unix socket only"])
    _add_local_routes(socket_only, operations)
    add_ledger_routes(socket_only, operations)
    add_backup_route(socket_only, operations)
    add_rest_routes(socket_only, operations)
    app.include_router(socket_only)
    return app


def _add_public_routes(app: FastAPI, operations: Operations) -> None:
    @app.get("/api/v1/status", responses=answered(Status))
    def status() -> Record:
        return operations.status()

    @app.get("/api/v1/search", responses=answered(SearchAnswer))
    def search(
        q: Annotated[str, Query(max_length=_QUERY_CHARACTERS)],
        mode: SearchMode = "hybrid",
        limit: Limit = 10,
        offset: Offset = 0,
        type: Annotated[list[DocumentType] | None, Query()] = None,  # noqa: A002 (the name in the API)
        source: Annotated[list[str] | None, Query(description="the path of a followed folder")] = None,
        path: Annotated[list[str] | None, Query(description="absolute (it or all below), or a folder's name")] = None,
        language: Annotated[list[str] | None, Query()] = None,
        title: Annotated[str | None, Query(description="a phrase in the title")] = None,
        section: Annotated[str | None, Query(description="a phrase in the section's header")] = None,
        since: Annotated[str | None, Query(description="a year, month, day or moment")] = None,
        until: Annotated[str | None, Query(description="as `since`; a day is meant with all of it")] = None,
        all_versions: Annotated[bool, Query(description="superseded and missing documents too")] = False,
    ) -> Record:
        narrowing = Narrowing(
            type or (), source or (), path or (), language or (), title, section, since, until, all_versions
        )
        return operations.search(q, mode, limit, offset, narrowing)

    @app.post("/api/v1/notes", status_code=202, responses=answered(Accepted, 202))
    def note(request: NoteRequest) -> Record:
        return operations.note(request.text, request.title)

    @app.get("/api/v1/documents", responses=answered(DocumentsAnswer))
    def documents(
        state: Literal["current", "superseded", "missing", "all"] = "current",
        type: DocumentType | None = None,  # noqa: A002 (the name in the API)
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Record:
        return operations.documents(None if state == "all" else state, type, limit, offset)

    @app.get("/api/v1/documents/{document_id}", responses=answered(DocumentWithChunks))
    def document(document_id: DocumentId) -> Record:
        return operations.document(document_id)

    @app.delete("/api/v1/documents/{document_id}", responses=answered(RemovedDocument))
    def remove_document(document_id: DocumentId) -> Record:
        return operations.remove_document(document_id)

    @app.get("/api/v1/jobs", responses=answered(JobsAnswer))
    def jobs(
        state: Literal["queued", "processing", "done", "failed", "skipped"] | None = None, limit: Limit = 100
    ) -> Record:
        return operations.jobs(state, limit)

    @app.get("/api/v1/jobs/{job_id}", responses=answered(JobRecord))
    def job(job_id: JobId) -> Record:
        return operations.job(job_id)

    @app.post("/api/v1/jobs/{job_id}/retry", status_code=202, responses=answered(RetriedJob, 202))
    def retry_job(job_id: JobId) -> Record:
        return operations.retry_job(job_id)

    @app.get("/api/v1/sources", responses=answered(SourcesAnswer))
    def sources() -> Record:
        return operations.sources()

    @app.post("/api/v1/sources", responses=answered(AddedSource))
    def add_source(body: SourceRequest, request: Request) -> Record:
        try:
            return operations.add_source(
                body.path,
                recursive=body.recursive,
                ignore=body.ignore,
                mode=body.mode,
                confirmed=body.confirmed,
            )
        except KbsyncError as error:
            if on_socket(request.scope):
                raise
            # Nothing is told of paths that are no source: neither what was asked nor what is there.
            hint = "On the machine itself `kbsync sources add FOLDER` says why."
            raise UsageError("This folder cannot be a source.", hint=hint) from error


def _add_local_routes(app: APIRouter, operations: Operations) -> None:
    @app.post("/api/v1/local/sources/remove")
    def remove_source(request: PathRequest) -> Record:
        return operations.remove_source(decoded(request.path))

    @app.post("/api/v1/local/expand")
    def expand(request: PathRequest) -> Record:
        found = operations.expand(decoded(request.path), recursive=request.recursive, dry_run=request.dry_run)
        return encoded(found)

    @app.post("/api/v1/local/look")
    def look_at(request: AddRequest) -> Record:
        paths = [decoded(path) for path in request.paths]
        return encoded(operations.look_at(paths, request.title, request.type, request.language, request.ocr))

    @app.post("/api/v1/local/survey")
    def survey(request: PathRequest) -> Record:
        return operations.survey(decoded(request.path), recursive=request.recursive, ignore=request.ignore)

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
    def check(repair: bool = False) -> Record:
        return operations.check(repair=repair)

    @app.post("/api/v1/local/rescan")
    def rescan() -> Record:
        return operations.rescan()

    @app.get("/api/v1/local/settled")
    def settled(ticket: int) -> Record:
        return operations.settled(ticket)
