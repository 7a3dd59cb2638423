"""`kbsync completion`: the script by which a shell completes what is typed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import errors_told


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell.

    bash: `source <(kbsync completion bash)` in ~/.bashrc. zsh: write it to a file `_kbsync` in a folder of $fpath.
    fish: write it to ~/.config/fish/completions/kbsync.fish. Where kbsync was installed by packaging/install.sh, or as
    a wheel into the system, they are in place already.
    """
    with errors_told():
        sys.stdout.write(_script(shell))


def _script(shell: str) -> str:
    from typer.main import get_command

    from kbsync.errors import UsageError
    from kbsync.interfaces.cli.app import app
    from kbsync.interfaces.shells import bash, fish, zsh
    from kbsync.interfaces.shells.commands import SHELLS, command_tree

    if shell not in SHELLS:
        raise UsageError(f"There is no completion for {shell!r}.", hint=f"Shells: {', '.join(SHELLS)}.")
    program = command_tree(get_command(app))
    scripts = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
    return scripts[shell](program)
