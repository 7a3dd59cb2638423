"""`kbsync doctor`: what is wrong with this machine or this installation, each with what helps."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.interfaces.cli.exits import DONE, FAILED, errors_told
from kbsync.interfaces.cli.output import counted, line, print_json

if TYPE_CHECKING:
    from kbsync.interfaces.doctor.finding import Check
    from kbsync.interfaces.service.service import Service


def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Load the models too, and try them: a minute or two.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at everything that kbsync needs of this machine, and say what to do where something is wrong.

    Only looks: nothing is changed. Exit code 1 where something does not work, 0 where all does, if not as well as it
    could.
    """
    with errors_told():
        from kbsync.clock import SystemClock
        from kbsync.interfaces.doctor.examine import examine
        from kbsync.interfaces.doctor.patience import is_left_waiting
        from kbsync.interfaces.doctor.subject import subject_here

        checks = examine(subject_here(dict(os.environ), SystemClock(), _service), deep=deep)
    is_well = all(check.state != "problem" for check in checks)
    if as_json:
        print_json({"ok": is_well, "checks": [_record(check) for check in checks]})
    else:
        _print(checks)
    if is_left_waiting():
        sys.stdout.flush()
        os._exit(DONE if is_well else FAILED)
    if not is_well:
        raise typer.Exit(FAILED)


def _service() -> Service:
    from kbsync.interfaces.cli.session import locations
    from kbsync.interfaces.service.here import service_here

    return service_here(locations(), os.environ)


def _record(check: Check) -> dict[str, object]:
    return {"name": check.name, "state": check.state, "detail": check.detail, "remedy": check.remedy or None}


def _print(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        line(f"{check.state:7}  {check.name.replace('_', ' '):{width}}  {check.detail}")
        if check.remedy:
            line(f"{'':7}  {'':{width}}  -> {check.remedy}")
    counts = {state: sum(check.state == state for check in checks) for state in ("problem", "warning", "unknown")}
    if not any(counts.values()):
        line("All is well.")
        return
    told = [counted(counts["problem"], "problem"), counted(counts["warning"], "warning")]
    line(f"{', '.join(told)}, {counts['unknown']} unknown. What helps stands behind the arrows.")
