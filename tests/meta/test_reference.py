"""The reference shows every command with its arguments, options and help, in a form that every Typer gives."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pytest
import typer

from tests.meta.reference import render, with_reference


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def program() -> typer.Typer:
    app = typer.Typer(help="Paints things.\n\nSlowly.", add_completion=False)
    walls = typer.Typer(help="Everything about walls.")

    @app.command()
    def paint(
        things: Annotated[list[str], typer.Argument(help="what to paint")],
        colour: Annotated[Colour, typer.Option("--colour", "-c", help="red | blue")] = Colour.RED,
        dry: Annotated[bool, typer.Option("--dry/--wet", help="Let it dry.")] = True,
        coats: Annotated[int, typer.Option(help="How many\nlayers.")] = 2,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        secret: Annotated[bool, typer.Option("--secret", hidden=True)] = False,
    ) -> None:
        """Paint things."""

    @walls.command("list")
    def list_walls() -> None:
        """List the walls."""

    @walls.command(hidden=True)
    def demolish() -> None:
        """Never shown."""

    app.add_typer(walls, name="walls")
    return app


EXPECTED = """### `painter`

```
painter COMMAND
```

Paints things.

Slowly.

#### `painter paint`

```
painter paint [OPTIONS] THINGS...
```

Paint things.

| | |
|---|---|
| `THINGS...` | what to paint |
| `--colour, -c red\\|blue` | red \\| blue |
| `--dry / --wet` | Let it dry. |
| `--coats INTEGER` | How many layers. |
| `--json` | Print JSON. |

#### `painter walls`

```
painter walls COMMAND
```

Everything about walls.

#### `painter walls list`

```
painter walls list
```

List the walls.
"""


def test_reference_shows_commands_arguments_options_and_nothing_hidden() -> None:
    assert render(program(), "painter") == EXPECTED


def test_reference_replaces_what_is_between_the_markers_only() -> None:
    readme = "before\n<!-- reference:begin -->\nold\n<!-- reference:end -->\nafter\n"
    once = with_reference(readme, "new\n")
    assert once == "before\n<!-- reference:begin -->\n\nnew\n\n<!-- reference:end -->\nafter\n"
    assert with_reference(once, "new\n") == once


def test_readme_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="reference:begin"):
        with_reference("# kbsync\n", "text")
