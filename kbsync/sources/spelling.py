"""Names as a folder lists them: some disks find a file under other spellings too (case, Unicode form)."""

from __future__ import annotations

import os
import unicodedata

from kbsync.filesystem import FileSystem, Stat


def listed_as(fs: FileSystem, root: str, path: str) -> str:
    """Return a path below a root as the folders on the way list it; itself where the disk takes names as they are.

    Events, and a ledger written before a file was renamed from `A.md` to `a.md`, may spell it otherwise. Raises OSError
    where it is not there.
    """
    folder = root
    for name in path.removeprefix(root.rstrip(os.sep) + os.sep).split(os.sep):
        folder = os.path.join(folder, _listed_name(fs, folder, name))
    return folder


def _listed_name(fs: FileSystem, folder: str, name: str) -> str:
    stat = fs.lstat(os.path.join(folder, name))
    # A disk that knows one spelling only finds nothing under another, so that its folders need not be listed.
    others = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
    if not any(_is_at(fs, os.path.join(folder, other), stat) for other in others):
        return name
    entries = fs.list_directory(folder)
    if any(entry.name == name for entry in entries):
        return name  # two names that differ in case, hard links of one file
    same = [entry.name for entry in entries if _is_same(entry.stat, stat) and _folded(entry.name) == _folded(name)]
    return same[0] if same else name


def _is_at(fs: FileSystem, path: str, stat: Stat) -> bool:
    try:
        return _is_same(fs.lstat(path), stat)
    except (OSError, ValueError):
        return False  # nothing there, or no name at all for this disk


def _is_same(one: Stat, other: Stat) -> bool:
    return (one.device, one.inode) == (other.device, other.inode)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
