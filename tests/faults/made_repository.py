"""A git repository of notes with two branches that differ much, made in one go."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

FILES = 2_000
# Of these on `main`, so many on `other` are removed, changed in place, moved; the rest is the same.
REMOVED, CHANGED, MOVED = FILES // 4, FILES // 3, FILES // 3

_LETTERS = "bcdfghjklmnpqrstvwxz"


def word_of(number: int, kind: str = "leaf") -> str:
    """Return a word of letters that only the file of this number holds."""
    return f"{kind}q" + "".join(_LETTERS[number // 20**power % 20] for power in range(3)) + "q"


def on_main() -> dict[str, bytes]:
    """Return path -> bytes of the branch `main`."""
    return {_path("notes", number): _text(number, "leaf") for number in range(FILES)}


def on_other() -> dict[str, bytes]:
    """Return path -> bytes of the branch `other`."""
    changed, moved = REMOVED + CHANGED, REMOVED + CHANGED + MOVED
    return {
        **{_path("notes", number): _text(number, "twig") for number in range(REMOVED, changed)},
        **{_path("moved/notes", number): _text(number, "leaf") for number in range(changed, moved)},
        **{_path("notes", number): _text(number, "leaf") for number in range(moved, FILES)},
    }


def in_both() -> range:
    """Return the numbers of the files whose text both branches hold."""
    return range(REMOVED + CHANGED, FILES)


def make_repository(folder: Path) -> None:
    """Make a repository whose `main` is checked out."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    stream = b"".join([*_commit("main", on_main()), *_commit("other", on_other())])
    git(folder, "fast-import", "--quiet", data=stream)
    git(folder, "checkout", "--quiet", "--force", "main")


def git(folder: Path, *arguments: str, data: bytes | None = None) -> None:
    """Run git in a folder, with nobody's settings."""
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **nobody}, input=data, check=True)


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number % 40:02}/{number:04}.md"


def _text(number: int, kind: str) -> bytes:
    return f"# Note {word_of(number, kind)}\n\nAbout {word_of(number, kind)} and what grows beside it.\n".encode()


def _commit(branch: str, files: Mapping[str, bytes]) -> Iterator[bytes]:
    yield b"commit refs/heads/%s\ncommitter A <a@b> 1000000000 +0000\ndata 0\n" % branch.encode()
    for path, content in files.items():
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
