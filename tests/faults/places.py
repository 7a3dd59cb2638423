"""The named places on the road, read from the source."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.meta.checkout import ROOT

_NAME = re.compile(r"[a-z_]+\.[a-z_]+\Z")


def named_places() -> Counter[str]:
    """Return how often each name is given to `failpoint`.

    Where that is given a variable, the names are all those that stand in its module. Raises ValueError for a name that
    is none.
    """
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "kbsync").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        given = [node.args for node in nodes if isinstance(node, ast.Call) and _is_failpoint(node.func)]
        names = [argument.value for (argument,) in given if isinstance(argument, ast.Constant)]
        for name in names:
            if not isinstance(name, str) or not _NAME.match(name):
                raise ValueError(f"{path}: {name!r} is not the name of a place, which is `part.what`")
        if len(names) < len(given):
            parts = {str(name).partition(".")[0] for name in names}
            strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            names = [string for string in strings if _NAME.match(string) and string.partition(".")[0] in parts]
        found.update(map(str, names))
    return found


def _is_failpoint(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "failpoint"
