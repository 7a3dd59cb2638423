"""The service: whether it starts at login, runs, and runs what a command here would."""

from __future__ import annotations

import re

from kbsync.errors import ServiceFailed
from kbsync.interfaces.doctor.finding import Finding, fine, problem, warning
from kbsync.interfaces.doctor.subject import Subject
from kbsync.interfaces.service.service import State

_RESTART, _INSTALL = "kbsync service restart", "kbsync service install"
# A notice of the service names the command that helps, the last one where there are several.
_COMMAND = re.compile(r"`([^`]+)`")


def look(subject: Subject) -> list[Finding]:
    """Ask the system's service manager."""
    try:
        return judge(subject.find_service().state())
    except ServiceFailed as error:
        return [fine(f"No service: {error.message} {error.hint}".rstrip())]


def judge(state: State) -> list[Finding]:
    """Say what is wrong with a service that is installed; without one, `kbsync run` is as good."""
    if not state.installed:
        return [
            fine("Not installed: the daemon runs when you start it; `kbsync service install` has it start at login.")
        ]
    found = []
    if state.running == "failed":
        found.append(problem(f"The service ended with an error. {' '.join(state.notices)}".rstrip(), _RESTART))
    if not state.is_current:
        detail = f"{state.file} is not what this kbsync, and this shell's variables, would write now."
        found.append(warning(detail, _INSTALL))
    for notice in state.notices if state.running != "failed" else ():
        named = _COMMAND.findall(notice)
        if named and named[-1] not in (one.remedy for one in found):  # which says the same in other words
            found.append(warning(notice, named[-1]))
    if found:
        return found
    told = " ".join([f"The service is installed and {_doing(state)} ({state.file}).", *state.notices])
    return [fine(told)]


def _doing(state: State) -> str:
    return f"{state.running} (process {state.pid})" if state.pid else state.running
