"""The configuration: whether it can be used as it is written, and variables that nobody reads."""

from __future__ import annotations

import os
import shlex
import time
import tomllib
from collections.abc import Sequence
from functools import partial

from kbsync import machine
from kbsync.errors import ConfigurationError
from kbsync.interfaces.doctor import folders
from kbsync.interfaces.doctor.finding import Finding, fine, problem, unknown, warning
from kbsync.interfaces.doctor.patience import Ask, within
from kbsync.interfaces.doctor.subject import Subject

# A disk that is there answers at once. Each path takes a thread while it is asked.
_LOOK_S, _MOST_ASKED = 3.0, 100


def look(subject: Subject) -> list[Finding]:
    """Examine config.toml with the variables that beat it. The models that it names have examinations of their own."""
    from kbsync.model import Source
    from kbsync.sources.ignore import rules_for

    configured, path = subject.configured, subject.places.config_file
    if not isinstance(configured, str) and (shut := folders.closed_on_the_way(path)) is not None:
        return [judge_closed(path, *shut)]
    if isinstance(configured, str):
        # Reading it resolves what it names: a disk that is gone holds that up.
        silent = silent_among(folders_named(path))
        if silent:
            return folders.judge_sources([(one, "", "silent") for one in silent], subject.platform, "", "")
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


def judge_closed(path: str, shut: str, is_ours: bool) -> Finding:
    """Say that the configuration cannot be read, for what is `shut`: itself or a folder above it."""
    what = "it" if shut == path else shut
    user, bits = machine.user_name(), "u+rw" if shut == path else "u+rwx"
    opens = f"chmod {bits}" if is_ours else f"sudo chown {user}"
    return problem(f"{path} cannot be read: {what} is closed to {user}.", f"{opens} {shlex.quote(shut)}")


def folders_named(config_file: str) -> list[str]:
    """Return the folders that a configuration names, as they are written; none where that cannot be told soon."""

    def read() -> list[str]:
        with open(config_file, "rb") as file:
            entries = tomllib.load(file).get("sources", [])
        return [os.path.expanduser(str(entry["path"])) for entry in entries]

    try:
        return within(_LOOK_S, read)
    except Exception:  # noqa: BLE001 (whatever is wrong with it, this was a second look only)
        return []


def silent_among(paths: Sequence[str], seconds: float = _LOOK_S) -> list[str]:
    """Return which of the paths give no answer, good or bad, within so many seconds in all."""
    until = time.monotonic() + seconds
    asked = [(path, Ask(partial(os.path.lexists, os.path.join(path, "")))) for path in paths[:_MOST_ASKED]]
    return [path for path, ask in asked if not _answers(ask, until - time.monotonic())]


def _answers(ask: Ask[bool], seconds: float) -> bool:
    try:
        ask.answer(seconds)
    except TimeoutError:
        return False
    return True


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
                f"{path}: {told}{'' if told.endswith('?') else '.'}" if told else refused.message,
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
