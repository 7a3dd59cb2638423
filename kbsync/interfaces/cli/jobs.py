"""`kbsync jobs`: what waits to be read, what was, and what failed."""

from __future__ import annotations

from typing import Annotated

import typer

from kbsync.errors import UsageError
from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import counted, line, print_json, table
from kbsync.interfaces.cli.session import session, session_with_engine
from kbsync.interfaces.values import JOB_STATES, known_job_state, listed

app = typer.Typer(
    help="What waits to be read, what was read, and what failed.", no_args_is_help=True, rich_markup_mode=None
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_jobs(
    state: Annotated[str | None, typer.Option("--state", help=f"Only these: {listed(JOB_STATES)}.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    as_json: _Json = False,
) -> None:
    """List jobs, newest first. Those that ended are forgotten after two weeks."""
    with errors_told():
        wanted = known_job_state(state)
        with session() as operations:
            answer = operations.jobs(wanted, limit)
    if as_json:
        print_json(answer)
        return
    if not answer["jobs"]:
        line("No jobs.")
        return
    table(
        [
            (job["id"], job["state"], job["updated_at"], job["reason"] or "", job["path"] or "note")
            for job in answer["jobs"]
        ],
        ("ID", "STATE", "SINCE", "REASON", "PATH"),
    )
    if answer["total"] > len(answer["jobs"]):
        line(f"{len(answer['jobs'])} of {answer['total']}.")


@app.command("retry")
def retry(
    job_id: Annotated[
        int | None, typer.Argument(metavar="ID", min=0, max=(1 << 63) - 1, help="The job, as `jobs list` shows it.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Every followed file that could not be read.")] = False,
    as_json: _Json = False,
) -> None:
    """Have a failed job run again, or every file of a source that could not be read."""
    with errors_told():
        if failed and job_id is not None:
            raise UsageError("Give the number of a job, or --failed, not both.", hint="--failed has that job run too.")
        if not failed and job_id is None:
            raise UsageError("Give the number of a job, or --failed.", hint="`kbsync jobs list --state failed`.")
        with session_with_engine() as (operations, engine):
            answer = operations.retry_failed() if job_id is None else operations.retry_job(job_id)
    if as_json:
        print_json(answer)
        return
    if job_id is not None:
        line(f"Queued: {answer['job']['path']} (job {answer['job']['id']}).")
    else:
        line(f"Queued {counted(answer['total'], 'file')} to be read again.")
        if answer["not_retried"]:
            complain(
                f"{counted(answer['not_retried'], 'file')} added by hand failed too; add what is wanted again with "
                "`kbsync add`."
            )
    if engine is not None:
        complain("The daemon is not running; `kbsync run` reads what is queued.")
