"""Front matter: settings between `---` (YAML) or `+++` (TOML) lines at the very beginning of a Markdown file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from kbsync.model import JsonValue
from kbsync.pipelines.lines import Lines

_MOST_LINES = 500
_KEY = re.compile(r"([\"']?)([^\W\d][\w .-]{0,60})\1:(?:[ \t]+(.*))?$")
_BLOCK_SCALARS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`last_line` is the line that closes it; 0 where there is none."""

    values: Mapping[str, JsonValue]
    last_line: int


NO_FRONT_MATTER = FrontMatter({}, 0)


def read_front_matter(lines: Lines) -> FrontMatter:
    """Return the settings at the beginning of a text. What is no `key: value` at all is text, not front matter."""
    opening = lines.line(1).rstrip()
    if opening not in ("---", "+++"):
        return NO_FRONT_MATTER
    closing = ("+++",) if opening == "+++" else ("---", "...")
    for number in range(2, min(len(lines), _MOST_LINES) + 1):
        if lines.line(number).rstrip() in closing:
            rows = [lines.line(row) for row in range(2, number)]
            values = _toml(rows) if opening == "+++" else _simple_yaml(rows)
            return FrontMatter(values, number) if values else NO_FRONT_MATTER
    return NO_FRONT_MATTER


def _toml(rows: list[str]) -> dict[str, JsonValue]:
    try:
        return {key: _json(value) for key, value in tomllib.loads("\n".join(rows)).items()}
    except tomllib.TOMLDecodeError:
        pairs = (row.partition("=") for row in rows if "=" in row)
        return {key.strip(): _scalar(value) for key, _, value in pairs}


def _json(value: object) -> JsonValue:
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


def _simple_yaml(rows: list[str]) -> dict[str, JsonValue]:
    """Read `key: value`, `key: [a, b]`, lists of `- item` lines and folded text. Deeper structures are kept as text."""
    values: dict[str, JsonValue] = {}
    key: str | None = None
    for row in rows:
        match = _KEY.match(row)
        if match:
            key, given = match.group(2).strip(), (match.group(3) or "").strip()
            values[key] = "" if given in _BLOCK_SCALARS else _scalar(given)
        elif key is not None and row.strip() and (row[0].isspace() or row.startswith("- ")):
            values[key] = _continued(values[key], row.strip())
        elif row.strip() and not row.startswith("#"):
            return {}
    return values


def _continued(value: JsonValue, row: str) -> JsonValue:
    if row.startswith("- ") and (value == "" or isinstance(value, list)):
        return [*(value if isinstance(value, list) else []), _unquoted(row[2:])]
    if isinstance(value, list):
        return [*value, row]
    return f"{value} {row}".strip()


def _scalar(text: str) -> JsonValue:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(item) for item in text[1:-1].split(",") if item.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text.split(" #", 1)[0].rstrip()
