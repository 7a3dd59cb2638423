"""A configuration that comes from elsewhere: its folders where they lie now, and how it differs from the one here."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

# Returns where a path lies now, None where it stays as it is.
Moved = Callable[[str], str | None]


def relocated(text: str, moved: Moved, led_to: Mapping[str, str]) -> str:
    """Return config.toml's text with the sources where they lie now; comments and order are kept.

    `led_to`: an entry as it is written -> the folder that it led to where it was written. An entry that leads there, or
    to the right place, as it is written (`~` does in another home) stays so. Raises ValueError for what is no TOML.
    """
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error
    entries = document.get("sources")
    if not isinstance(entries, AoT):
        return text
    for entry in entries:
        for key in ("path", "password_file"):
            if key not in entry:
                continue
            as_written = str(entry[key])
            here = _leads_to(as_written)
            before = led_to.get(as_written, here)
            now = moved(before) or before
            if now != here:
                entry[key] = now
    return tomlkit.dumps(document)


def entries_of(config_file: str) -> dict[str, str]:
    """Return each folder that a configuration names, as it is written -> where it leads; {} where none can be read."""
    try:
        with open(config_file, "rb") as file:
            values = tomllib.load(file)
    except (OSError, ValueError):
        return {}
    written = [entry.get(key) for entry in _sources(values) for key in ("path", "password_file")]
    return {each: _leads_to(each) for each in written if isinstance(each, str)}


def differences(here: str, there: str) -> list[str]:
    """Return the names of settings that differ between two configurations (TOML text), sorted. Raises ValueError."""
    one, other = dict(_flat(tomllib.loads(here))), dict(_flat(tomllib.loads(there)))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def lacking(here: str, there: str) -> str:
    """Return the `[[sources]]` of the second configuration that the first does not name, as TOML to write into it.

    "" where there are none, or where one of them is no TOML.
    """
    try:
        one, other = _sources(tomllib.loads(here)), _sources(tomllib.loads(there))
    except ValueError:
        return ""
    named = {_leads_to(str(entry.get("path"))) for entry in one}
    entries = tomlkit.aot()
    for entry in other:
        if _leads_to(str(entry.get("path"))) not in named:
            entries.append(tomlkit.item(entry))
    return tomlkit.dumps({"sources": entries}).strip() if entries else ""


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif not above and key == "sources":
            yield (
                key,
                sorted(({**entry, "path": _leads_to(str(entry.get("path")))} for entry in _sources(values)), key=str),
            )
        else:
            yield above + key, value


def _sources(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = values.get("sources")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _leads_to(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))
