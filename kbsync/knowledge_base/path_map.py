"""Where folders lie now that lay elsewhere when a backup was made: `OLD=NEW`, whole names of a path only. Pure."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kbsync.errors import UsageError
from kbsync.filesystem import as_text


@dataclass(frozen=True, slots=True)
class Rule:
    """A folder (or file) of the backup, and where it lies now: absolute raw bytes without a slash behind."""

    old: bytes
    new: bytes


class PathMap:
    """Applies rules to raw paths; of those that fit the longest one counts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: len(rule.old), reverse=True))

    def __call__(self, path: bytes) -> bytes | None:
        """Return where a path lies now, None where no rule speaks of it."""
        for rule in self.rules:
            if is_within(path, rule.old):
                rest = path[len(rule.old.rstrip(b"/")) :]
                return rule.new.rstrip(b"/") + rest or b"/"
        return None

    def text(self, path: str) -> str | None:
        """Return where a path (with surrogate escapes) lies now, None where no rule speaks of it."""
        new = self(os.fsencode(path))
        return None if new is None else os.fsdecode(new)


def rules_of(
    arguments: Sequence[str], known: Collection[bytes], old_home: str, new_home: str, hint: str = ""
) -> list[Rule]:
    """Return the rules that `OLD=NEW` arguments mean for a backup that knows these paths.

    `~` is the home of the machine of the backup on the left, of this one on the right. A name that is spelt in another
    form of Unicode than in the backup is found all the same. Raises UsageError for what means nothing, with `hint`
    where the backup knows nothing of it.
    """
    rules: dict[bytes, bytes] = {}
    for argument in arguments:
        readings = [
            (_absolute(old, old_home), _absolute(new, new_home))
            for old, new in _splits(argument)
            if "\0" not in argument
        ]
        whole = [(old, new) for old, new in readings if old is not None and new is not None]
        if not whole:
            raise UsageError(
                f"{as_text(argument)} is no OLD=NEW of two absolute paths.", hint="--map /old/folder=/new/one"
            )
        found = next(((spelt, new) for old, new in whole if (spelt := spellings(old, known))), None)
        if found is None:
            raise UsageError(f"The backup holds nothing of {as_text(os.fsdecode(whole[0][0]))}.", hint=hint)
        for old in found[0]:
            if rules.setdefault(old, found[1]) != found[1]:
                raise UsageError(f"{as_text(os.fsdecode(old))} is mapped twice.", hint="Give one --map for it.")
    return [Rule(old, new) for old, new in rules.items()]


def is_within(path: bytes, folder: bytes) -> bool:
    """Return whether a path is a folder or lies in it; `/a/bc` is not within `/a/b`."""
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def spellings(folder: bytes, known: Collection[bytes]) -> list[bytes]:
    """Return how the known paths spell a folder: as it is, else in other forms of Unicode; none where it is unknown."""
    if any(is_within(path, folder) for path in known):
        return [folder]
    depth, wanted = folder.count(b"/"), _nfc(folder)
    found = {b"/".join(parts[: depth + 1]) for path in known if len(parts := path.split(b"/")) > depth}
    return sorted(spelt for spelt in found if _nfc(spelt) == wanted)


def _splits(argument: str) -> list[tuple[str, str]]:
    """Return every way to read `OLD=NEW`: names may have `=` in them."""
    return [(argument[:at], argument[at + 1 :]) for at, character in enumerate(argument) if character == "="]


def _absolute(path: str, home: str) -> bytes | None:
    """Return an absolute path without dots and needless slashes; None for one that is not absolute."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if not path.startswith("/"):
        return None
    return os.fsencode(os.path.normpath("/" + path.lstrip("/")))


def _nfc(path: bytes) -> str:
    return unicodedata.normalize("NFC", os.fsdecode(path))
