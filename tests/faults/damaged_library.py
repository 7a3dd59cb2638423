"""A small library of every kind of document, of which any number of copies can be damaged."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import apsw

from kbsync.model import IngestOptions
from kbsync.store import tokenizer
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

ELSEWHERE, INBOX = "/simulated/elsewhere", "/simulated/inbox"
_WORDS = [
    "apple",
    "pear",
    "plum",
    "quince",
    "cherry",
    "medlar",
    "grape",
    "lemon",
    "orange",
    "melon",
    "fig",
    "date",
    "olive",
    "almond",
    "walnut",
    "hazel",
]


def _prose(first: str, count: int) -> str:
    return " ".join(f"{first} {_WORDS[(i * 7 + len(first)) % len(_WORDS)]} grows {i}." for i in range(count))


def filled(home: Path) -> World:
    """Return a world whose library is settled: files, documents, older versions, what was brought by hand, notes."""
    world = World.new(home)
    world.configure(NOTES, text=f'[[sources]]\npath = "{INBOX}"\nmode = "inbox"\n')
    for folder in (NOTES, INBOX, ELSEWHERE):
        world.fs.make_directory(folder)
    engine = SimulatedEngine(world)
    engine.settle()
    autumn, winter = f"## Autumn\n\n{_prose('Late', 90)}", f"## Winter\n\n{_prose('Cold', 60)}"
    long = f"# Orchard\n\n{_prose('Early', 90)}\n\n{autumn}\n\n{winter}\n"
    engine.write(f"{NOTES}/orchard.md", long)
    engine.write(f"{NOTES}/same.md", "# Same\n\nTwo files of the same words.")
    engine.write(f"{NOTES}/deep/twin.md", "# Same\n\nTwo files of the same words.")
    engine.write(f"{NOTES}/plain.txt", "A plain text whose name is its title.")
    engine.write(f"{NOTES}/tool.py", 'def prune(tree):\n    """Cut a tree."""\n    return tree\n')
    engine.write(f"{NOTES}/report.pdf", f"{_prose('Page', 30)}\f{_prose('Sheet', 30)}")
    engine.write(f"{NOTES}/changed.md", "# Changed\n\nThe first version of it.")
    engine.write(f"{NOTES}/going.md", "# Going\n\nIt will not stay.")
    engine.write(f"{NOTES}/unwanted.md", "# Unwanted\n\nIt is taken out by hand.")
    engine.fs.write(f"{ELSEWHERE}/letter.md", b"# Letter\n\nIt was brought by hand.")
    engine.fs.write(f"{ELSEWHERE}/drawing.pdf", b"What the drawing says.")
    engine.settle()
    engine.write(f"{NOTES}/changed.md", "# Changed\n\nThe second version, which counts.")
    engine.remove(f"{NOTES}/going.md")
    engine.rescan()
    (unwanted,) = engine.read("SELECT id FROM documents WHERE title = 'Unwanted'")[0]
    engine.kb.remove_document(unwanted)
    engine.add(f"{ELSEWHERE}/letter.md")
    engine.add(f"{ELSEWHERE}/drawing.pdf", IngestOptions(title="The drawing"))
    engine.kb.adding.add_upload("sent.md", 26, [b"# Sent\n\nOver the network."], IngestOptions())
    engine.note("A thought that is nowhere else.\n\nIt has two parts.")
    engine.note("Milk and bread", title="To buy")
    engine.fs.write(f"{INBOX}/scan.txt", b"It came through the inbox.")
    engine.clock.advance(60.0)
    engine.rescan()
    engine.close()
    return world


@contextmanager
def copied(world: World, folder: Path) -> Iterator[SimulatedEngine]:
    """Yield a life of the daemon in a copy of a world."""
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(world.home, home)
    clock, fs = copy.deepcopy((world.clock, world.fs))
    engine = SimulatedEngine(replace(world, home=home, clock=clock, fs=fs, device=HashDevice()))
    try:
        engine.settle()
        yield engine
    finally:
        engine.close()


@contextmanager
def behind_its_back(database: str) -> Iterator[apsw.Connection]:
    """Yield a connection of another program, which no guard of ours holds back."""
    connection = apsw.Connection(database)
    tokenizer.register(connection)
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Mutation:
    """One damage: what is done, and the kinds by which the check must name it, no other.

    `embedded`: how many texts are embedded anew at the most. `left`: kinds that only a person can see to.
    """

    name: str
    do: str | Callable[[SimulatedEngine, apsw.Connection], None]
    kinds: frozenset[str]
    embedded: int = 0
    left: frozenset[str] = field(default=frozenset())

    def apply(self, engine: SimulatedEngine) -> None:
        """Do the damage."""
        with behind_its_back(engine.world.locations.database) as connection:
            if isinstance(self.do, str):
                connection.execute(self.do)
            else:
                self.do(engine, connection)


def files_below(folder: str) -> dict[str, bytes]:
    """Return every file below a folder by its relative path."""
    found = {}
    for place, _folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = Path(path).read_bytes()
    return found
