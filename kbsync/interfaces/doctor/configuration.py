"""The configuration: whether it can be used as it is written, and variables that nobody reads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from kbsync.errors import ConfigurationError
from kbsync.interfaces.doctor.finding import Finding, fine, problem, unknown, warning
from kbsync.interfaces.doctor.subject import Subject


def look(subject: Subject) -> list[Finding]:
    """Examine config.toml with the variables that beat it. The models that it names have examinations of their own."""
    from kbsync.model import Source
    from kbsync.sources.ignore import rules_for

    configured, path = subject.configured, subject.places.config_file
    if isinstance(configured, str):
        return [unknown(f"{path} could not be read: {configured}.", "Look whether every disk that it names answers.")]
    if isinstance(configured, ConfigurationError):
        return judge(path, configured, [], [], is_there=True, count=0)
    wrong = []
    for one in configured.sources:
        try:
            rules_for(Source(0, one.path, include=one.include, ignore=one.ignore))
        except ConfigurationError as error:
            wrong.append(error)
    closed = [
        one.password_file
        for one in configured.sources
        if one.password_file is not None and not os.access(one.password_file, os.R_OK)
    ]
    return judge(path, None, wrong, closed, is_there=os.path.exists(path), count=len(configured.sources))


def judge(
    path: str,
    refused: ConfigurationError | None,
    wrong: Sequence[ConfigurationError],
    closed: Sequence[str],
    *,
    is_there: bool,
    count: int,
) -> list[Finding]:
    """Say what is wrong with the configuration: it was `refused`, has `wrong` patterns or names `closed` files."""
    if refused is not None:
        told = "; ".join(map(str, refused.mistakes))
        return [
            problem(
                f"{path}: {told}." if told else refused.message,
                f"Correct {path}; `kbsync config check` says when it is right.",
            )
        ]
    found = [problem(error.message, error.hint or f"Correct {path}.") for error in wrong]
    found += [
        warning(f"The password file {name} is not there or not readable.", f"chmod u+r {shlex.quote(name)}")
        for name in closed
    ]
    if found:
        return found
    if not is_there:
        return [fine(f"There is no {path}; the defaults hold.")]
    return [fine(f"{path} is right: {count} source{'' if count == 1 else 's'}.")]


def look_at_variables(subject: Subject) -> list[Finding]:
    """Examine the variables that begin with KBSYNC_."""
    from kbsync.config.settings import unknown_variables

    names = [name for name in subject.environ if name.upper().startswith("KBSYNC_")]
    return judge_variables([(name, told) for name in sorted(names) for told in unknown_variables({name: ""})])


def judge_variables(unread: Sequence[tuple[str, str]]) -> list[Finding]:
    """Say which variables nobody reads; each with what is said of it."""
    if not unread:
        return [fine("Every KBSYNC_ variable is one that kbsync knows.")]
    return [warning(told, f"unset {name}") for name, told in unread]
