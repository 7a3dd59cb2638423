"""What came of a rebuild: told for as long as the damaged file is kept, and what only the time right after it needs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from kbsync.store import chunks, damage, documents, jobs, meta, reindexes, sources, vectors
from kbsync.store.connection import Connection

# What is kept for the time right after goes then, whether every folder could be walked or not.
_SETTLES_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of a rebuild. `aside`: the name of the damaged file; `at` in seconds since 1970.

    `damaged_notes` of the notes have a text that is not quite the one that was written. `settings`: documents with a
    title or type set by hand. `whole`: documents, earlier versions too, that came over with their text because no file
    holds them now; `lost`: current ones of which that was not possible; `unplaced`: those of which it cannot be read
    where they lay. `is_settling`: what the folders hold is yet to be read. `nothing_read`: not a row could be read.
    """

    at: float
    aside: str
    why: str
    notes: int
    damaged_notes: int
    settings: int
    removed: int
    stored: int
    vectors: int
    whole: int
    lost: int
    is_settling: bool = True
    unplaced: int = 0
    nothing_read: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """What is still to be read: `files` and `notes` wait for it, `folders` were not walked to their end yet.

    `chunks` have no vector yet. `is_anew`: for the index is being built anew.
    """

    files: int
    notes: int
    folders: int
    chunks: int
    is_anew: bool

    def __bool__(self) -> bool:
        return bool(self.files or self.notes or self.folders or self.chunks)


def write(connection: Connection, rebuilt: Rebuilt) -> None:
    """Write down what came of a rebuild, in the database that it made."""
    meta.put(connection, meta.REBUILT, json.dumps(asdict(rebuilt)))


def read(connection: Connection) -> Rebuilt | None:
    """Return what came of the rebuild that made this database, None where it was made anew."""
    written = meta.get(connection, meta.REBUILT)
    return None if written is None else Rebuilt(**json.loads(written))


def is_settling(connection: Connection) -> bool:
    """Return whether what was kept for the time right after a rebuild is still needed."""
    found = read(connection)
    return found is not None and found.is_settling


def unread(connection: Connection) -> Unread:
    """Return what is still to be read. Folders count only after a rebuild."""
    is_anew, files = is_settling(connection), 0
    if (remaking := meta.get(connection, meta.REMAKING)) is not None:
        files = documents.to_be_remade(connection, int(json.loads(remaking)["after"]))
    queued, notes = jobs.to_be_read(connection)
    table = reindexes.gaps(connection)
    without_vector = 0 if table is None else max(chunks.count(connection) - reindexes.filled(connection, table.id), 0)
    unwalked = [row for row in sources.listed(connection) if row.last_scan_at is None and row.paused_at is None]
    return Unread(files + queued, notes, len(unwalked) if is_anew else 0, without_vector, is_anew)


def keeps_vectors(connection: Connection) -> bool:
    """Return whether vectors are kept of what was lost."""
    return vectors.count_salvaged(connection) > 0


def end_settling(connection: Connection, now: float) -> bool:
    """Forget what only the time right after a rebuild needs, once every folder was walked and read; return whether.

    A folder whose disk is away is waited for, for a month at most.
    """
    found = read(connection)
    if found is None or not found.is_settling:
        # What a repair kept is needed until all that it has read again is there.
        if not jobs.any_live(connection) and meta.get(connection, meta.REMAKING) is None:
            vectors.forget_salvaged(connection)
        return False
    if now - found.at < _SETTLES_S and (jobs.any_live(connection) or not sources.all_walked(connection)):
        return False
    vectors.forget_salvaged(connection)
    write(connection, replace(found, is_settling=False))
    return True


def told(rebuilt: Rebuilt) -> str:
    """Say in a line what could be kept."""
    if rebuilt.nothing_read:
        stored = _counted(rebuilt.stored, "stored file")
        kept = f"; {stored} that lay beside it {'is' if rebuilt.stored == 1 else 'are'} kept" if rebuilt.stored else ""
        return f"nothing could be read from it: notes, titles set by hand and removals are lost with it{kept}"
    parts = [
        f"kept {_counted(rebuilt.notes, 'note')}",
        f"{_counted(rebuilt.stored, 'stored file')}",
        f"{_counted(rebuilt.removed, 'exclusion')}",
    ]
    if rebuilt.whole:
        parts.append(f"{_counted(rebuilt.whole, 'document')} whose file is away or another one now")
    if rebuilt.damaged_notes:
        parts.append(f"{_counted(rebuilt.damaged_notes, 'note')} with damaged text")
    if rebuilt.lost:
        parts.append(f"{_counted(rebuilt.lost, 'document')} had no copy and no file any more")
    if rebuilt.unplaced:
        parts.append(f"{_counted(rebuilt.unplaced, 'document')} that only your folders can tell of again")
    return ", ".join(parts)


def notice(found: Rebuilt | None, data_dir: str) -> str | None:
    """Say that a damaged database was set aside, for as long as its file is there; None where there is none."""
    if found is None:
        return None
    path = os.path.join(data_dir, found.aside)
    if not any(os.path.lexists(path + ending) for ending in damage.COMPANIONS):
        return None
    day = f"{datetime.fromtimestamp(found.at, UTC):%Y-%m-%d}"
    lost = " Where you have a backup, `kbsync restore` brings it back." if found.nothing_read else ""
    others = any(os.path.lexists(path + ending) for ending in damage.COMPANIONS if ending)
    named = f"{path}, and what begins with the same name" if others else path
    return (
        f"The database was found damaged on {day} and built anew: {told(found)}.{lost} The damaged one is {named}; "
        f"delete {'them' if others else 'it'} when you miss nothing."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
