"""Puts what teaches an assistant to work with projects where it reads such things: a skill and four commands."""

from __future__ import annotations

import os
from importlib.resources import files as packaged
from importlib.resources.abc import Traversable

from kbsync.projects import files


def install_skill(folder: str, *, overwrite: bool) -> tuple[list[str], list[str]]:
    """Copy the files below a folder; return (written, kept), relative paths. Raises StorageUnavailable, UsageError.

    A file that is there and reads otherwise is kept unless `overwrite`.
    """
    written: list[str] = []
    kept: list[str] = []
    for relative, content in contents():
        target = os.path.join(folder, relative)
        there = _text_of(target)
        if there is not None and there != content and not overwrite:
            kept.append(relative)
            continue
        if there != content:
            with files.told(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
            files.replace(target, content)
        written.append(relative)
    return written, kept


def contents() -> list[tuple[str, str]]:
    """Return (relative path, text) of everything that is installed."""
    found: list[tuple[str, str]] = []

    def walk(folder: Traversable, prefix: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".md"):
                found.append((f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")))

    walk(packaged("kbsync.projects") / "assistant", "")
    return found


def _text_of(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
