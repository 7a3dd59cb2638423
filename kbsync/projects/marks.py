"""The marks of Markdown that divide a text, read in time that grows with the line: no pattern here looks back twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HASHES = re.compile(r" {0,3}(#{1,6})(?=[ \t])")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def header(line: str) -> tuple[int, str] | None:
    """Return a header's level and title; `## C#` is about C#, `## C ##` about C."""
    found = _HASHES.match(line)
    if found is None:
        return None
    title = line[found.end() :].strip()
    closed = title.rstrip("#")
    return len(found[1]), closed.rstrip() if not closed or closed[-1].isspace() else title


def shown(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines outside of fences and comments; one that never ends hides nothing."""
    number = 0
    while number < len(lines):
        end = _end_of_hidden(lines, number)
        if end is None:
            yield number
        number = (number if end is None else end) + 1


def without_comments(text: str) -> str:
    """Return a text without HTML comments; one that never ends is none."""
    parts: list[str] = []
    place = 0
    while (begin := text.find("<!--", place)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        parts.append(text[place:begin])
        place = end + 3
    return "".join(parts) + text[place:]


def _end_of_hidden(lines: Sequence[str], number: int) -> int | None:
    line = lines[number]
    fence = _FENCE.match(line)
    after = range(number + 1, len(lines))
    if fence is not None:
        return next((end for end in after if _closes(lines[end].strip(), fence[1])), None)
    if line.lstrip().startswith("<!--") and "-->" not in line:
        return next((end for end in after if "-->" in lines[end]), None)
    return None


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])
