"""A parsed file: three comments that say where the text comes from, then the text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from kbsync.projects import files

_HEADER = re.compile(
    r"<!-- source: (?P<source>[^\n]*) -->\r?\n<!-- archived: (?P<archived>[^\n]*) -->\r?\n"
    r"<!-- parsed_at: (?P<parsed_at>[^\n]*) -->\r?\n?"
)
# An ampersand that would be read as the beginning of one of the codes below.
_CODE = re.compile(r"&(?=(?:amp|#45|#10|#13);)")


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What stands in `parsed/{name}.md`. `source` is the original's name, `archived` where it lies in the project,
    `parsed_at` local time as `2026-02-18 17:25`; all empty where a person put the file there."""

    name: str
    source: str
    archived: str
    parsed_at: str
    text: str

    @property
    def path(self) -> str:
        """Return where it lies in the project."""
        return f"parsed/{self.name}.md"


def composed(source: str, archived: str, parsed_at: str, text: str) -> str:
    """Return the whole content of a parsed file."""
    comments = (("source", source), ("archived", archived), ("parsed_at", parsed_at))
    head = "".join(f"<!-- {key}: {_inside(value)} -->\n" for key, value in comments)
    whole = text.encode("utf-8", "replace").decode()  # half a character that a document held could not be written
    return f"{head}{whole.rstrip()}\n"


def read(path: str) -> ParsedFile:
    """Read a parsed file, one without the comments too. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        content = file.read().removeprefix("\ufeff")
    name = os.path.basename(path).removesuffix(".md")
    found = _HEADER.match(content)
    if found is None:
        return ParsedFile(name, "", "", "", content)
    source, archived, parsed_at = (_outside(found[key]) for key in ("source", "archived", "parsed_at"))
    return ParsedFile(name, source, archived, parsed_at, content[found.end() :])


def names(folder: str) -> list[str]:
    """Return the names of the parsed files in a folder, sorted. No links: they may lead out of the project.

    Raises OSError, and UsageError where the folder itself is a link.
    """
    files.must_be_folder(folder)
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name.endswith(".md") and not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
        )


def read_all(folder: str) -> list[ParsedFile]:
    """Return every parsed file of a folder, in the order of their names. Raises OSError for one that cannot be read."""
    return [read(os.path.join(folder, name)) for name in names(folder)]


def _inside(value: str) -> str:
    """Return a value that neither ends the comment nor its line; `R&D` stays what it is."""
    value = _CODE.sub("&amp;", value)
    return value.replace("--", "-&#45;").replace("\n", "&#10;").replace("\r", "&#13;")


def _outside(value: str) -> str:
    for code, character in (("&#13;", "\r"), ("&#10;", "\n"), ("&#45;", "-"), ("&amp;", "&")):
        value = value.replace(code, character)
    return value
