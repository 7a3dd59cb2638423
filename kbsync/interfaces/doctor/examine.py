"""The examination: everything that is looked at, side by side, each within its time, told in this order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from kbsync.errors import KbsyncError
from kbsync.interfaces.doctor import (
    accelerators,
    background,
    configuration,
    folders,
    imaging,
    interpreter,
    libraries,
    models,
    process,
    room,
    storage,
    times,
    trial,
    watching,
)
from kbsync.interfaces.doctor.finding import Check, Finding, Unclear, unknown
from kbsync.interfaces.doctor.patience import Ask
from kbsync.interfaces.doctor.subject import Subject

# What has not answered by then is told as unknown.
LIMIT_S = 12.0


@dataclass(frozen=True, slots=True)
class Examination:
    """One thing that is looked at. `about` says what, for people; `limit_s` how long it may take."""

    name: str
    about: str
    look: Callable[[Subject], Sequence[Finding]]
    limit_s: float = LIMIT_S
    is_deep: bool = False


def _trial(kind: str, what: str, subject: Subject) -> list[Finding]:
    return models.judge_trial(what, trial.tried(kind, subject))


EXAMINATIONS = (
    Examination(
        "python", "version, 64 bit, pip, files that are imported in place of what is installed", interpreter.look
    ),
    Examination("libraries", "every library is there, in a version that kbsync works with", libraries.look),
    Examination("sqlite", "SQLite's version, full text, loading of extensions", storage.look_at_sqlite),
    Examination("configuration", "config.toml can be used as it is", configuration.look),
    Examination("variables", "`KBSYNC_` variables that nobody reads", configuration.look_at_variables),
    Examination("embedding_model", "the model's files are whole; the reranker too", models.look_at_embedding),
    Examination("document_models", "the models for layout, tables and OCR are whole", models.look_at_documents),
    Examination(
        "ocr_languages", "OCR reads the language that is set", models.look_at_languages, trial.LIMITS_S["languages"] + 5
    ),
    Examination(
        "opencv", "it can be imported, from where it was installed", imaging.look, trial.LIMITS_S["opencv"] + 5
    ),
    Examination("graphics_card", "there is one, torch was made for it, memory is free", accelerators.look),
    Examination(
        "watched_folders", "the kernel's limit of watches, against the folders of all sources", watching.look_at_watches
    ),
    Examination("watchers", "the kernel's limit of watchers", watching.look_at_watchers),
    Examination("open_files", "how many files a process may have open", watching.look_at_open_files),
    Examination("file_systems", "what the sources and the database lie on", watching.look_at_file_systems),
    Examination("permissions", "kbsync's folders, database and token are yours alone", folders.look_at_own),
    Examination("logs", "the log and the list of failed files can be written", folders.look_at_logs),
    Examination("sources", "every folder that is followed is there and readable", folders.look_at_sources),
    Examination("database", "it can be read; what the last check found", storage.look_at_database),
    Examination("disk", "room to write, and to compact the database", room.look_at_disk),
    Examination("memory", "enough to read documents", room.look_at_memory),
    Examination("clock", "the time can be right, and is synchronised", times.look),
    Examination("daemon", "it answers, is of this version; what a killed one left", process.look),
    Examination("port", "the API's port is free, or who has it", process.look_at_port),
    Examination("service", "it is installed as this kbsync would install it, and runs", background.look),
    Examination(
        "embedding",
        "with `--deep`: the model embeds a sentence",
        partial(_trial, "embed", "Embedding"),
        trial.LIMITS_S["embed"] + 5,
        is_deep=True,
    ),
    Examination(
        "reading",
        "with `--deep`: a page of PDF is read",
        partial(_trial, "convert", "Reading"),
        trial.LIMITS_S["convert"] + 5,
        is_deep=True,
    ),
)


def examine(subject: Subject, *, deep: bool = False, only: Collection[str] = ()) -> list[Check]:
    """Look at everything, or `only` at what is named, and return what was found in the order of the table.

    `deep`: models are loaded too. Nothing is written, nothing raises; what hangs is told as unknown.
    """
    wanted = [one for one in EXAMINATIONS if (one.name in only if only else deep or not one.is_deep)]
    begun = time.monotonic()
    asked = [(one, Ask(partial(one.look, subject))) for one in wanted]
    found = []
    for one, ask in asked:
        found += [
            Check(one.name, finding.state, finding.detail, finding.remedy)
            for finding in _answer(ask, begun + one.limit_s - time.monotonic(), one.limit_s)
        ]
    return found


def _answer(ask: Ask[Sequence[Finding]], left_s: float, limit_s: float) -> Sequence[Finding]:
    try:
        return ask.answer(left_s)
    except TimeoutError:
        return [unknown(f"It gave no answer within {limit_s:.0f} s.")]
    except Unclear as unclear:
        return [unknown(str(unclear))]
    except KbsyncError as error:
        return [unknown(error.message, error.hint)]
    except PermissionError as error:
        where = "Something" if error.filename is None else os.fsdecode(error.filename)
        return [unknown(f"{where} is closed to this user: the permissions above say what helps.")]
    except Exception as error:  # noqa: BLE001 (told: the one who reads it has a machine on which much is broken)
        return [unknown(f"It could not be examined: {type(error).__name__}: {error}".rstrip(": ") + ".")]
