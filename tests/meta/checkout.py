"""Where the checkout is and which of its files belong to the project; needs no git: an archive works too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TOP_LEVEL = frozenset(
    {
        "pyproject.toml",
        "VERSION",
        "kbsync",
        "tests",
        "packaging",
        "launchd",
        "systemd",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
    }
)
_DOT_ENTRIES = (".ci", ".gitignore")


def version() -> str:
    """Return the version that the file VERSION names."""
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def project_files() -> Iterator[Path]:
    """Yield every file of the project's own top-level entries, without what Python leaves behind."""
    for name in sorted((*TOP_LEVEL, *_DOT_ENTRIES)):
        entry = ROOT / name
        if entry.is_file():
            yield entry
        yield from (path for path in sorted(entry.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def modules() -> list[Path]:
    """Return every Python module of the program and its tests, without the samples."""
    return [
        path
        for path in project_files()
        if path.suffix == ".py"
        and path.relative_to(ROOT).parts[0] in ("kbsync", "tests")
        and "samples" not in path.parts
    ]
