"""The manual page, made from the program itself: one page with every command."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from kbsync.interfaces.cli.exits import EPILOG
from kbsync.interfaces.shells.commands import Argument, Command, Option

# When somebody last read the whole page.
_DATE = "2026-11-30"
_FILES = (
    ("~/.config/kbsync/config.toml", "The configuration; `kbsync config init` writes one that explains itself."),
    ("~/.local/share/kbsync/", "The data: the index `kb.sqlite3`, and in `documents` the copies that kbsync keeps."),
    (
        "~/.local/state/kbsync/",
        "The socket `kbsync.sock`, and `token`: what a request to 127.0.0.1 must carry as `Authorization: Bearer`.",
    ),
    ("~/.local/state/kbsync/log/kbsync.log", "What the daemon said."),
    ("~/.kb/ingest-errors.log", "Files that could not be read and why, a line of JSON for each."),
    (
        "~/Library/",
        "On macOS `Application Support/kbsync` in it holds configuration, data and state, and `Logs/kbsync` the log.",
    ),
    (
        "$KBSYNC_HOME/",
        "Where that is set all lies there: `config.toml`, `data`, `state`, `logs` and `ingest-errors.log`. Else "
        "XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME move the folders as usual.",
    ),
)
_ENVIRONMENT = (
    ("KBSYNC_HOME", "A folder for the configuration, the data, the logs and the socket, all in one place."),
    ("KBSYNC_*", "Every setting, as in KBSYNC_RESCAN_S=600; of a table with two underscores, KBSYNC_HTTP__PORT=0."),
)


def render(program: Command, version: str, name: str = "kbsync") -> str:
    """Return the page in the macros of man(7)."""
    return "\n".join(_lines(program, version, name)) + "\n"


def _lines(program: Command, version: str, name: str) -> Iterator[str]:
    yield f'.\\" Made by python -m tests.meta.made_files --write from the help of {name}.'
    yield f'.TH {name.upper()} 1 "{_DATE}" "{name} {version}" "User Commands"'
    yield from (".SH NAME", f"{name} \\- {_text(_begun_small(program.help.rstrip('.')))}")
    yield from (".SH SYNOPSIS", f".B {name}", ".I COMMAND", "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]")
    yield from (".SH DESCRIPTION", *_paragraphs(program.help))
    yield from ("It is also installed as", f".BR {name[:2]} .", *_options(program))
    yield ".SH COMMANDS"
    for command in program.walk():
        if command.path and not command.commands:
            yield from _command(command, name)
    yield from (".SH EXIT STATUS", *_exit_codes())
    for heading, rows in (("FILES", _FILES), ("ENVIRONMENT", _ENVIRONMENT)):
        yield f".SH {heading}"
        for term, told in rows:
            yield from (".TP", f".I {_text(term)}" if heading == "FILES" else f".B {_text(term)}", *_wrapped(told))


def _command(command: Command, name: str) -> Iterator[str]:
    usage = [f"\\fB{_text(' '.join((name, *command.path)))}\\fR", *(["[\\fIOPTIONS\\fR]"] if command.options else [])]
    usage += [f"\\fI{_text(argument.usage)}\\fR" for argument in command.arguments]
    yield from (f".SS {' '.join(usage)}", *_paragraphs(command.help), *_options(command))


def _options(command: Command) -> Iterator[str]:
    for argument in command.arguments:
        if argument.help:
            yield from (".TP", _term(argument), *_wrapped(argument.help))
    for option in command.options:
        yield from (".TP", _named(option), *_wrapped(option.help))


def _term(argument: Argument) -> str:
    return f".I {_text(argument.usage)}"


def _named(option: Option) -> str:
    spelled = ", ".join(f"\\fB{_text(name)}\\fR" for name in (*option.names, *option.off))
    return f"{spelled} \\fI{_text(option.metavar)}\\fR" if option.metavar else spelled


def _exit_codes() -> Iterator[str]:
    for code, meaning in re.findall(r"(\d+) (.+?)(?=, \d+ |\.$)", EPILOG.removeprefix("Exit codes: ")):
        yield from (".TP", f".B {code}", _text(_begun_large(meaning)))


def _paragraphs(help_text: str) -> Iterator[str]:
    for number, paragraph in enumerate(help_text.split("\n\n")):
        if number:
            yield ".PP"
        yield from _wrapped(paragraph)


def _wrapped(text: str) -> list[str]:
    """Return text in lines that an editor shows; a sentence begins a line, as roff wants it."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(text.split()))
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 66, break_on_hyphens=False)]
    return [_text(line) for line in lines]


def _text(text: str) -> str:
    """Return text in which nothing is an instruction: hyphens are what is typed, and no line begins with a dot."""
    for letter, written in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("`", "\\(ga"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
        ('"', "\\(dq"),
    ):
        text = text.replace(letter, written)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _begun_small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _begun_large(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
