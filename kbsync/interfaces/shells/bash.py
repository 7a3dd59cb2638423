"""The completion of bash, from 3.2 (of macOS) on: it needs no other function, and starts no program."""

from __future__ import annotations

from kbsync.interfaces.shells.commands import HELP, Command, Values

# Where a place is to be named, readline completes it itself: it knows how to quote. Bash 3.2 cannot be asked to.
_PLACES = {"files": "default", "folders": "dirnames", "none": ""}

_SCRIPT = """\
# bash completion for kbsync: `kbsync completion bash` prints it.

_kbsync_words() {{
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}}

_kbsync_places() {{
    compopt -o "$1" 2>/dev/null
    return 0
}}

_kbsync() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command="" i
    COMPREPLY=()
    # `--type=pdf` comes as three words.
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" && $COMP_CWORD -gt 2 ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
            {commands}) command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$command $prev" in
{values}
    esac
    if [[ $cur == -* ]]; then
        case "$command" in
{options}
        esac
        return
    fi
    case "$command" in
{arguments}
    esac
}}

complete -F _kbsync kbsync kb
"""


def script(program: Command) -> str:
    """Return the script for the program and its short name `kb`."""
    every = list(program.walk())
    return _SCRIPT.format(
        commands=" | ".join(f'"{" ".join(command.path[:-1])} {command.name}"' for command in every[1:]),
        values="\n".join(line for command in every for line in _values(command)),
        options="\n".join(f'            "{" ".join(command.path)}") {_options(command)} ;;' for command in every),
        arguments="\n".join(
            f'        "{" ".join(command.path)}") {done} ;;' for command in every if (done := _arguments(command))
        ),
    )


def _values(command: Command) -> list[str]:
    """Return what completes the value of each option that takes one."""
    lines = []
    for option in command.options:
        if option.values is not None:
            before = " | ".join(f'"{" ".join(command.path)} {name}"' for name in option.names)
            lines.append(f"        {before}) {_completed(option.values)}; return ;;")
    return lines


def _options(command: Command) -> str:
    names = [name for option in command.options for name in (*option.names, *option.off)]
    return _completed(Values((*names, *HELP)))


def _arguments(command: Command) -> str:
    if command.commands:
        return _completed(Values(tuple(below.name for below in command.commands)))
    done = [_completed(argument.values) for argument in command.arguments if argument.values != Values()]
    return "; ".join(done)


def _completed(values: Values) -> str:
    words = f'_kbsync_words "{" ".join(values.words)}" "$cur"' if values.words else ""
    places = f"_kbsync_places {_PLACES[values.places]}" if values.places != "none" else ""
    if words and places:
        places = "_kbsync_places plusdirs"
    return "; ".join(part for part in (words, places) if part) or ":"
