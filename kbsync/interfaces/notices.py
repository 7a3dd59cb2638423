"""What needs a person, a sentence each with the command that answers it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kbsync.interfaces.records import Record, shown_path
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


def of_engine(running: Mapping[str, object]) -> list[str]:
    """Say what stands in the way of the whole engine: a configuration, or a model, that cannot be used."""
    return [str(running[key]) for key in ("config_error", "model_error") if running.get(key)]


def _age(since: str | None, now: float) -> float:
    return 0.0 if since is None else now - datetime.fromisoformat(since).timestamp()


def _told(count: int, folder: str, sentence: str) -> str:
    files, names = ("1 file", "names it") if count == 1 else (f"{count} files", "names them")
    shown = shown_path(folder) or ""
    verb = "is" if count == 1 else "are"
    return f"{files} in {shown} {verb} {sentence}; `kbsync why {shlex.quote(shown)}` {names}."
