"""Random things that happen to folders: a trace is made from a seed alone, and played on a real disk."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.editor_saves import SAVES

# Two sources, and a folder beside them from which things come and to which they go.
ROOTS, OUTSIDE = ("a", "b"), "outside"
_NAMES = ("apple", "Birne", "quitte", "朝", "née", "with space", "x")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: what is done, to which paths (relative to the ground), with which text."""

    what: str
    path: str
    other: str = ""
    text: str = ""


@dataclass(slots=True)
class _Tree:
    """What lies where after the steps so far."""

    folders: set[str] = field(default_factory=lambda: {*ROOTS, OUTSIDE})
    files: set[str] = field(default_factory=set)

    def below(self, folder: str) -> set[str]:
        return {path for path in self.files | self.folders if path.startswith(folder + "/")}

    def remove(self, path: str) -> None:
        gone = {path} | self.below(path)
        self.files -= gone
        self.folders -= gone

    def move(self, old: str, new: str) -> None:
        moved = {path: new + path[len(old) :] for path in {old} | self.below(old)}
        files, folders = self.files & moved.keys(), self.folders & moved.keys()
        self.remove(old)
        self.files |= {moved[path] for path in files}
        self.folders |= {moved[path] for path in folders}


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tree = _Tree()
        self._count = 0
        self.steps: list[Step] = []

    def make(self, length: int) -> list[Step]:
        kinds: list[tuple[int, Callable[[], None]]] = [
            *((6, self._write), (4, self._save), (3, self._deep), (3, self._rename), (2, self._delete)),
            *((2, self._move_folder), (2, self._move_and_write), (1, self._remove_and_make_anew), (1, self._remove)),
            *((1, self._copy), (1, self._touch)),
        ]
        weights = [weight for weight, _ in kinds]
        while len(self.steps) < length:
            self._random.choices(kinds, weights)[0][1]()
        return self.steps

    def _text(self) -> str:
        self._count += 1
        # Now and then the same bytes as another file's: one document, two places.
        number = self._random.randrange(5) if self._random.random() < 0.1 else self._count
        return f"# Note {number}\n\nword{number} grows in the orchard of {number}.\n"

    def _folder(self) -> str:
        return self._random.choice(sorted(self._tree.folders))

    def _inner_folder(self) -> str | None:
        inner = sorted(self._tree.folders - {*ROOTS, OUTSIDE})
        return self._random.choice(inner) if inner else None

    def _file(self) -> str | None:
        return self._random.choice(sorted(self._tree.files)) if self._tree.files else None

    def _new(self, folder: str, ending: str) -> str:
        self._count += 1
        return f"{folder}/{self._random.choice(_NAMES)}{self._count}{ending}"

    def _do(self, step: Step) -> None:
        self.steps.append(step)

    def _write(self) -> None:
        path = self._new(self._folder(), ".md")
        self._tree.files.add(path)
        self._do(Step("write", path, text=self._text()))

    def _save(self) -> None:
        if path := self._file():
            self._do(Step(self._random.choice(SAVES).__name__, path, text=self._text()))

    def _deep(self) -> None:
        folder = self._folder()
        for _ in range(self._random.randint(1, 5)):
            folder = self._new(folder, "")
            self._tree.folders.add(folder)
        path = self._new(folder, ".md")
        self._tree.files.add(path)
        self._do(Step("deep", path, text=self._text()))

    def _rename(self) -> None:
        if path := self._file():
            new = self._new(self._folder(), ".md")
            self._tree.move(path, new)
            self._do(Step("move", path, new))

    def _delete(self) -> None:
        if path := self._file():
            self._tree.remove(path)
            self._do(Step("delete", path))

    def _moved(self) -> str | None:
        folder = self._inner_folder()
        if folder is None:
            return None
        elsewhere = [one for one in sorted(self._tree.folders) if one != folder and not one.startswith(folder + "/")]
        new = self._new(self._random.choice(elsewhere), "")
        self._tree.move(folder, new)
        self._do(Step("move", folder, new))
        return new

    def _move_folder(self) -> None:
        self._moved()

    def _move_and_write(self) -> None:
        if folder := self._moved():
            path = self._new(folder, ".md")
            self._tree.files.add(path)
            self._do(Step("write", path, text=self._text()))

    def _remove(self) -> None:
        if folder := self._inner_folder():
            self._tree.remove(folder)
            self._do(Step("remove", folder))

    def _remove_and_make_anew(self) -> None:
        if folder := self._inner_folder():
            files = sorted(path for path in self._tree.below(folder) if path in self._tree.files)
            folders = sorted(self._tree.below(folder) - set(files))
            self._do(Step("remove", folder))
            self._do(Step("mkdir", folder))
            for inner in folders:
                self._do(Step("mkdir", inner))
            for path in files:
                self._do(Step("write", path, text=self._text()))

    def _copy(self) -> None:
        if path := self._file():
            new = self._new(self._folder(), ".md")
            self._tree.files.add(new)
            self._do(Step("copy", path, new))

    def _touch(self) -> None:
        if path := self._file():
            self._do(Step("touch", path))


def trace(seed: int, length: int) -> list[Step]:
    """Return what happens: about `length` steps, the same for the same seed."""
    return _Maker(seed).make(length)


def play(ground: Path, step: Step) -> None:
    """Do a step on the disk."""
    path = ground / step.path
    save = next((save for save in SAVES if save.__name__ == step.what), None)
    if save is not None:
        save(path, step.text)
    elif step.what == "write":
        path.write_text(step.text)
    elif step.what == "deep":
        path.parent.mkdir(parents=True)
        path.write_text(step.text)
    elif step.what == "move":
        os.rename(path, ground / step.other)
    elif step.what == "delete":
        path.unlink()
    elif step.what == "remove":
        shutil.rmtree(path)
    elif step.what == "mkdir":
        path.mkdir()
    elif step.what == "copy":
        shutil.copy2(path, ground / step.other)
    else:
        os.utime(path, (1_500_000_000, 1_500_000_000))
