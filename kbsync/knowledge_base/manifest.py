"""What a backup says of itself: what is in it, by which kbsync it was written, and the hash of each of its files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kbsync.errors import UsageError
from kbsync.store import copies, migrations

# The form of the folder. A kbsync that knows only older ones refuses it.
FORMAT = 1

MANIFEST, DATABASE, CONFIG = "manifest.json", "kb.sqlite3", "config.toml"
DOCUMENTS, STAGING, CONVERSIONS = "documents", "staging", "conversions"
# In this order a restore puts them into their places.
PARTS = (DATABASE, DOCUMENTS, STAGING, CONVERSIONS)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup's account. `files`: relative path -> (SHA-256 in hex, bytes); `made_at` in seconds since 1970.

    `home` and `sources` are of the machine that made it: `sources` says to which folder each entry of its config.toml
    led. `problems`: what was not whole then.
    """

    kbsync: str
    schema: int
    made_at: float
    home: str
    sources: Mapping[str, str]
    documents: int
    chunks: int
    stored_files: int
    files: Mapping[str, tuple[str, int]]
    problems: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.files.values())


def written(manifest: Manifest) -> bytes:
    """Return a manifest as JSON."""
    return (json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n").encode()


def read(folder: str) -> Manifest:
    """Return the manifest of a backup. Raises UsageError for what is none, or was written by a newer kbsync."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if content["format"] > FORMAT:
            raise _newer(f"has the form {content['format']}; this kbsync knows up to {FORMAT}")
        if content["schema"] > (newest := migrations.migrations()[-1][0]):
            raise _newer(f"has a database of schema {content['schema']}; this kbsync knows up to {newest}")
        return _checked(content)
    except FileNotFoundError as error:
        raise UsageError(
            f"{folder} is no backup: it has no {MANIFEST}.", hint="Name the folder that `kbsync backup` wrote."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged.", hint="Take another backup.") from error


def refuse_odd(folder: str) -> None:
    """Raise UsageError for a folder in which SQLite can open nothing: its name has bytes that are no UTF-8."""
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{folder} has bytes in its name that are no UTF-8.", hint="Name a folder without them."
        ) from error


def verify(folder: str, manifest: Manifest) -> None:
    """Read every file of a backup. Raises UsageError, naming the first, where one is missing or has other bytes."""
    for name, expected in sorted(manifest.files.items()):
        try:
            found = copies.hash_file(os.path.join(folder, name))
        except OSError as error:
            raise UsageError(
                f"The backup {folder} is not whole: {name} cannot be read ({error.strerror}).", hint="Take another one."
            ) from error
        if found != expected:
            raise damaged(folder, name)


def damaged(folder: str, name: str) -> UsageError:
    """Return the error of a file in a backup that has other bytes than it was written with."""
    return UsageError(f"The backup {folder} is damaged: {name} holds other bytes.", hint="Take another one.")


def _newer(what: str) -> UsageError:
    return UsageError(f"The backup {what}.", hint="Install the newer kbsync that wrote it. Nothing was changed.")


def _checked(content: Mapping[str, Any]) -> Manifest:
    files = {str(name): (str(sha), int(size)) for name, (sha, size) in content["files"].items()}
    for name in files:
        folder, _, last = name.rpartition("/")
        if folder not in ("", DOCUMENTS, STAGING, CONVERSIONS) or last in ("", ".", "..") or "\0" in name:
            raise ValueError(name)
    if DATABASE not in files:
        raise KeyError(DATABASE)
    return Manifest(
        str(content["kbsync"]),
        int(content["schema"]),
        float(content["made_at"]),
        str(content["home"]),
        {str(entry): str(path) for entry, path in content["sources"].items()},
        int(content["documents"]),
        int(content["chunks"]),
        int(content["stored_files"]),
        files,
        tuple(map(str, content["problems"])),
        int(content["format"]),
    )
