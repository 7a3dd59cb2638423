"""The Typer app: every command registered by name. Imports nothing that a command itself can import when it runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kbsync.interfaces.cli import (
    add,
    backup,
    check,
    completion,
    config,
    diff,
    doctor,
    documents,
    history,
    init,
    jobs,
    models,
    pause,
    project,
    purge,
    reindex,
    restore,
    run,
    search,
    service,
    sources,
    status,
    wait,
    why,
)
from kbsync.interfaces.cli.exits import DONE, EPILOG

app = typer.Typer(
    name="kbsync",
    help="Keeps a private, local, searchable knowledge base in step with your folders.",
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from kbsync.version import version

        print(version())
        raise typer.Exit


@app.callback(invoke_without_command=True)
def kbsync(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps a private, local, searchable knowledge base in step with your folders.

    Without a command it says what to do next.
    """
    if context.invoked_subcommand is None:
        from kbsync.interfaces.cli.exits import errors_told
        from kbsync.interfaces.cli.next_steps import next_steps
        from kbsync.interfaces.cli.output import line
        from kbsync.interfaces.cli.session import locations
        from kbsync.interfaces.doctor.patience import is_left_waiting

        with errors_told():
            for told in next_steps(locations()):
                line(told)
        if is_left_waiting():
            sys.stdout.flush()
            os._exit(DONE)


app.command("init")(init.init)

app.command("run")(run.run)
app.command("add")(add.add)
app.command("search", cls=search.QueryCommand)(search.search)
app.command("status")(status.status)
app.command("why")(why.why)
app.command("history")(history.history)
app.command("diff")(diff.diff)
app.command("wait")(wait.wait)
app.command("pause")(pause.pause)
app.command("resume")(pause.resume)
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)
app.command("reindex")(reindex.reindex)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.command("purge")(purge.purge)
app.command("completion")(completion.completion)
app.add_typer(sources.app, name="sources")
app.add_typer(documents.app, name="documents")
app.add_typer(jobs.app, name="jobs")
app.add_typer(models.app, name="models")
app.add_typer(config.app, name="config")
app.add_typer(service.app, name="service")
app.add_typer(project.app, name="project")
