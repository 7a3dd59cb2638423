"""What T2's steps do to the simulated disk, and the events that a watcher would see of it."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

T = TypeVar("T")

NOTES, ARCHIVE, DISK = "/simulated/notes", "/simulated/archive", "/simulated/disk"
ROOTS = (NOTES, ARCHIVE, DISK)
# A disk below a root, and one that is a root.
STICK = f"{NOTES}/stick"
MOUNTS = (STICK, DISK)
_SUBFOLDERS = (f"{NOTES}/deep", f"{NOTES}/deep/er", f"{STICK}/box", f"{ARCHIVE}/deep", f"{ARCHIVE}/many", f"{DISK}/box")
_FOLDERS = (*ROOTS, STICK, *_SUBFOLDERS)
# The same letters composed and decomposed, the same name in two cases, a secret, hidden and unsupported ones.
_NAMES = (
    "a.md",
    "b.txt",
    "c.py",
    "d.log",
    "e.pdf",
    "f.pdf",
    "A.md",
    "\u00e9.md",
    "e\u0301.md",
    ".env",
    ".h.md",
    "g.exe",
)
_CONTENTS = (
    b"quince",
    b"# Trees\n\nmedlar",
    b"# Trees\n\nmedlar\n\n## Shrubs\n\n" + b"sloe " * 70,
    b"def ripen():\n    return 'late'\n",
    b"%PDF-1.7 rowan\fhawthorn\fwhitebeam",
    b"",
    b"\x00\x01\x02\x03" * 300,
)
_RULES = (b"", b"a.md\n", b"deep/\n", b"*.txt\n!b.txt\n")
_AWAY = ARCHIVE + ".away"
_BULK = 26
# Nobody takes it away, so that only a lost disk is ever empty.
_ANCHOR = "anchor.md"


@dataclass(frozen=True, slots=True)
class Seen:
    """An event: something happened at a path, or left it."""

    path: str
    gone: bool = False


Numbers = tuple[int, ...]


class Disk:
    """Every method returns the events of what it did; none, where there was nothing to do it to."""

    def __init__(self, fs: SimulatedFileSystem, clock: ManualClock) -> None:
        self.fs = fs
        self._clock = clock
        self.away: set[str] = set()
        self.forbidden: list[str] = []
        for root in (NOTES, ARCHIVE):
            fs.make_directory(root)
        for mount in MOUNTS:
            fs.attach_disk(mount)
        for folder in (*ROOTS, STICK):
            fs.write(f"{folder}/{_ANCHOR}", b"anchored in " + folder.encode())

    # ---- files ----

    def write(self, numbers: Numbers) -> list[Seen]:
        return self._written(self._some_path(numbers), _CONTENTS[numbers[1] % len(_CONTENTS)])

    def write_rules(self, numbers: Numbers) -> list[Seen]:
        return self._written(f"{_of(_FOLDERS, numbers[0])}/.gitignore", _of(_RULES, numbers[1]))

    def append(self, numbers: Numbers) -> list[Seen]:
        path = self._file(numbers[0])
        return self._written(path, self._content(path) + b"\n\nmore %d" % (numbers[1] % 3)) if path else []

    def save_atomically(self, numbers: Numbers) -> list[Seen]:
        """As editors do: written beside it, the old one kept under another name or not, then moved over it."""
        path = self._file(numbers[0])
        if not path:
            return []
        beside = posixpath.join(posixpath.dirname(path), ".save")
        seen = self._written(beside, _of(_CONTENTS, numbers[1]))
        if seen and numbers[2] % 2:
            backup = path + "~"
            self.fs.rename(path, backup)
            seen += [Seen(path, gone=True), Seen(backup)]
        return [*seen, *self._moved(beside, path)] if seen else []

    def rename(self, numbers: Numbers) -> list[Seen]:
        path = self._file(numbers[0])
        return self._moved(path, self._new_path(numbers)) if path else []

    def check_out(self, numbers: Numbers) -> list[Seen]:
        """As a change of branches does: files are removed here and made anew there, with the same bytes."""
        seen: list[Seen] = []
        for more in range(1 + numbers[2] % 3):
            path, new = self._file(numbers[0] + more), self._new_path((numbers[1] + more, numbers[0]))
            if not path or path == new or not self._can_be_made(new):
                continue
            content = self._content(path)
            self.fs.remove(path)
            seen += [Seen(path, gone=True), *self._written(new, content)]
        return seen

    def copy(self, numbers: Numbers) -> list[Seen]:
        path = self._file(numbers[0])
        return self._written(self._new_path(numbers), self._content(path)) if path else []

    def link(self, numbers: Numbers) -> list[Seen]:
        path, new = self._file(numbers[0]), self._new_path(numbers)
        if not path or not self._can_be_made(new):
            return []
        return self._done([Seen(new)], lambda: self.fs.link(path, new))

    def remove(self, numbers: Numbers) -> list[Seen]:
        path = self._file(numbers[0])
        return self._done([Seen(path, gone=True)], lambda: self.fs.remove(path)) if path else []

    def touch(self, numbers: Numbers) -> list[Seen]:
        path = self._file(numbers[0])
        mtime = self._clock.monotonic() + 1e8 * (numbers[1] % 30)
        return self._done([Seen(path)], lambda: self.fs.set_mtime(path, mtime)) if path else []

    def edit_unseen(self, numbers: Numbers) -> list[Seen]:
        """Change bytes and put size and mtime back as they were: only ctime tells."""
        path = self._file(numbers[0])
        if not path:
            return []
        mtime, content = self._mtime(path), self._content(path)
        turned = content.replace(b"e", b"o") if b"e" in content else content.replace(b"o", b"e")
        seen = self._written(path, turned)
        self.fs.set_mtime(path, mtime)
        return seen

    def write_link_or_pipe(self, numbers: Numbers) -> list[Seen]:
        path = f"{_of(_FOLDERS, numbers[0])}/odd{numbers[1] % 2}.md"
        if not self._can_be_made(path) or self._there(path):
            return []
        if numbers[1] % 2:
            return self._done([Seen(path)], lambda: self.fs.fifo(path))
        return self._done([Seen(path)], lambda: self.fs.symlink(path, _of(ROOTS, numbers[2])))

    # ---- folders ----

    def move_folder(self, numbers: Numbers) -> list[Seen]:
        old = self._folder(numbers[0])
        new = _of((*_SUBFOLDERS, f"{NOTES}/moved", f"{ARCHIVE}/moved", f"{DISK}/moved"), numbers[1])
        if not old or self._there(new) or new.startswith(old + "/"):
            return []
        return self._moved(old, new)

    def remove_folder(self, numbers: Numbers) -> list[Seen]:
        path = self._folder(numbers[0])
        if not path:
            return []
        seen = [Seen(inner, gone=True) for inner in self._files_of(path)]
        return self._done([*seen, Seen(path, gone=True)], lambda: self.fs.remove(path))

    def fill_folder(self, numbers: Numbers) -> list[Seen]:
        """Write so many files into one folder that their loss is noticed."""
        folder = f"{ARCHIVE}/many"
        seen: list[Seen] = []
        for number in range(_BULK):
            seen += self._written(f"{folder}/{number}.txt", b"one of many %d" % (number + numbers[0] % 2))
        return seen

    # ---- disks ----

    def forbid(self, numbers: Numbers) -> list[Seen]:
        """Have reading fail for a file or all of a folder."""
        folders = [folder for folder in _FOLDERS if self._there(folder)]
        place = _of(folders if numbers[2] % 2 else [*self._files(), *folders], numbers[0])
        if self._trouble_at(place):
            return []
        code = _of((errno.EACCES, errno.EACCES, errno.EIO), numbers[1])
        self._change_mode(place)
        self.fs.fail(place, OSError(code, "is made to fail", place))
        self.forbidden.append(place)
        return [Seen(place)]

    def allow(self, numbers: Numbers) -> list[Seen]:
        there = [place for place in self.forbidden if self._there(place)]
        if not there:
            return []
        place = _of(there, numbers[0])
        self.forbidden.remove(place)
        self._allow(place)
        return [Seen(place)]

    def _allow(self, place: str) -> None:
        self.fs.heal(place)
        self._change_mode(place)

    def _change_mode(self, place: str) -> None:
        """What takes a permission away or gives it changes the ctime."""
        self._done([], lambda: self.fs.set_mtime(place, self._mtime(place)))

    def unmount(self, numbers: Numbers) -> list[Seen]:
        place = _of(MOUNTS, numbers[0])
        if place not in self.away:
            self.fs.unmount(place)
            self.away.add(place)
        return []

    def mount(self, numbers: Numbers) -> list[Seen]:
        place = _of(MOUNTS, numbers[0])
        if place in self.away:
            self.away.remove(place)
            self.fs.mount(place)
        return []

    def replace_root(self, numbers: Numbers) -> list[Seen]:
        """Put another folder where a root was: the events, where there are any, are of something else."""
        if ARCHIVE not in self.away and not self._trouble_at(ARCHIVE, inside=True):
            self.fs.rename(ARCHIVE, _AWAY)
            self.away.add(ARCHIVE)
            self.fs.make_directory(ARCHIVE)
            if numbers[0] % 2:
                self.fs.write(f"{ARCHIVE}/stranger.md", b"another folder")
        return []

    def put_root_back(self, _numbers: Numbers) -> list[Seen]:
        if ARCHIVE in self.away:
            self.fs.remove(ARCHIVE)
            self.away.remove(ARCHIVE)
            self.fs.rename(_AWAY, ARCHIVE)
        return []

    def mend(self) -> None:
        """Bring every disk back and let everything be read."""
        for place in MOUNTS:
            if place in self.away:
                self.away.remove(place)
                self.fs.mount(place)
        self.put_root_back(())
        while self.forbidden:
            self._allow(self.forbidden.pop())

    # ---- what is there ----

    def shielded(self) -> set[str]:
        """Return the places of which nothing may be concluded now."""
        return {*self.away, *self.forbidden}

    def _files(self) -> list[str]:
        return [path for root in ROOTS for path in self._files_of(root) if not self._trouble_at(path)]

    def _files_of(self, folder: str) -> Iterator[str]:
        for path, kind, _ in self.fs.contents(folder):
            if kind == "file" and posixpath.basename(path) not in (_ANCHOR, ".gitignore"):
                yield path

    def _file(self, number: int) -> str | None:
        files = self._files()
        return _of(files, number) if files else None

    def _folder(self, number: int) -> str | None:
        found = [
            path
            for root in ROOTS
            for path, kind, _ in self.fs.contents(root)
            if kind == "directory" and path not in MOUNTS and not self._trouble_at(path, inside=True)
        ]
        return _of(found, number) if found else None

    def _some_path(self, numbers: Numbers) -> str:
        """Return a file that is there, or one that may be."""
        there = self._file(numbers[0]) if numbers[2] % 3 == 0 else None
        return there or self._new_path((numbers[0], numbers[0] // len(_FOLDERS)))

    @staticmethod
    def _new_path(numbers: Numbers) -> str:
        return f"{_of(_FOLDERS, numbers[0])}/{_of(_NAMES, numbers[1])}"

    def _content(self, path: str) -> bytes:
        return next(content for found, _, content in self.fs.contents(posixpath.dirname(path)) if found == path)

    def _mtime(self, path: str) -> float:
        return SimulatedFileSystem.lstat(self.fs, path).mtime  # not the engine's look, of which it could die

    def _there(self, path: str) -> bool:
        return any(found == path for found, _, _ in self.fs.contents(posixpath.dirname(path)))

    def _trouble_at(self, path: str, *, inside: bool = False) -> bool:
        """Return whether a path lies where nothing can be done now; `inside`: or holds such a place."""
        return any(
            (path + "/").startswith(place + "/") or (inside and place.startswith(path + "/"))
            for place in self.shielded()
        )

    def _can_be_made(self, path: str) -> bool:
        return not self._trouble_at(path)

    # ---- doing it ----

    def _written(self, path: str, content: bytes) -> list[Seen]:
        if not self._can_be_made(path):
            return []
        return self._done([Seen(path)], lambda: self.fs.write(path, content))

    def _moved(self, old: str, new: str) -> list[Seen]:
        """Move as `mv` does: over what is there, and by copying where the other disk is."""
        if old == new or not self._can_be_made(new):
            return []
        inner = [path.removeprefix(old) for path in self._files_of(old)] if self._there(old) else []
        seen = [Seen(old, gone=True), Seen(new), *(Seen(new + path) for path in inner)]
        try:
            self.fs.rename(old, new)
        except OSError as error:
            if error.errno != errno.EXDEV:
                return []
            for path, kind, content in [*self.fs.contents(posixpath.dirname(old))]:
                if kind == "file" and (path == old or path.startswith(old + "/")):
                    target, mtime = new + path.removeprefix(old), self._mtime(path)
                    self.fs.write(target, content)
                    self.fs.set_mtime(target, mtime)
            self.fs.remove(old)
        return seen

    @staticmethod
    def _done(seen: list[Seen], work: Callable[[], object]) -> list[Seen]:
        try:
            work()
        except OSError:
            return []  # a file where a folder would have to be, or the like: nothing happened
        return seen


def _of(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]
