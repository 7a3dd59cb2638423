"""Backs up many documents and restores them on what is another machine to kbsync: other roots, other inodes.

The model is a hash of words and the converter reads plain bytes: what they made is counted, not timed. Bare is a copy
of the same files by `shutil.copytree`, in the same run on the same disk.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure, ratio
from tests.fakes.backed_up import backed_up, disk_world, index_of, restored
from tests.fakes.simulated_engine import SimulatedEngine, World

DOCUMENTS = 5000
ROUNDS = 3
# Of so many documents one is a PDF, whose conversion is kept, and one was added by hand, of which a copy is kept.
_PDF_IN, _ADDED_IN = 25, 50
_SECTIONS = 4
_WORDS = ("anchor", "basket", "candle", "dinner", "engine", "forest", "garden", "harbour", "island", "jacket", "kettle")


def measure(documents: int = DOCUMENTS, rounds: int = ROUNDS) -> list[Figure]:
    """Return seconds of backup and restore beside a bare copy, and what the first rescan under other roots did."""
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as base:
        root = Path(base).resolve()
        old = (root / "old" / "notes", root / "old" / "papers")
        world = disk_world(root / "home", *old)
        _write(old, root / "brought", documents)
        engine = SimulatedEngine(world)
        engine.rescan()
        for path in sorted((root / "brought").iterdir()):
            engine.add(str(path))
        backups, bare = [], []
        for number in range(rounds):
            begun = time.perf_counter()
            backed_up(engine, root / f"backup {number}")
            backups.append(time.perf_counter() - begun)
            bare.append(_bare_copy(root / f"backup {number}", root / "bare"))
        chunks, stored = _counts(engine)
        engine.close()
        expected = index_of(world)
        shutil.copytree(root / "old", root / "new")
        shutil.rmtree(root / "old")
        restores = []
        for number in range(rounds):
            new = disk_world(root / f"home {number}")
            begun = time.perf_counter()
            restored(new, root / f"backup {number}", [f"{root / 'old'}={root / 'new'}"])
            restores.append(time.perf_counter() - begun)
        embeddings, conversions, events, differing, seconds = _rescanned(new, expected, root / "old", root / "new")
        megabytes = sum(path.stat().st_size for path in (root / "backup 0").rglob("*") if path.is_file()) / 1e6
    return [
        Figure("backup: documents, chunks, stored files", "", (documents, chunks, stored)),
        Figure("backup: its size", "MB", (megabytes,)),
        Figure("backup: written beside the engine", "s", tuple(backups)),
        ratio("backup: to a bare copy of the same files", backups, bare),
        Figure("restore: under other roots", "s", tuple(restores)),
        ratio("restore: to a bare copy of the same files", restores, bare),
        Figure("restore: first rescan, every file hashed", "s", (seconds,)),
        Figure("restore: embeddings made by it", "texts", (embeddings,)),
        Figure("restore: conversions made by it", "documents", (conversions,)),
        Figure("restore: changes that it told of", "events", (events,)),
        Figure("restore: rows of the index that differ", "rows", (differing,)),
    ]


def _rescanned(
    world: World, expected: dict[str, list[tuple[object, ...]]], old: Path, new: Path
) -> tuple[int, int, int, int, float]:
    """Return (embeddings, conversions, events, rows that differ, seconds) of the first looks at the new roots."""
    engine = SimulatedEngine(world)
    before = engine.read("SELECT count(*) FROM events")[0][0]
    begun = time.perf_counter()
    engine.rescan()
    seconds = time.perf_counter() - begun
    engine.rescan()
    events = engine.read("SELECT count(*) FROM events")[0][0] - before
    embeddings, conversions = len(engine.embedded()), len(engine.cage.requests)
    engine.close()
    found = index_of(world)
    differing = sum(
        len(set(map(_plain, rows)) ^ {_plain(row, old, new) for row in expected[name]}) for name, rows in found.items()
    )
    return embeddings, conversions, events, differing, seconds


def _plain(row: tuple[object, ...], old: Path | None = None, new: Path | None = None) -> str:
    """Return a row as text, with its paths below another folder."""
    moved = [
        value.replace(str(old).encode(), str(new).encode(), 1) if isinstance(value, bytes) and old else value
        for value in row
    ]
    return repr(moved)


def _write(folders: tuple[Path, Path], brought: Path, documents: int) -> None:
    for folder in (*folders, brought):
        folder.mkdir(parents=True)
    for number in range(documents):
        sections = "\n\n".join(f"## Section {part}\n\n{_text(number * _SECTIONS + part)}" for part in range(_SECTIONS))
        if number % _ADDED_IN == 0:
            (brought / f"{number:05}.md").write_text(f"# Brought {number}\n\n{sections}\n")
        elif number % _PDF_IN == 0:
            (folders[1] / f"{number:05}.pdf").write_bytes(f"%PDF-1.7 {number}\f{sections}".encode())
        else:
            below = folders[0] / f"{number % 20:02}"
            below.mkdir(exist_ok=True)
            (below / f"{number:05}.md").write_text(f"# Note {number}\n\n{sections}\n")


def _text(number: int) -> str:
    return (
        " ".join(_WORDS[(number * 31 + place * (1 + number % 11)) % len(_WORDS)] for place in range(60)) + f" {number}"
    )


def _bare_copy(backup: Path, target: Path) -> float:
    begun = time.perf_counter()
    shutil.copytree(backup, target)
    seconds = time.perf_counter() - begun
    shutil.rmtree(target)
    return seconds


def _counts(engine: SimulatedEngine) -> tuple[int, int]:
    [(chunks,)] = engine.read("SELECT count(*) FROM chunks")
    [(stored,)] = engine.read("SELECT count(*) FROM documents WHERE stored_path IS NOT NULL")
    return chunks, stored
