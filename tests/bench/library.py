"""Files that every machine with Python has: the standard library's own."""

from __future__ import annotations

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
