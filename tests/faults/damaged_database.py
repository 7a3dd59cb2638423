"""A knowledge base with something in every kind of page, and ways to damage its database file."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from kbsync.errors import DatabaseDamaged, KbsyncError
from kbsync.model import IngestOptions
from kbsync.store import damage, tokenizer
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

ELSEWHERE = "/simulated/elsewhere"
PAGE = 4096
Dump = dict[str, list[tuple[Any, ...]]]


def made_world(home: Path) -> tuple[World, Dump]:
    """Return a world whose engine has ended cleanly, and its index."""
    world = World.new(home)
    world.configure(NOTES)
    engine = SimulatedEngine(world)
    for number in range(40):
        body = "\n\n".join(f"## Part {part}\n\n{_words(number, part)}" for part in range(4))
        engine.write(f"{NOTES}/folder {number % 3}/file {number}.md", f"# Title {number}\n\n{body}")
    engine.write(f"{NOTES}/gone.md", "# Gone\n\nsoon it is not there")
    engine.write(f"{NOTES}/left.md", "# Left out\n\nnobody wants this")
    engine.write(f"{NOTES}/nothing.bin", b"\0\1\2")
    engine.settle()
    for number in range(6):
        engine.note(f"Note {number}: {_words(number, 9)}", f"Kept {number}" if number % 2 else None)
    engine.note("A long one. " + _words(1, 1) * 200, "Long")
    for number in range(4):
        world.fs.write(f"{ELSEWHERE}/paper {number}.md", f"# Paper {number}\n\n{_words(number, 20)}".encode())
    engine.clock.advance(100)
    for number in range(4):
        engine.add(f"{ELSEWHERE}/paper {number}.md", IngestOptions(title="By hand") if number == 1 else None)
    engine.kb.remove_document(next(number for number, title, _ in engine.documents() if title == "Left out"))
    engine.remove(f"{NOTES}/gone.md")
    engine.rescan()
    index = engine.index()
    engine.close()
    return world, index


def _words(number: int, part: int) -> str:
    rng = random.Random(number * 100 + part)
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvw", k=rng.randrange(3, 9))) for _ in range(40))


@contextmanager
def copied(world: World) -> Iterator[World]:
    """Yield the same world with a home of its own, in memory where that goes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        home = Path(folder) / "home"
        shutil.copytree(world.home, home)
        clock = type(world.clock)()
        clock.advance(world.clock.now() - clock.now() + 1000)
        yield replace(world, home=home, device=type(world.device)(), clock=clock, fs=world.fs)


def pages_by_kind(database: str) -> dict[str, list[int]]:
    """Return kind of page -> the pages of that kind, counted from 1."""
    connection = apsw.Connection(database)
    tokenizer.register(connection)
    kinds: dict[str, list[int]] = {"header": [1], "schema": [1]}
    kind_of = {str(row[0]): str(row[1]) for row in connection.execute("SELECT name, type FROM sqlite_schema")}
    used = {1}
    rows: list[Any] = connection.execute("SELECT name, pagetype, pageno FROM dbstat").fetchall()
    for name, page_type, number in rows:
        used.add(int(number))
        if number == 1:
            continue
        what = "full text" if "_fts" in name else kind_of.get(name, "schema")
        kinds.setdefault(f"{what} {page_type}" + (f" of {name}" if what != "full text" else ""), []).append(int(number))
    kinds["freelist"] = [number for number in range(1, _count(connection) + 1) if number not in used]
    connection.close()
    return {kind: pages for kind, pages in sorted(kinds.items()) if pages}


def _count(connection: apsw.Connection) -> int:
    pages: Any = connection.pragma("page_count")
    return int(pages)


def flipped(path: str, kind: str, page: int, rng: random.Random) -> str:
    """Flip a bit of a page; return where."""
    start, end = (0, 100) if kind == "header" else (100, PAGE) if kind == "schema" else (0, PAGE)
    offset, bit = rng.randrange(start, end), rng.randrange(8)
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE + offset)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ (1 << bit)]))
    return f"{kind}, page {page}, byte {offset}, bit {bit}"


def same(index: Dump, other: Dump) -> list[str]:
    """Return what two indexes do not have in common. Vectors may differ by what rounding does.

    By what hash a note is known again is no part of what is found.
    """
    index, other = _without_hashes_of_notes(index), _without_hashes_of_notes(other)
    found = []
    for table, rows in index.items():
        there = other[table]
        if table == "chunks":
            if len(rows) == len(there):
                vectors = [np.frombuffer(row[6], np.float32) for row in rows]
                now = [np.frombuffer(row[6], np.float32) for row in there]
                if any(float(a @ b) < 0.9999 for a, b in zip(vectors, now, strict=True)):
                    found.append("vectors")
            rows, there = [row[:6] for row in rows], [row[:6] for row in there]
        if rows != there:
            found.append(f"{table}: {sorted(map(str, set(rows) ^ set(there)))[:4]}")
    return found


def _without_hashes_of_notes(index: Dump) -> Dump:
    notes = {row[2] for row in index["paths"] if row[0] == "note"}
    column = {"documents": 0, "paths": 2, "chunks": 0, "files": 3}
    return {
        table: sorted(
            (tuple("note" if at == column[table] and value in notes else value for at, value in enumerate(row)))
            for row in rows
        )
        if table != "files"
        else rows
        for table, rows in index.items()
    }


def of_files(index: Dump) -> Dump:
    """Return what of an index comes from the files of the folder: what a damaged database alone knew is left out."""
    hashes = {row[2] for row in index["paths"] if row[0] == "path" and not row[1].endswith(b"left.md")}
    column = {"documents": 0, "paths": 2, "chunks": 0, "files": 3}
    return {
        table: [row for row in rows if row[column[table]] in hashes and (table != "paths" or row[0] == "path")]
        for table, rows in index.items()
    }


def mended(engine: SimulatedEngine) -> bool:
    """Have all be checked and mended; return whether anything was wrong. Raises DatabaseDamaged for a damaged file."""
    problems = engine.kb.repair()
    if any(problem.kind in ("corrupt", "schema") and not problem.repaired for problem in problems):
        raise DatabaseDamaged("The check says so.")  # as the daily turn does
    return bool(problems)


def opened(world: World, *, tries: int = 4) -> SimulatedEngine:
    """Open the engine; where it ends with a damaged database it is started again, as a service manager does."""
    for _ in range(tries - 1):
        try:
            return SimulatedEngine(world)
        except DatabaseDamaged:
            continue
    return SimulatedEngine(world)


def survived(world: World, work: Callable[[SimulatedEngine], None], *, tries: int = 4) -> SimulatedEngine:
    """Do the work; where that ends the engine it is started again, as a service manager does, and it is done anew."""
    for last in (*[False] * (tries - 1), True):
        engine = opened(world)
        try:
            work(engine)
        except Exception as error:
            engine.close()
            if last or (isinstance(error, KbsyncError) and not isinstance(error, DatabaseDamaged)):
                raise
            if not isinstance(error, KbsyncError):
                # A loop of the daemon met what nobody can have written, and ended it.
                damage.suspect(world.locations.database, repr(error), is_told=False)
            continue
        return engine
    raise AssertionError("not reached")
