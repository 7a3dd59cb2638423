"""`kbsync wait`: until everything that is in the folders now is dealt with."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kbsync.interfaces.cli.client import required
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json
from kbsync.interfaces.cli.remote import Remote
from kbsync.interfaces.cli.session import locations

_POLL_S = 0.2


def wait(
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 3600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Have every source looked at, and wait until nothing is left to do."""
    with errors_told():
        begun = time.monotonic()
        daemon = Remote(required(locations()))
        ticket = int(daemon.rescan()["ticket"])
        while not (answer := daemon.settled(ticket))["settled"] and time.monotonic() - begun < timeout:
            if answer["held_up"]:
                break
            time.sleep(_POLL_S)
    answer["seconds"] = round(time.monotonic() - begun, 2)
    if as_json:
        print_json(answer)
    else:
        line(outcome_line(answer))
        for path in answer["paused"]:
            complain(f"{path} is paused; `kbsync status` tells why.")
        if answer["held_up"]:
            complain(_held_up(answer))
    if not answer["settled"]:
        raise typer.Exit(FAILED)


def _held_up(answer: Record) -> str:
    from kbsync.interfaces.notices import of_model

    return of_model(answer["held_up"]) if answer["rest"] is None else str(answer["held_up"])


def outcome_line(answer: Record) -> str:
    """Return the line that says what became of the files; `answer` is that of `settled`, with its `seconds`."""
    counts = f"{answer['indexed']} indexed, {answer['skipped']} skipped, {answer['failed']} failed"
    if answer["settled"]:
        return f"Settled after {answer['seconds']} s: {counts}."
    rest = f"{answer['waiting']} waiting" if answer["waiting"] else "the folders are still being looked through"
    return f"Not settled after {answer['seconds']} s: {counts}, {rest}."
