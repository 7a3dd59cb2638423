"""Looks at a settled knowledge base from outside: a walk and a dump that share no code with the scanner and the writer.

The walk reads the simulated disk itself, the dump the tables with statements of its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.simulated_filesystem import SimulatedFileSystem

Read = Callable[..., Sequence[tuple[Any, ...]]]
_TEXT = (".md", ".txt", ".py", ".log")
_READABLE = (*_TEXT, ".pdf")
# In these states of a source nothing is concluded about what it does not show.
_UNCERTAIN = ("paused", "held")


@dataclass(frozen=True, slots=True)
class Place:
    """One file as the disk has it. `reads` is False where reading it, or listing a folder above it, fails."""

    path: str
    kind: str
    content: bytes
    reads: bool


def walked(fs: SimulatedFileSystem, root: str) -> list[Place]:
    """Return everything below a folder that is no folder itself."""
    return [
        Place(path, kind, content, not fs.failing(path))
        for path, kind, content in fs.contents(root)
        if kind != "directory"
    ]


def live_paths(read: Read) -> set[tuple[str, str]]:
    """Return (path, content hash) of everything that a watched folder holds according to the database."""
    rows = read(
        "SELECT o.path, d.content_hash FROM origins o JOIN documents d ON d.id = o.document_id "
        "WHERE o.live = 1 AND o.kind = 'path'"
    )
    return {(os.fsdecode(path), str(content_hash)) for path, content_hash in rows}


def carriers(fs: SimulatedFileSystem, roots: Collection[str], away: Collection[str]) -> dict[str, frozenset[str]]:
    """Return content hash -> paths of all text that is to be found now. It takes no ignore rules into account."""
    found: dict[str, set[str]] = {}
    for place in (place for root in roots for place in walked(fs, root)):
        name = os.path.basename(place.path)
        is_text = place.content and name.endswith(_TEXT) and not name.startswith(".")
        if is_text and place.reads and not _below(place.path, away):
            found.setdefault(hashlib.sha256(place.content).hexdigest(), set()).add(place.path)
    return {content_hash: frozenset(paths) for content_hash, paths in found.items()}


def current(read: Read) -> set[str]:
    """Return the content hashes of the documents that search finds."""
    return {str(content_hash) for (content_hash,) in read("SELECT content_hash FROM documents WHERE state = 'current'")}


def mixed(read: Read) -> list[str]:
    """Return what a reader would see of two versions at once, or of half a one."""
    found = []
    for what, sql in (
        (
            "chunks under another title",
            "SELECT d.title, c.enriched_text FROM chunks c JOIN documents d ON d.id = c.document_id "
            "WHERE substr(c.enriched_text, 1, length(d.title)) <> d.title",
        ),
        (
            "chunks missing between others",
            "SELECT document_id, count(*) FROM chunks GROUP BY document_id HAVING max(position) + 1 <> count(*)",
        ),
        (
            "current documents that nothing holds",
            "SELECT id, title FROM documents WHERE (state = 'current') <> "
            "EXISTS (SELECT 1 FROM origins WHERE document_id = documents.id AND live = 1)",
        ),
        (
            "two jobs for one path",
            "SELECT path, count(*) FROM jobs WHERE state IN ('queued', 'processing') GROUP BY source_id, path "
            "HAVING count(*) > 1",
        ),
    ):
        found += [f"{what}: {row}" for row in read(sql)]
    return found


def unaccounted(
    fs: SimulatedFileSystem, read: Read, away: Collection[str], tired: Collection[str], rules: bool
) -> list[str]:
    """Return every way in which a settled ledger differs from the disk.

    `away`: places whose disk is not there. `tired`: paths whose reading was made to fail. `rules`: whether ignore rules
    of the test are in force.
    """
    found = []
    states = {
        os.fsdecode(path): str(state)
        for path, state in read("SELECT path, state FROM sources WHERE reason IS NOT 'taken_out'")
    }
    ledger = {
        os.fsdecode(row[0]): row[1:]
        for row in read(
            "SELECT f.path, f.state, f.reason, f.content_hash FROM files f JOIN sources s ON s.id = f.source_id "
            "WHERE f.state <> 'gone' AND s.reason IS NOT 'taken_out'"
        )
    }
    held = dict(live_paths(read))
    for root, state in states.items():
        if state in _UNCERTAIN:
            continue
        there = {place.path: place for place in walked(fs, root)}
        for place in there.values():
            found += _missing(place, ledger, held, tired, rules)
        for path in ledger:
            absent = _below(path, [root]) and path not in there and not _is_hidden(fs, path, away)
            if absent and not _is_folder(fs, path):
                found.append(f"a ghost: {path} {ledger[path]}")
        for path in held:
            if _below(path, [root]) and path not in there and not _is_hidden(fs, path, away):
                found.append(f"found, but not there: {path}")
    paused = [root for root, state in states.items() if state in _UNCERTAIN]
    for path, state in read("SELECT path, state FROM jobs WHERE state IN ('queued', 'processing')"):
        if not _below(os.fsdecode(path), paused):
            found.append(f"a job that does not end: {path} {state}")
    return found


def _missing(
    place: Place, ledger: dict[str, tuple[Any, ...]], held: dict[str, str], tired: Collection[str], rules: bool
) -> list[str]:
    """Return what is wrong with the account of a file that is there."""
    row, above = ledger.get(place.path), _row_above(place.path, ledger)
    if row is None or (above is not None and not place.reads):
        if above is not None and above[0] in ("skipped", "failed"):
            return []
        return [f"not accounted for: {place.path}, above it {above}"]
    state, reason, content_hash = row
    if state == "waiting":
        return [f"still waiting: {place.path} {reason}"]
    if reason not in _reasons(place, tired, rules):
        return [f"for no reason: {place.path} {state}({reason})"]
    right = hashlib.sha256(place.content).hexdigest()
    if state == "indexed" and (content_hash != right or held.get(place.path) != right):
        return [f"another version: {place.path} is {place.content[:20]!r}"]
    if state == "skipped" and place.path in held:
        return [f"left out, and still found: {place.path} {reason}"]
    return []


def _reasons(place: Place, tired: Collection[str], rules: bool) -> set[str | None]:
    """Return the reasons that a file's account may have, None for one that is simply indexed."""
    name = os.path.basename(place.path)
    if place.kind != "file":
        return {place.kind, "ignored"}
    if name.startswith(".env"):
        return {"secret"}
    if name.startswith(".") or name.endswith("~"):
        return {"ignored"}
    allowed: set[str | None] = {"ignored"} if rules else set()
    if not name.endswith(_READABLE):
        return allowed | {"unsupported"}
    if not place.reads:
        return allowed | {"permission", "io", "empty"}
    if place.path in tired:
        allowed |= {"timeout", "memory", "crashed", "corrupt", "too_complex"}
    if not place.content:
        return allowed | {"empty"}
    if b"\0" in place.content and not name.endswith(".pdf"):
        return allowed | {"binary"}
    if name.endswith(".pdf") and not place.content.startswith(b"%PDF-"):
        return allowed | {"corrupt"}
    return allowed | {None}


def _row_above(path: str, ledger: dict[str, tuple[Any, ...]]) -> tuple[Any, ...] | None:
    above = os.path.dirname(path)
    while above != "/":
        if above in ledger:
            return ledger[above]
        above = os.path.dirname(above)
    return None


def _is_folder(fs: SimulatedFileSystem, path: str) -> bool:
    return any(found == path and kind == "directory" for found, kind, _ in fs.contents(os.path.dirname(path)))


def _is_hidden(fs: SimulatedFileSystem, path: str, away: Collection[str]) -> bool:
    """Return whether nothing can be concluded from the absence of a path."""
    return fs.failing(path) or _below(path, away)


def _below(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)
