"""Python, by its syntax tree: functions, methods with their class in front, the rest of classes."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from kbsync.pipelines.code_units import Unit, with_comments
from kbsync.pipelines.lines import Lines

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# Statements that hold others without a scope of their own: what they define belongs to what is around them.
_Block = (
    ast.If
    | ast.For
    | ast.AsyncFor
    | ast.While
    | ast.With
    | ast.AsyncWith
    | ast.Try
    | ast.TryStar
    | ast.Match
    | ast.ExceptHandler
    | ast.match_case
)
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
    return list(_Reader(lines).units(tree.body, 0, None))


@dataclass(frozen=True, slots=True)
class _Class:
    """A class as what is inside it needs it. `signatures` are its own and those of the classes around it.

    `contexts` are signatures with docstring, with the docstring's first line, the signatures, its own signature alone.
    """

    name: str
    first_line: int
    signatures: str
    contexts: tuple[str, ...]


class _Reader:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def units(self, body: list[ast.stmt], after_line: int, outer: _Class | None) -> Iterator[Unit]:
        """Yield what is defined in a body; `after_line` ends what is before. What a function holds stays in it."""
        for node, before in self._definitions(body, after_line):
            if isinstance(node, ast.ClassDef):
                yield from self._class(node, before, outer)
            else:
                yield self._function(node, before, outer)

    def _definitions(self, body: list[ast.stmt], after_line: int) -> Iterator[tuple[_Function | ast.ClassDef, int]]:
        """Yield functions and classes, also those under `if`, `try` and the like, each with the last line before it."""
        waiting: list[Iterator[ast.AST]] = [iter(body)]  # no recursion: each `elif` is a level deeper
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
            elif isinstance(node, _Block):
                waiting.append(ast.iter_child_nodes(node))
            elif isinstance(node, _Function | ast.ClassDef):
                yield node, after_line
                after_line = self._last_line(node)
            else:
                after_line = max(after_line, getattr(node, "end_lineno", None) or 0)

    def _function(self, node: _Function, after_line: int, outer: _Class | None) -> Unit:
        return Unit(
            self._first_line(node, after_line),
            self._last_line(node),
            "method" if outer else "function",
            _name(node, outer),
            outer.contexts if outer else (),
            self._signature(node),
        )

    def _class(self, node: ast.ClassDef, after_line: int, outer: _Class | None) -> Iterator[Unit]:
        """Yield the methods and inner classes, and a unit for each stretch of other lines between them."""
        first_line = self._first_line(node, after_line)
        described = self._described(node, first_line, outer)
        next_line = first_line
        for unit in self.units(node.body, max(node.lineno, first_line), described):
            yield from self._class_rest(next_line, unit.first_line - 1, described, outer)
            yield unit
            next_line = unit.last_line + 1
        yield from self._class_rest(next_line, self._last_line(node), described, outer)

    def _class_rest(self, first_line: int, last_line: int, of: _Class, outer: _Class | None) -> Iterator[Unit]:
        while first_line <= last_line and self._lines.is_blank(first_line):
            first_line += 1
        if first_line <= last_line:
            # The beginning of the class shows its own signature; later stretches need it in front.
            if first_line == of.first_line:
                contexts = outer.contexts if outer else ()
                yield Unit(first_line, last_line, "class", of.name, contexts, of.contexts[-1])
            else:
                yield Unit(first_line, last_line, "class", of.name, of.contexts)

    def _first_line(self, node: _Function | ast.ClassDef, after_line: int) -> int:
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return with_comments(self._lines, line, after_line, "#")

    def _last_line(self, node: _Function | ast.ClassDef) -> int:
        """Return the last line of a body, with the comments after its last statement that are indented like it."""
        last_line = row = node.end_lineno or node.lineno
        while row < len(self._lines):
            row += 1
            line = self._lines.line(row)
            code = line.lstrip()
            if not code:
                continue
            if not code.startswith("#") or len(line) - len(code) <= node.col_offset:
                break
            last_line = row
        return last_line

    def _signature(self, node: _Function | ast.ClassDef) -> str:
        """Return the lines from `def` or `class` to the colon."""
        last_line = max(node.lineno, node.body[0].lineno - 1)
        while last_line > node.lineno and not self._lines.line(last_line).rstrip().endswith(":"):
            last_line -= 1  # comments between the signature and the body
        return self._text(node.lineno, last_line)

    def _described(self, node: ast.ClassDef, first_line: int, outer: _Class | None) -> _Class:
        signature = self._signature(node)
        signatures = f"{outer.signatures}\n{signature}" if outer else signature
        contexts = [signatures, signature]
        docstring = node.body[0]
        if ast.get_docstring(node, clean=False) is not None and docstring.lineno > node.lineno:
            end_line = docstring.end_lineno or docstring.lineno
            shown = (self._text(docstring.lineno, last) for last in (end_line, docstring.lineno))
            contexts = [*(f"{signatures}\n{text}" for text in shown), *contexts]
        return _Class(_name(node, outer), first_line, signatures, tuple(dict.fromkeys(contexts)))

    def _text(self, first_line: int, last_line: int) -> str:
        return self._lines.text[self._lines.start(first_line) : self._lines.end(last_line)]


def _name(node: _Function | ast.ClassDef, outer: _Class | None) -> str:
    return f"{outer.name}.{node.name}" if outer else node.name
