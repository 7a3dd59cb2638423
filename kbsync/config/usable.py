"""What can be used of a configuration with mistakes, so that the rest of it is looked at all the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ValidationError

from kbsync.config.environment import Variables
from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings, read_values


def usable_part(config_file: str) -> Settings:
    """Return the settings without those that have mistakes, where the defaults stand.

    Of the sources, those before the first that cannot be used at all. Raises ConfigurationError where the file is no
    TOML.
    """
    values = {**read_values(config_file)[0]}
    for name, value in Variables(Settings)().items():
        ours = values.get(name)
        values[name] = {**ours, **value} if isinstance(ours, Mapping) and isinstance(value, Mapping) else value
    entries = values.get("sources")
    sources = [_without_mistakes(SourceSettings, entry) for entry in entries] if isinstance(entries, list) else []
    sections = {
        name: _without_mistakes(type(field.default), values.get(name, {}))
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, BaseModel)
    }
    usable: dict[str, Any] = {name: section for name, section in sections.items() if section is not None}
    usable["sources"] = tuple(takewhile(lambda source: source is not None, sources))
    return Settings.model_construct(**usable)


def _without_mistakes(kind: type[BaseModel], values: object) -> BaseModel | None:
    """Return a section without the settings in it that have mistakes; None where nothing can be made of the rest."""
    if not isinstance(values, Mapping):
        return None
    try:
        return kind(**values)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
    try:
        return kind(**{name: value for name, value in values.items() if name not in wrong})
    except ValidationError:
        return None
