"""Files that are made from the program and kept for packagers: `python -m tests.meta.made_files --write` makes them."""

from __future__ import annotations

import sys
from pathlib import Path

from typer.main import get_command

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.shells import bash, fish, zsh
from kbsync.interfaces.shells.commands import command_tree
from tests.meta import manual
from tests.meta.checkout import ROOT, version


def made_files() -> dict[Path, str]:
    """Return what each file should hold."""
    program = command_tree(get_command(app))
    completions = ROOT / "packaging" / "completions"
    return {
        completions / "kbsync.bash": bash.script(program),
        completions / "_kbsync": zsh.script(program),
        completions / "kbsync.fish": fish.script(program),
        ROOT / "packaging" / "man" / "kbsync.1": manual.render(program, version()),
    }


def stale() -> list[Path]:
    """Return the files that do not hold what they should."""
    return [
        path for path, wanted in made_files().items() if not path.exists() or path.read_text(encoding="utf-8") != wanted
    ]


def main(arguments: list[str]) -> int:
    """Write the files, or say which are stale."""
    for path in stale():
        if arguments == ["--write"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made_files()[path], encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return int(bool(stale()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
