"""What is wrong in a configuration, told for people: which setting, in which line or variable, and what it should be.

Pure: text, values and variables come in.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kbsync.config.variables import SOURCES_VARIABLE
from kbsync.errors import Mistake

Keys = Sequence[str | int]

# What pydantic says in its own words, for people; `{}` is a bound or a list of values of the setting.
_A_LIST, _A_TABLE = "must be a list", "must be a table of settings"
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
    "tuple_type": _A_LIST,
    "list_type": _A_LIST,
    "model_type": _A_TABLE,
    "model_attributes_type": _A_TABLE,
    "dict_type": _A_TABLE,
}
# Where tomllib is told a second time what is there already: as a key, or as the head of a table.
_TWICE = re.compile(r"Cannot (?:overwrite a value|declare .+ twice|mutate immutable namespace .+)")
_HEAD = re.compile(r"\s*(\[{1,2})([^\[\]]+)\]")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class Misplaced(ValueError):
    """Raised by a check of several settings together; `at` leads to the one that is told."""

    def __init__(self, message: str, at: Keys) -> None:
        super().__init__(message)
        self.at = tuple(at)
        # What was found besides.
        self.others: list[Misplaced] = []


def together(found: Sequence[Misplaced]) -> Misplaced:
    """Return one error that tells them all."""
    found[0].others = list(found[1:])
    return found[0]


def told(found: Sequence[Mistake]) -> str:
    """Return mistakes as one sentence."""
    sentence = "; ".join(map(str, found))
    return sentence if sentence.endswith("?") else f"{sentence}."


def of_syntax(error: tomllib.TOMLDecodeError, text: str) -> Mistake:
    """Return where a text is no TOML, and why."""
    found, said = _AT.search(str(error)), _AT.sub("", str(error))
    lines = text.split("\n")
    if found is not None and found[1] is not None:
        line = int(found[1])
        if _TWICE.fullmatch(said) and (keys := _keys_of(lines, line)):
            first = line_of("\n".join([*lines[: line - 1], ""]), keys)
            said = f"it is there already{f', in line {first}' if first else ''}; keep one of the two"
            return Mistake(".".join(map(str, keys)), said, line, int(found[2]))
        return Mistake("", said, line, int(found[2]))
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

    def note(loc: Keys, at: Keys, sentence: Callable[[bool], str]) -> None:
        variable = _variable(at, values, variables, str(settings.model_config.get("env_prefix", "")))
        line = None if variable is not None else line_of(text, at)
        key = (_setting_of(loc, values, variables), line, variable)
        said.setdefault(key, []).append(sentence(variable is not None))

    for detail in error.errors():
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Misplaced):
            for one in (cause, *cause.others):
                # The sentence names the setting: what is wrong is how several go together.
                note((), one.at, partial(_as_it_says, one))
        else:
            note(detail["loc"], detail["loc"], partial(_sentence, detail, settings))
    mistakes = [
        Mistake(setting, (", or " if setting else "; ").join(sentences), line, None, variable)
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


def _keys_of(lines: Sequence[str], number: int) -> list[str | int]:
    """Return the keys that lead to what the line of that number (from 1) sets; none where that cannot be told."""
    line = lines[number - 1]
    if head := _HEAD.match(line):
        return _keys(head[2])
    above = (
        next((found for line in lines[number - 2 :: -1] if (found := _HEAD.match(line))), None) if number > 1 else None
    )
    keys = _keys(line.partition("=")[0])
    if above is None or not keys:
        return keys
    table = _keys(above[2])
    if above[1] == "[[":
        entries: Any = _parsed(lines, number - 1)
        for key in table:
            entries = entries[key] if entries else ()
        table.append(len(entries) - 1)
    return [*table, *keys]


def _keys(written: str) -> list[str | int]:
    """Return the keys of a dotted one."""
    try:
        inside: Any = tomllib.loads(f"{written} = 0")
    except tomllib.TOMLDecodeError:
        return []
    keys: list[str | int] = []
    while isinstance(inside, dict):
        ((key, inside),) = inside.items()
        keys.append(key)
    return keys


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
        inside = _named(loc[2:])
        return " of ".join(part for part in (inside, f"source {_folder_of(values, loc[1], variables)}") if part)
    return _named(loc)


def _named(loc: Keys) -> str:
    """Return a setting with its section; of a list the entry, counted from 1."""
    name = ".".join(part for part in loc if isinstance(part, str) and part != "str" and "[" not in part)
    entry = loc[-1] if loc else None
    return f"entry {entry + 1} of {name}" if isinstance(entry, int) else name


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


def _sentence(detail: ErrorDetails, settings: type[BaseModel], of_variable: bool) -> str:
    """Return pydantic's message for people."""
    sentence = _SAID.get(detail["type"])
    if sentence is None:
        return detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        return "; ".join(filter(None, (sentence, _meant([str(part) for part in detail["loc"]], settings))))
    if sentence in (_A_LIST, _A_TABLE):
        return f"{sentence}{' in JSON' if of_variable else ''}{_example(detail['loc'], settings)}"
    return sentence.format(**{name: _bare(value) for name, value in detail.get("ctx", {}).items()})


def _as_it_says(cause: Misplaced, _of_variable: bool) -> str:
    return str(cause)


def _bare(value: Any) -> Any:
    """Return a bound as one writes it: 0, not 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _example(loc: Keys, settings: type[BaseModel]) -> str:
    """Say how the list is written; nothing where the setting names no example."""
    sections, names = dict(_sections(settings)), [part for part in loc if isinstance(part, str)]
    model = sections.get(names[0], settings) if len(names) > 1 else settings
    field = next((model.model_fields[name] for name in names[::-1] if name in model.model_fields), None)
    return f", such as {json.dumps(field.examples[0])}" if field is not None and field.examples else ""


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
