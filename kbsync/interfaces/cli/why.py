"""`kbsync why`: why a path is in its state."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.errors import NotFound, UsageError
from kbsync.interfaces.cli.exits import errors_told
from kbsync.interfaces.cli.output import line, print_json
from kbsync.interfaces.cli.session import session


def why(
    path: Annotated[str, typer.Argument(help="A file, or a folder of a source.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what became of a file, and why; of a folder, how its files are and which could not be read."""
    with errors_told(), session() as operations:
        try:
            answer = operations.why(os.path.abspath(path))
        except NotFound as error:
            raise _better_said(path) or error from None
    if as_json:
        print_json(answer)
        return
    reason = f" ({answer['reason']})" if answer["reason"] else ""
    line(f"{answer['path']}: {answer['state']}{reason}")
    line(answer["detail"])
    for failed in answer.get("failed", []):
        line(failed)
    seen = f"last seen {answer['last_seen_at']}" if answer["last_seen_at"] is not None else ""
    if answer["document_id"] is not None:
        line(", ".join(part for part in (f"document {answer['document_id']}", seen) if part))


def _better_said(path: str) -> NotFound | UsageError | None:
    """Return what to say of a path that was never seen, where a look at it tells more."""
    if os.path.isdir(path):
        return UsageError(
            f"{path} is a folder, not one that is followed; name a file.", hint="`kbsync sources add` follows it."
        )
    if not os.path.lexists(path):
        return NotFound(f"{path}: There is no such file and none was ever seen.", hint="Is its name spelled so?")
    return None
