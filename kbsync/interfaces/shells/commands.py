"""The program's commands as plain values, and what may stand where one of them takes a value."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kbsync.interfaces.values import FILE_TYPES, JOB_STATES, LANGUAGES, LISTED_TYPES, MODES, STATES
from kbsync.model import OCR_MODES, SearchMode

SHELLS = ("bash", "zsh", "fish")
# What fits into a line beside a command's name.
_SUMMARY = 70
# What every command takes, without its saying so.
HELP = ("-h", "--help")

# Words to choose from; or where files, folders, or both words and folders fit; or nothing that a shell could know.
Places = Literal["files", "folders", "none"]


@dataclass(frozen=True, slots=True)
class Values:
    """What may stand in a place: one of `words`, or what lies on the disk. `told` explains each word, or is empty."""

    words: tuple[str, ...] = ()
    places: Places = "none"
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `names`: all of its spellings, those that turn it off too. `values` None: it takes none."""

    names: tuple[str, ...]
    off: tuple[str, ...]
    metavar: str
    help: str
    values: Values | None
    is_repeated: bool

    @property
    def off_help(self) -> str:
        """Return what is said of the spellings that turn it off."""
        return f"Not: {self.help}"


@dataclass(frozen=True, slots=True)
class Argument:
    """What a command takes without a name. `usage`: as the help shows it."""

    usage: str
    help: str
    values: Values
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a group of commands. `path`: the words that call it, the program's name left out."""

    path: tuple[str, ...]
    help: str
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else ""

    @property
    def summary(self) -> str:
        """Return the first sentence of its help, of a long one the beginning, without the full stop."""
        sentence = " ".join(self.help.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        if len(sentence) <= _SUMMARY:
            return sentence
        ends = [found.start() for found in re.finditer("[:;,] ", sentence) if found.start() <= _SUMMARY]
        return sentence[: ends[-1]] if ends else sentence

    def walk(self) -> Iterator[Command]:
        """Yield this command and all below it, in the order of the help."""
        yield self
        for command in self.commands:
            yield from command.walk()


_NOTHING, _FILES, _FOLDERS = Values(), Values(places="files"), Values(places="folders")
_MODES_TOLD: dict[SearchMode, str] = {"hybrid": "words and meaning", "lexical": "words only", "vector": "meaning only"}
# By the command and the option's longest name, or the argument as the help calls it; without a command: of every one.
_VALUES: dict[tuple[str, str], Values] = {
    ("", "--type"): Values(LISTED_TYPES),
    ("add", "--type"): Values(FILE_TYPES),
    ("", "--language"): Values(LANGUAGES),
    ("", "--ocr"): Values(OCR_MODES),
    ("", "--mode"): Values(MODES, told=tuple(_MODES_TOLD[mode] for mode in MODES)),
    ("", "DURATION"): Values(("30m", "1h", "until")),
    ("documents list", "--state"): Values(STATES),
    ("jobs list", "--state"): Values(JOB_STATES),
    ("models use", "MODEL"): Values(("packaged", "multilingual", "bge-m3", "qwen3"), "folders"),
    ("completion", "SHELL"): Values(SHELLS),
    ("project init", "NAME"): Values(),
    ("project ask", "QUESTION"): Values(places="folders"),
    **dict.fromkeys((("", "--password-file"), ("", "--in"), ("", "PATH"), ("", "ID|PATH")), _FILES),
    **dict.fromkeys(
        (("", "--source"), ("", "--to"), ("", "FOLDER"), ("", "SOURCE"), ("", "DIR"), ("", "NAME")), _FOLDERS
    ),
    **dict.fromkeys(
        (
            *(("", "--note"), ("", "--title"), ("", "--section"), ("", "--since"), ("", "--until"), ("", "--ignore")),
            *(("", "--map"), ("", "QUERY")),
        ),
        _NOTHING,
    ),
}


# Only names, kinds and helps are read: these are the same in every version of click, and Typer carries its own.
def command_tree(command: Any, path: tuple[str, ...] = ()) -> Command:
    """Return a click command with everything below it that is not hidden.

    Raises ValueError for a value of which `_VALUES` does not say what may stand there.
    """
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    return Command(
        path,
        inspect.cleandoc((command.help or "").replace("\b", "")).strip(),
        tuple(_argument(one, path) for one in parameters if one.param_type_name == "argument"),
        tuple(_option(one, path) for one in parameters if one.param_type_name == "option"),
        tuple(
            command_tree(one, (*path, one.name)) for one in getattr(command, "commands", {}).values() if not one.hidden
        ),
    )


def _argument(argument: Any, path: tuple[str, ...]) -> Argument:
    name = (argument.metavar or argument.name.upper()).strip("[].")
    return Argument(
        usage_of(argument),
        " ".join((argument.help or "").split()),
        _values(name, argument, path),
        argument.nargs == -1,
    )


def usage_of(argument: Any) -> str:
    """Return an argument as the help shows it: a metavar that was given says itself that it is repeated."""
    name = argument.metavar or f"{argument.name.upper()}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _option(option: Any, path: tuple[str, ...]) -> Option:
    name = max(option.opts, key=len)
    return Option(
        tuple(option.opts),
        tuple(option.secondary_opts),
        "" if option.is_flag else option.metavar or name.lstrip("-").upper().replace("-", "_"),
        " ".join((option.help or "").split()),
        None if option.is_flag else _values(name, option, path),
        bool(option.multiple),
    )


def _values(name: str, parameter: Any, path: tuple[str, ...]) -> Values:
    if parameter.type.name != "text":  # a number
        return _NOTHING
    found = _VALUES.get((" ".join(path), name)) or _VALUES.get(("", name))
    if found is None:
        raise ValueError(f"kbsync {' '.join(path)}: what may stand for {name}? Say it in shells.commands.")
    return found
