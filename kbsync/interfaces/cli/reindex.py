"""`kbsync reindex`: has the daemon make the index anew, and shows how far it is."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kbsync.errors import UsageError
from kbsync.interfaces.cli.client import required
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, print_json
from kbsync.interfaces.cli.remote import Remote
from kbsync.interfaces.cli.session import locations

_POLL_S = 0.5
# Without a terminal it is said this often how far things are.
_TELL_EVERY_S = 30.0


def reindex(
    stale: Annotated[
        bool, typer.Option("--stale", help="Only documents that older rules made: cut or convert them anew.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Cut every document anew, then make every vector anew.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Begin it and return; `kbsync status` shows it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make every vector anew with the configured model. Search goes on; Ctrl+C ends the waiting only."""
    with errors_told():
        if stale and everything:
            raise UsageError("--stale and --all exclude each other.", hint="--all is more.")
        daemon = Remote(required(locations()))
        answer = daemon.reindex("stale" if stale else "all" if everything else "vectors")
        if not no_wait:
            try:
                answer = _followed(daemon, answer)
            except KeyboardInterrupt:
                complain("It goes on in the daemon; `kbsync status` shows it.")
                raise
    if as_json:
        print_json(answer)
    else:
        line(said(answer))
    if answer["state"] == "waiting":
        raise typer.Exit(FAILED)


def said(answer: Record) -> str:
    """Return a line that says how far it is; `answer` is that of `GET reindex`."""
    if answer["state"] == "idle":
        return f"The index is whole: {counted(answer['chunks_total'], 'chunk')} by {answer['live_model_name']}."
    parts = []
    if answer["stale_left"]:
        parts.append(f"{counted(answer['stale_left'], 'document')} to be made anew")
    if answer["begun_at"] is not None:
        parts.append(f"{answer['chunks_done']} of {counted(answer['chunks_total'], 'chunk')} by {answer['model_name']}")
    if answer["left_s"] is not None:
        parts.append(f"about {_duration(answer['left_s'])} left")
    if answer["error"]:
        parts.append(str(answer["error"]))
    return f"{'Waiting' if answer['error'] else 'Reindexing'}: {'; '.join(parts)}"


def _followed(daemon: Remote, answer: Record) -> Record:
    """Wait until it is done or cannot go on, with a bar on a terminal, elsewhere a line now and then."""
    from tqdm import tqdm

    told_at = time.monotonic()
    with tqdm(desc="reindexing", unit="chunk", dynamic_ncols=True, disable=None) as bar:  # None: only on a terminal
        while answer["state"] == "running":
            bar.total, bar.n = answer["chunks_total"], answer["chunks_done"]
            bar.refresh()
            if bar.disable and time.monotonic() - told_at >= _TELL_EVERY_S:
                told_at = time.monotonic()
                complain(said(answer))
            time.sleep(_POLL_S)
            answer = daemon.reindex_status()
        bar.total, bar.n = answer["chunks_total"], answer["chunks_done"]
    return answer


def _duration(seconds: int) -> str:
    """Return seconds for people: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds} s"
    return f"{round(seconds / 60)} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
