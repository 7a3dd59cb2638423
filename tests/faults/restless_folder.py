"""Folders that never rest: a thread changes them all the time, as people and programs do, and keeps its own account."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.faults.forked_daemon import NAPS

MIRRORS, INBOX, OUTSIDE = ("apples", "pears"), "inbox", "outside"
_FOLDERS = ("", "deep", "deep/er", "née")
_ENDINGS = (".md", ".md", ".md", ".txt", ".txt", ".py", ".py", ".csv", ".csv", ".pdf")
_MOST_FILES = 120
# One document takes longer to read than a daemon lives here; it is written anew after so many changes.
_SLOW, _SLOW_EVERY = "slow.pdf", 100
# Between two changes, in seconds: a hundred a second at the most.
_SHORTEST_S, _LONGEST_S = 0.01, 0.06


@dataclass(slots=True)
class Account:
    """What must be on the disk: of a mirror's files bytes and times, of the inbox what was ever put into it."""

    mirrors: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    fed: dict[str, bytes] = field(default_factory=dict)
    changes: int = 0


class RestlessFolder:
    """Changes what lies below `ground` from its thread, between `with` and its end. The seed decides what happens."""

    def __init__(self, ground: Path, seed: int) -> None:
        self.ground = ground
        self.account = Account()
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="changer")
        for name in (*MIRRORS, INBOX, OUTSIDE):
            (ground / name).mkdir(parents=True)
        for name in MIRRORS:  # no folder is ever empty: an empty one could be a disk that is not there
            self._write(str(ground / name / "always.md"))

    def __enter__(self) -> RestlessFolder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wrong(self) -> list[str]:
        """Return how the mirrors differ from the account. Call it at rest."""
        found: dict[str, tuple[bytes, int]] = {}
        for name in MIRRORS:
            for folder, _, files in os.walk(self.ground / name):
                for file in files:
                    path = os.path.join(folder, file)
                    found[path] = Path(path).read_bytes(), os.stat(path).st_mtime_ns
        expected = self.account.mirrors
        return [
            f"{path}: {'another' if path in found and path in expected else 'gone' if path in expected else 'new'}"
            for path in sorted(expected.keys() | found.keys())
            if found.get(path) != expected.get(path)
        ]

    def lost_of_inbox(self, stored: Callable[[str], bytes | None]) -> list[str]:
        """Return what was put into the inbox and is neither there nor stored; `stored` gets a content hash."""
        lost = []
        for path, content in self.account.fed.items():
            there = Path(path).read_bytes() if os.path.exists(path) else None
            if there != content and stored(hashlib.sha256(content).hexdigest()) != content:
                lost.append(path)
        return lost

    # ---- in the thread ----

    def _run(self) -> None:
        kinds: list[tuple[int, Callable[[], None]]] = [
            *((5, self._new), (3, self._again), (3, self._append), (3, self._save), (3, self._rename)),
            *((1, self._move_folder), (2, self._delete), (1, self._copy), (1, self._touch), (2, self._feed)),
        ]
        deeds, weights = [deed for _, deed in kinds], [weight for weight, _ in kinds]
        try:
            while not self._stop.wait(self._random.uniform(_SHORTEST_S, _LONGEST_S)):
                deed = (
                    self._delete if len(self.account.mirrors) > _MOST_FILES else self._random.choices(deeds, weights)[0]
                )
                deed()
                if self.account.changes % _SLOW_EVERY == 0:
                    self._write(str(self.ground / MIRRORS[0] / _SLOW), NAPS + self._text())
                self.account.changes += 1
        except BaseException as error:  # noqa: BLE001 - told at the end of the block
            self._failure = error

    def _text(self) -> bytes:
        number = self._random.randrange(1 << 40)
        return f"# Harvest {number}\n\nword{number} ripens late, and word{number % 97} early.\n".encode()

    def _write(self, path: str, content: bytes | None = None) -> None:
        content = self._text() if content is None else content
        Path(path).write_bytes(content)
        self._note(path, content)

    def _note(self, path: str, content: bytes) -> None:
        self.account.mirrors[path] = content, os.stat(path).st_mtime_ns

    def _place(self, ending: str | None = None) -> str:
        folder = self.ground / self._random.choice(MIRRORS) / self._random.choice(_FOLDERS)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{self._random.randrange(1 << 30)}{ending or self._random.choice(_ENDINGS)}")

    def _some(self) -> str:
        found = sorted(path for path in self.account.mirrors if not path.endswith(("always.md", _SLOW)))
        if found:
            return self._random.choice(found)
        path = self._place()
        self._write(path)
        return path

    def _new(self) -> None:
        self._write(self._place())

    def _again(self) -> None:
        self._write(self._some())

    def _append(self) -> None:
        path = self._some()
        more = self._text()
        with open(path, "ab") as file:
            file.write(more)
        self._note(path, self.account.mirrors[path][0] + more)

    def _save(self) -> None:
        path, content = self._some(), self._text()
        beside = f"{path}.tmp"
        Path(beside).write_bytes(content)
        os.replace(beside, path)
        self._note(path, content)

    def _rename(self) -> None:
        old = self._some()
        new = self._place(os.path.splitext(old)[1])
        os.rename(old, new)
        self.account.mirrors[new] = self.account.mirrors.pop(old)

    def _move_folder(self) -> None:
        old = self.ground / self._random.choice(MIRRORS) / self._random.choice(_FOLDERS[1:])
        new = self.ground / self._random.choice(MIRRORS) / f"moved-{self._random.randrange(1 << 30)}"
        if not old.is_dir():
            return
        os.rename(old, new)
        mirrors = self.account.mirrors
        for path in [path for path in mirrors if path.startswith(f"{old}/")]:
            mirrors[f"{new}{path[len(str(old)) :]}"] = mirrors.pop(path)

    def _delete(self) -> None:
        path = self._some()
        os.unlink(path)
        del self.account.mirrors[path]

    def _copy(self) -> None:
        path = self._some()
        new = self._place(os.path.splitext(path)[1])
        shutil.copy2(path, new)
        self._note(new, self.account.mirrors[path][0])

    def _touch(self) -> None:
        path = self._some()
        os.utime(path, (1_500_000_000, 1_500_000_000))
        self._note(path, self.account.mirrors[path][0])

    def _feed(self) -> None:
        content = self._text()
        name = f"{self._random.randrange(1 << 30)}{self._random.choice(('.md', '.md', '.md', '.pdf'))}"
        path = str(self.ground / INBOX / name)
        if self._random.random() < 0.5:
            made = self.ground / OUTSIDE / name
            made.write_bytes(content)
            os.rename(made, path)
        else:
            Path(path).write_bytes(content)
        self.account.fed[path] = content
