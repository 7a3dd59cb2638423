"""What is wrong in a configuration, told for people: which setting, in which line or variable, and what it should be.

Pure: text, values and variables come in.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kbsync.config.variables import SOURCES_VARIABLE
from kbsync.errors import Mistake

Keys = Sequence[str | int]

# What pydantic says in its own words, for people; `{}` is a bound or a list of values of the setting.
_SAID = {
    "extra_forbidden": "there is no such setting",
    "missing": "must be set",
    "literal_error": "must be one of: {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text in quotes",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "model_type": "must be a table of settings",
    "model_attributes_type": "must be a table of settings",
    "dict_type": "must be a table of settings",
}
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class Misplaced(ValueError):
    """Raised by a check of several settings together; `at` leads to the one that is told."""

    def __init__(self, message: str, at: Keys) -> None:
        super().__init__(message)
        self.at = tuple(at)


def of_syntax(error: tomllib.TOMLDecodeError, text: str) -> Mistake:
    """Return where a text is no TOML, and why."""
    found, said = _AT.search(str(error)), _AT.sub("", str(error))
    if found is not None and found[1] is not None:
        return Mistake("", said, int(found[1]), int(found[2]))
    lines = text.split("\n")
    begun = next(end for end in range(len(lines) - 1, -1, -1) if _parsed(lines, end) is not None) + 1
    return Mistake("", f"{said}; what begins there does not end", begun)


def of_values(
    error: ValidationError, values: Mapping[str, Any], text: str, settings: type[BaseModel], environ: Mapping[str, str]
) -> list[Mistake]:
    """Return what is wrong with the values of a file and the variables that beat them, in the file's order.

    `text`: what the values were read from; `settings`: the model that refused them.
    """
    variables = {name.upper() for name in environ}
    said: dict[tuple[str, int | None, str | None], list[str]] = {}
    for detail in error.errors():
        loc = detail["loc"]
        cause = detail.get("ctx", {}).get("error")
        at = cause.at if isinstance(cause, Misplaced) else loc
        variable = _variable(at, values, variables, str(settings.model_config.get("env_prefix", "")))
        line = None if variable is not None else line_of(text, at)
        key = (_setting_of(loc, values, variables), line, variable)
        said.setdefault(key, []).append(_sentence(detail, settings))
    mistakes = [
        Mistake(setting, ", or ".join(sentences), line, None, variable)
        for (setting, line, variable), sentences in said.items()
    ]
    return sorted(mistakes, key=lambda mistake: mistake.line or 0)


def line_of(text: str, keys: Keys) -> int | None:
    """Return in which line (from 1) the statement begins by which a setting, or what it would lie in, is there.

    Whatever number of lines from the top is TOML by itself says what is set by then. None where nothing of it is.
    """
    lines = text.split("\n")
    low, high = 0, len(lines)
    wanted = _there(_parsed(lines, high), keys)
    if not wanted:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        # The lines within a value of several lines are no TOML by themselves.
        tries = [*range(middle, low, -1), *range(middle + 1, high)]
        found = next(((end, values) for end in tries if (values := _parsed(lines, end)) is not None), None)
        if found is None:
            break
        if len(_there(found[1], wanted)) == len(wanted):
            high = found[0]
        else:
            low = found[0]
    return low + 1


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question about the name that is most like this one, or nothing."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else ""


def _parsed(lines: Sequence[str], end: int) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads("\n".join([*lines[:end], ""]))
    except tomllib.TOMLDecodeError:
        return None


def _there(values: Any, keys: Keys) -> list[str | int]:
    """Return the keys, from the first on, that lead to something in the values."""
    found: list[str | int] = []
    for key in keys:
        try:
            values = values[key]
        except (LookupError, TypeError):
            break
        found.append(key)
    return found


def _variable(at: Keys, values: Mapping[str, Any], variables: set[str], prefix: str) -> str | None:
    """Return the variable that a value comes from; None where it is the file's."""
    if at and at[0] == "sources":
        return next((name for name in sorted(variables) if name.split("__")[0] == SOURCES_VARIABLE), None)
    for length in range(len(at), 0, -1):
        name = f"{prefix}{'__'.join(str(part) for part in at[:length])}".upper()
        if name in variables and (length == len(at) or len(_there(values, at)) < len(at)):
            return name
    return None


def _setting_of(loc: Keys, values: Mapping[str, Any], variables: set[str]) -> str:
    """Return which setting is meant: of one that may be of several kinds, pydantic names the kind as well.

    A source is named by its folder; without one by its place in the list, counted from 1.
    """
    if len(loc) > 1 and loc[0] == "sources" and isinstance(loc[1], int):
        inside = ".".join(str(part) for part in loc[2:])
        return " of ".join(part for part in (inside, f"source {_folder_of(values, loc[1], variables)}") if part)
    return ".".join(part for part in map(str, loc) if part != "str" and "[" not in part)


def _folder_of(values: Mapping[str, Any], index: int, variables: set[str]) -> str:
    """Return how a source is named in a message. Nothing of it has been checked yet; a variable beats the file."""
    number = f"number {index + 1}"
    if any(name.startswith(SOURCES_VARIABLE) for name in variables):
        return number
    try:
        folder = values["sources"][index]["path"]
    except (LookupError, TypeError):
        return number
    return f"{folder} ({number})" if isinstance(folder, str) and folder.isprintable() else number


def _sentence(detail: ErrorDetails, settings: type[BaseModel]) -> str:
    """Return pydantic's message for people."""
    sentence = _SAID.get(detail["type"])
    if sentence is None:
        return detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        return "; ".join(filter(None, (sentence, _meant([str(part) for part in detail["loc"]], settings))))
    return sentence.format(**detail.get("ctx", {}))


def _meant(loc: Sequence[str], settings: type[BaseModel]) -> str:
    """Say what a name that is no setting was meant to be: one of another table, or one that is spelt otherwise."""
    name, sections = loc[-1], dict(_sections(settings))
    if len(loc) > 1 and name in settings.model_fields and name not in sections:
        return f"{name} belongs above the first [table]"
    if len(loc) == 1:
        holders = [section for section, model in sections.items() if name in model.model_fields]
        if holders:
            return f"{name} belongs under {f'[[{holders[0]}]]' if holders[0] == 'sources' else f'[{holders[0]}]'}"
        return did_you_mean(name, list(settings.model_fields))
    section = sections.get(loc[0])
    return "" if section is None else did_you_mean(name, list(section.model_fields))


def _sections(settings: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in settings.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if model is not None:
            yield name, model
