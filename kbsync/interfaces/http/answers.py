"""The answer that refuses a request: the same shape wherever it comes from."""

from __future__ import annotations

from starlette.responses import JSONResponse


def refusal(
    status: int, message: str, *, hint: str = "", kind: str = "UsageError", headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return `{error, hint, kind}`. `kind` is the class of the error; nothing of the request is repeated in it."""
    return JSONResponse({"error": message, "hint": hint, "kind": kind}, status_code=status, headers=headers)
