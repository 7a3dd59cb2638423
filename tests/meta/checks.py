"""README's table of what `kbsync doctor` looks at, made by the program: `python -m tests.meta.checks --write`."""

from __future__ import annotations

import sys

from kbsync.interfaces.doctor.examine import EXAMINATIONS
from tests.meta.checkout import ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- checks:begin -->", "<!-- checks:end -->"


def table() -> str:
    """Return the table as Markdown: a line for each check, by the name that `--json` gives it."""
    rows = [f"| `{one.name}` | {one.about} |" for one in EXAMINATIONS]
    return "\n".join(["| check | what is looked at |", "|---|---|", *rows]) + "\n"


def with_table(readme: str) -> str:
    """Return the README with the part between the markers replaced. Raises ValueError where a marker is missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no part between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    if arguments != ["--write"]:
        sys.stdout.write(table())
        return 0
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
