"""The completion of fish: a line for each thing that may be written, with where it may be."""

from __future__ import annotations

from collections.abc import Iterator

from kbsync.interfaces.shells.commands import Command, Option, Values

_HEAD = """\
# fish completion for kbsync: `kbsync completion fish` prints it.

function __kbsync_at --description 'Say whether these words are the command that is being written'
    set -l words (commandline -opc)
    set -l command
    for word in $words[2..-1]
        switch "$command $word"
            case {commands}
                set command (string trim -- "$command $word")
        end
    end
    test "$command" = "$argv"
end

complete -c kbsync -f
complete -c kbsync -s h -l help -d 'Show the help.'
"""
_LAST = "complete -c kb -w kbsync\n"


def script(program: Command) -> str:
    """Return the script for the program and its short name `kb`."""
    every = list(program.walk())
    names = " ".join(_quoted(f"{' '.join(command.path[:-1])} {command.name}") for command in every[1:])
    lines = [line for command in every for line in _lines(command)]
    return "".join((_HEAD.format(commands=names), *(f"{line}\n" for line in lines), _LAST))


def _lines(command: Command) -> Iterator[str]:
    here = f"complete -c kbsync -n {_quoted(' '.join(('__kbsync_at', *command.path)))}"
    for below in command.commands:
        yield f"{here} -a {below.name} -d {_quoted(below.summary)}"
    for argument in command.arguments:
        if argument.values != Values():
            yield f"{here} {_values(argument.values, is_required=False)}"
    for option in command.options:
        yield f"{here} {_spelled(option)} -d {_quoted(option.help)}"
        for name in option.off:
            yield f"{here} -l {name.lstrip('-')} -d {_quoted(option.off_help)}"


def _spelled(option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    return " ".join(names if option.values is None else (*names, _values(option.values, is_required=True)))


def _values(values: Values, *, is_required: bool) -> str:
    """Return what fits into a place; a required one takes nothing else."""
    words = " ".join(values.words)
    if values.told:
        words = " ".join(f"{word}\\t{_quoted(told)}" for word, told in zip(values.words, values.told, strict=True))
    if values.places == "files":
        return "-r -F" if is_required else "-F"
    if values.places == "folders":
        words = f"{words} (__fish_complete_directories)".strip()
    exclusive = "-x" if is_required else ""
    return f"{exclusive} -a {_quoted(words)}".strip() if words else exclusive


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
