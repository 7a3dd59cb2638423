"""The completion of zsh: a function for each command, in the terms of `_arguments`."""

from __future__ import annotations

from kbsync.interfaces.shells.commands import Argument, Command, Option, Values

_ENTRY = """\
#compdef kbsync kb
# zsh completion for kbsync: `kbsync completion zsh` prints it.

{functions}
# Found in $fpath it is the function itself; sourced it only says for what it is one.
if [[ $funcstack[1] == _kbsync ]]; then
    _kbsync "$@"
else
    compdef _kbsync kbsync kb
fi
"""
_GROUP = """\
{name}() {{
    local curcontext="$curcontext" state line
    local -a commands
    commands=(
{commands}
    )
    _arguments -C{specifications} \\
        '1: :->command' '*:: :->rest' && return 0
    case $state in
        command) _describe -t commands command commands ;;
        rest) (( $+functions[{name}__${{words[1]}}] )) && "{name}__${{words[1]}}" ;;
    esac
}}
"""
_COMMAND = """\
{name}() {{
    _arguments -s{specifications}
}}
"""


def script(program: Command) -> str:
    """Return the script for the program and its short name `kb`; its file is called `_kbsync`."""
    return _ENTRY.format(functions="\n".join(_function(command) for command in program.walk()))


def _function(command: Command) -> str:
    name = "__".join(("_kbsync", *command.path))
    specifications = [one for option in command.options for one in _option(option)]
    specifications.append("'(-h --help)'{-h,--help}'[Show the help.]'")
    if command.commands:
        named = "\n".join(f"        {_quoted(f'{below.name}:{below.summary}')}" for below in command.commands)
        return _GROUP.format(name=name, commands=named, specifications=_lines(specifications))
    specifications += [_argument(argument) for argument in command.arguments]
    return _COMMAND.format(name=name, specifications=_lines(specifications))


def _lines(specifications: list[str]) -> str:
    return "".join(f" \\\n        {one}" for one in specifications)


def _option(option: Option) -> list[str]:
    """Return an option's specifications: one for all spellings that say the same."""
    every = (*option.names, *option.off)
    once = "*" if option.is_repeated else f"({' '.join(every)})" if len(every) > 1 else ""
    value = "" if option.values is None else f":{_plain(option.metavar)}:{_action(option.values)}"
    spellings = [*option.names] if option.values is None else [_with_value(name) for name in option.names]
    told = [*((spelling, option.help) for spelling in spellings), *((name, option.off_help) for name in option.off)]
    return [_quoted(f"{once}{spelling}{_bracketed(text)}{value}") for spelling, text in told]


def _bracketed(text: str) -> str:
    return "[" + "".join(f"\\{one}" if one in "[]\\" else one for one in text) + "]"


def _with_value(name: str) -> str:
    """Say that a value follows: as the next word, or behind `=` (long), or at once (short)."""
    return f"{name}=" if name.startswith("--") else f"{name}+"


def _argument(argument: Argument) -> str:
    usage = argument.usage.strip("[].")
    place = "*" if argument.is_repeated else ":" if argument.usage.startswith("[") else ""
    return _quoted(f"{place}:{_plain(usage)}:{_action(argument.values)}")


def _action(values: Values) -> str:
    words = f"({' '.join(values.words)})"
    places = {"files": "_files", "folders": "_files -/", "none": " "}[values.places]
    if not values.words:
        return places
    return words if values.places == "none" else f'{{_alternative "words:word:{words}" "places:place:{places}"}}'


def _plain(text: str) -> str:
    return text.replace(":", "\\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
