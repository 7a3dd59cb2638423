"""What needs a person, a sentence each with the command that answers it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kbsync.interfaces.records import Record, shown_path
from kbsync.knowledge_base.damage import Damage, Problem
from kbsync.knowledge_base.rebuilt import Unread
from kbsync.reasons import Reason
from kbsync.store.ledger import Failures

# Seconds after which a source that a person paused is brought to mind.
PAUSED_LONG_S = 7 * 86400.0


# What a person can do; every other reason stays until the file itself changes.
_SENTENCES: dict[Reason | None, str] = {
    Reason.PASSWORD_REQUIRED: (
        "protected by a password: name a file of passwords as `password_file` of that source in config.toml"
    ),
    Reason.PERMISSION: "not readable for you: give yourself read permission",
}
_OF_WORDS = (Damage.FTS, Damage.FTS_MISSING, Damage.TOKENIZER, Damage.NAMES)
_OTHER = "left alone after reading failed: `kbsync jobs retry --failed` tries again"


def of_sources(sources: Iterable[Record], now: float) -> list[str]:
    """Say which folders are not followed as they should be: held, paused, not readable in parts.

    One that a person paused is brought to mind after a week. `now` in seconds since 1970.
    """
    return [
        str(source["detail"])
        for source in sources
        if source["detail"] and (source["reason"] != "by_you" or _age(source["since"], now) >= PAUSED_LONG_S)
    ]


def of_projects(projects: object) -> list[str]:
    """Say which knowledge projects cannot be followed, and what waits in one for a person to rename or mend it."""
    found = []
    for project in projects if isinstance(projects, list) else []:
        if project["problem"]:
            found.append(str(project["problem"]))
        found += [f"{shown_path(project['path'])}: {refused['reason']}" for refused in project["refused"]]
    return found


def of_watchers(watchers: Iterable[Mapping[str, object]]) -> list[str]:
    """Say which folders send no events."""
    return [str(watcher["notice"]) for watcher in watchers if watcher.get("notice")]


def of_failures(failures: Sequence[Failures], folders: Mapping[int, str], *, lasting: bool) -> list[str]:
    """Say which files wait for a password or a permission; with `lasting` which could not be read for other reasons.

    `folders`: the path of each source.
    """
    found = []
    for failure in failures:
        sentence = _SENTENCES.get(failure.reason)
        if failure.source_id in folders and (sentence is None) == lasting:
            found.append(_told(failure.count, folders[failure.source_id], sentence or _OTHER))
    return found


def of_room(waiting: int, folder: str) -> list[str]:
    """Say how many files wait for room on the disk that holds kbsync's own folder."""
    if not waiting:
        return []
    files = "1 file waits" if waiting == 1 else f"{waiting} files wait"
    return [
        f"{files} for room on the disk that holds {shown_path(folder)}: free some space, then all goes on by itself."
    ]


def of_write_ahead_log(database: str, size: int) -> list[str]:
    """Say that somebody who reads the database for long keeps its write-ahead log from ending, `size` bytes long."""
    return [
        f"{shown_path(database)}-wal has grown to {size >> 20} MB: "
        f"another program reads {shown_path(database)} for long. "
        "Close programs that have it open; the room comes back by itself."
    ]


def of_check(problems: Sequence[Problem]) -> list[str]:
    """Say what the last check found: what a person must see to, and what was repaired by itself."""
    found = []
    for problem in problems:
        told = f"{problem.detail} {where(problem.count, problem.first)}".rstrip()
        if problem.repaired:
            found.append(" ".join(filter(None, ("Repaired by the last check:", told, problem.done))))
        else:
            hint = problem.hint or "`kbsync check --repair` makes whole what can be."
            found.append(" ".join(filter(None, (told, problem.done, hint))))
    return found


def where(count: int, first: str) -> str:
    """Say how often something was found, and where: `Here: document 3.` or `3 times, first: document 3.`"""
    first = first.rstrip(".")  # a message of SQLite's, or of an error, may stand there
    if count == 1:
        return f"Here: {first}." if first else ""
    return f"{count} times, first: {first}." if first else f"{count} times."


def of_unread(unread: Unread, *, running: bool) -> list[str]:
    """Say what is still to be read, and by whom; `running`: a daemon does it."""
    if not unread:
        return []
    wanted = [
        *_still(((unread.files, "file"), (unread.notes, "note")), "read"),
        *_still(((unread.chunks, "chunk"),), "embedded"),
    ]
    told = ", ".join(wanted)
    found = [f"The index is being built anew{':' if told else '.'}"] if unread.is_anew else []
    if running:
        found += [f"{told}; the daemon does it."] if told else []
        found += _still(((unread.folders, "folder"),), "looked through.")
    elif unread.folders:
        found += [f"{told}."] if told else []
        found.append("Your folders are read again when `kbsync run` runs.")
    else:
        found.append(f"{told}: `kbsync run` does it.")
    return [" ".join(found)]


def _still(counts: Sequence[tuple[int, str]], what: str) -> list[str]:
    parts = [f"{count} {one}{'' if count == 1 else 's'}" for count, one in counts if count]
    verb = "is" if sum(count for count, _ in counts) == 1 else "are"
    return [f"{' and '.join(parts)} {verb} still to be {what}"] if parts else []


def of_words(problems: Sequence[Problem], *, is_met: bool) -> list[str]:
    """Say that words may not be found: the last check found the full-text index damaged, or somebody met with that."""
    kinds = {problem.kind for problem in problems if not problem.repaired}
    if not is_met and kinds.isdisjoint(_OF_WORDS):
        return []
    return [
        "The full-text index is damaged: words may not be found. `kbsync check --repair` mends it, or `kbsync run` "
        "with its check, once a day."
    ]


def of_engine(running: Mapping[str, object]) -> list[str]:
    """Say what stands in the way of the whole engine: a configuration, or a model, that cannot be used, or waits."""
    configuration, model = (str(running.get(name) or "") for name in ("config_error", "model_error"))
    # The configuration names the model: of one that is not there both say so.
    found = [of_configuration(configuration)] if configuration and configuration not in model else []
    return [*found, *of_restart(running), *([of_model(model)] if model else [])]


def of_configuration(error: str) -> str:
    """Say what follows from a changed configuration that was refused, and how it goes on."""
    return f"{error} Until it is right the settings from before hold; then it is followed by itself."


def of_restart(running: Mapping[str, object]) -> list[str]:
    """Say which settings were changed that hold from the next start on only."""
    names = running.get("restart_for")
    if not isinstance(names, list) or not names:
        return []
    are = "is set anew and holds" if len(names) == 1 else "are set anew and hold"
    return [f"{', '.join(names)} {are} from the next start on: restart for that (`kbsync service restart`)."]


def of_model(error: str) -> str:
    """Say what follows from a model that cannot be used, and how it goes on."""
    return (
        f"{error} Until then nothing new is indexed, and what is indexed is found by its words only; what waits is not "
        "lost. It goes on by itself when the model's folder is whole again, or its process lives; after another repair "
        "when kbsync restarts."
    )


def _age(since: str | None, now: float) -> float:
    return 0.0 if since is None else now - datetime.fromisoformat(since).timestamp()


def _told(count: int, folder: str, sentence: str) -> str:
    files, names = ("1 file", "names it") if count == 1 else (f"{count} files", "names them")
    shown = shown_path(folder) or ""
    verb = "is" if count == 1 else "are"
    return f"{files} in {shown} {verb} {sentence}; `kbsync why {shlex.quote(shown)}` {names}."
