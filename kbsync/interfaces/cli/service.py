"""`kbsync service`: the daemon in the background, started at login by systemd or launchd."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import NotFound
from kbsync.interfaces.cli.exits import FAILED, UNREACHABLE, errors_told
from kbsync.interfaces.cli.output import line, print_json
from kbsync.interfaces.cli.session import locations

if TYPE_CHECKING:
    from kbsync.interfaces.service.service import Service

app = typer.Typer(help="The daemon in the background, started at login.", no_args_is_help=True, rich_markup_mode=None)


@app.command("install")
def install(
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it now too.")] = True,
) -> None:
    """Have the daemon start at login, and start it. Again after an upgrade: what changed is put in its place."""
    with errors_told():
        _forget_early_ends()
        _tell(_service().install(start=start))


@app.command("uninstall")
def uninstall() -> None:
    """Stop the service and take it away. The index and the configuration stay."""
    with errors_told():
        _tell(_service().uninstall())


@app.command("start")
def start() -> None:
    """Start the service."""
    with errors_told():
        _forget_early_ends()
        _tell(_service().start())


@app.command("stop")
def stop() -> None:
    """Stop the service, until it is started again or the next login."""
    with errors_told():
        _tell(_service().stop())


@app.command("restart")
def restart() -> None:
    """Stop the service where it runs, and start it."""
    with errors_told():
        _forget_early_ends()
        _tell(_service().restart())


@app.command("status")
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say whether the service is installed and runs; exit code 4 where it does not run."""
    with errors_told():
        state = _service().state()
    if as_json:
        print_json(
            {
                "installed": state.installed,
                "is_current": state.is_current,
                "state": state.running,
                "pid": state.pid,
                "file": state.file,
                "notices": list(state.notices),
            }
        )
    else:
        process = f" (process {state.pid})" if state.pid else ""
        line(f"service    {state.running if state.installed else 'not installed'}{process}")
        if state.installed:
            line(f"file       {state.file}{'' if state.is_current else ' (out of date)'}")
        for notice in state.notices:
            line(f"! {notice}")
    if state.running != "running":
        raise typer.Exit(UNREACHABLE)


@app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl+C.")] = False,
) -> None:
    """Show what the service said last; exit code 3 where it said nothing yet."""
    with errors_told():
        command = _service().log_command(lines, follow=follow)
        if command[0] == "tail" and not follow and not os.path.exists(command[-1]):
            raise NotFound(
                f"There is no log yet: {command[-1]} is not there.",
                hint="It begins when the service, or `kbsync run`, does.",
            )
        try:
            code = subprocess.call(command)
        except FileNotFoundError:
            code = FAILED
    if code:
        raise typer.Exit(FAILED)


def _service() -> Service:
    from kbsync.interfaces.service.here import service_here

    return service_here(locations(), os.environ)


def _forget_early_ends() -> None:
    """Whoever asks for a start wants it now, however many failed before."""
    from kbsync.interfaces.service import early_ends

    early_ends.forget(locations().early_ends_file)


def _tell(sentences: list[str]) -> None:
    for sentence in sentences:
        line(sentence)
