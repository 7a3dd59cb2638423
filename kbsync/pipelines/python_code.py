"""Python, by its syntax tree: functions, methods with their class in front, the rest of classes."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator

from kbsync.pipelines.code_units import Unit, with_comments
from kbsync.pipelines.lines import Lines

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# Python keeps one list of warning filters for all threads.
_filters = threading.Lock()


def python_units(lines: Lines) -> list[Unit] | None:
    """Return the units in the order of their lines, None where it is not valid Python of this version."""
    try:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes in other people's strings
            tree = ast.parse(lines.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return list(_Reader(lines).units(tree.body, 0, "", ()))


class _Reader:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def units(self, body: list[ast.stmt], after_line: int, outer: str, contexts: tuple[str, ...]) -> Iterator[Unit]:
        """Yield what is defined in a body; `after_line` ends what is before. What a function holds stays in it."""
        for node in body:
            if isinstance(node, _Function):
                yield self._function(node, after_line, outer, contexts)
            elif isinstance(node, ast.ClassDef):
                yield from self._class(node, after_line, outer, contexts)
            after_line = node.end_lineno or node.lineno

    def _function(self, node: _Function, after_line: int, outer: str, contexts: tuple[str, ...]) -> Unit:
        return Unit(
            self._first_line(node, after_line),
            node.end_lineno or node.lineno,
            "method" if outer else "function",
            f"{outer}{node.name}",
            contexts,
            self._signature(node),
        )

    def _class(
        self, node: ast.ClassDef, after_line: int, outer: str, outer_contexts: tuple[str, ...]
    ) -> Iterator[Unit]:
        """Yield the methods and inner classes, and a unit for each stretch of other lines between them."""
        name = f"{outer}{node.name}"
        contexts = self._contexts(node, outer_contexts)
        first_line = self._first_line(node, after_line)
        next_line = first_line
        for unit in self.units(node.body, max(node.lineno, first_line), f"{name}.", contexts):
            yield from self._class_rest(next_line, unit.first_line - 1, name, first_line, outer_contexts, contexts)
            yield unit
            next_line = unit.last_line + 1
        last_line = node.end_lineno or node.lineno
        yield from self._class_rest(next_line, last_line, name, first_line, outer_contexts, contexts)

    def _class_rest(
        self,
        first_line: int,
        last_line: int,
        name: str,
        class_line: int,
        outer_contexts: tuple[str, ...],
        contexts: tuple[str, ...],
    ) -> Iterator[Unit]:
        while first_line <= last_line and self._lines.is_blank(first_line):
            first_line += 1
        if first_line <= last_line:
            # The beginning of the class shows its own signature; later stretches need it in front.
            if first_line == class_line:
                yield Unit(first_line, last_line, "class", name, outer_contexts, contexts[-1])
            else:
                yield Unit(first_line, last_line, "class", name, contexts)

    def _first_line(self, node: _Function | ast.ClassDef, after_line: int) -> int:
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return with_comments(self._lines, line, after_line, "#")

    def _signature(self, node: _Function | ast.ClassDef) -> str:
        """Return the lines from `def` or `class` to the colon."""
        last_line = max(node.lineno, node.body[0].lineno - 1)
        while last_line > node.lineno and not self._lines.line(last_line).rstrip().endswith(":"):
            last_line -= 1  # comments between the signature and the body
        return self._text(node.lineno, last_line)

    def _contexts(self, node: ast.ClassDef, outer: tuple[str, ...]) -> tuple[str, ...]:
        """Return signature with docstring, signature with the docstring's first line, and the signature alone."""
        signature = self._signature(node)
        own = [signature]
        docstring = node.body[0]
        if ast.get_docstring(node, clean=False) is not None and docstring.lineno > node.lineno:
            end_line = docstring.end_lineno or docstring.lineno
            first = self._text(docstring.lineno, docstring.lineno)
            own = [f"{signature}\n{self._text(docstring.lineno, end_line)}", f"{signature}\n{first}", signature]
        if not outer:
            return tuple(dict.fromkeys(own))
        return tuple(dict.fromkeys([*(f"{outer[-1]}\n{text}" for text in own), signature]))

    def _text(self, first_line: int, last_line: int) -> str:
        return self._lines.text[self._lines.start(first_line) : self._lines.end(last_line)]
