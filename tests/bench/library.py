"""Files that every machine with Python has: the standard library's own, and notes made of its docstrings."""

from __future__ import annotations

import ast
import os
import sysconfig

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3"}


def library_files(count: int) -> list[str]:
    """Return so many (or all there are) Python files with text in them, spread evenly over the library."""
    found = []
    for folder, folders, names in os.walk(sysconfig.get_paths()["stdlib"]):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        paths = (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))
        found += [path for path in paths if os.path.getsize(path) > 0]
    step = max(1.0, len(found) / max(1, count))
    return [found[int(number * step)] for number in range(min(count, len(found)))]


def small_notes(folder: str, count: int) -> list[str]:
    """Write so many small Markdown files into a folder, each a docstring of the library, and return their paths."""
    paths: list[str] = []
    for source in library_files(1_000_000):
        with open(source, encoding="utf-8", errors="replace") as file:
            tree = ast.parse(file.read())
        module = os.path.basename(source).removesuffix(".py")
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or not (text := ast.get_docstring(node)):
                continue
            if len(paths) == count:
                return paths
            paths.append(os.path.join(folder, f"{len(paths):04}-{node.name}.md"))
            with open(paths[-1], "w", encoding="utf-8", errors="replace") as note:
                note.write(f"# {module}: {node.name}\n\n## What it does\n\n{text}\n")
    return paths
