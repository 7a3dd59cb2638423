"""Go sources: functions, methods, types, strings that look like code."""

from __future__ import annotations

import pytest

from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from tests.fakes.word_counter import WordCounter


def read(text: str, limits: ChunkLimits | None = None) -> Parsed:
    return router.convert(text.encode(), "code", "go", "main.go", limits or ChunkLimits(), WordCounter())


def outline(text: str) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(piece.kind, piece.section_header, piece.first_line, piece.last_line) for piece in read(text).pieces]


SOURCE = """// Package main runs.
package main

import (
\t"fmt"
)

// Server serves.
type Server struct {
\tname string
}

// Start starts it.
// It may fail.
func (s *Server) Start(
\tport int,
) (err error) {
\tif x := '}'; x == '"' {
\t\tfmt.Println("} // not", `
func fake() {
}
`)
\t}
\treturn nil
}

/*
main is where it begins.
}
*/
func main() {
\ttype inner struct{}
\tgo func() { _ = 1 }()
}

func (List[T]) Len() int { return 0 }

func Map[T any](x interface{}) interface{} { return x }

type (
\tA int
\tB string
)

var last = map[string]int{
\t"a": 1,
}
"""


def test_functions_methods_and_types_become_pieces_with_their_comments() -> None:
    assert outline(SOURCE) == [
        ("module", None, 1, 7),
        ("class", "Server", 8, 12),
        ("method", "Server.Start", 13, 26),
        ("function", "main", 27, 35),
        ("method", "List.Len", 36, 37),
        ("function", "Map", 38, 39),
        ("class", "types", 40, 44),
        ("module", None, 45, 47),
    ]
    assert read(SOURCE).pieces[2].text.startswith("// Start starts it.\n// It may fail.\nfunc (s *Server) Start(")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("var x = `\nfunc a() {\n`\nfunc b() {}\n", [("b", 4, 4)]),
        ('func a() {\n\tx := `}`\n\ty := "}\\""\n} // }\nfunc b() {}\n', [("a", 1, 4), ("b", 5, 5)]),
        ("func (s *Stack[T]) Push(x T) {\n}\n", [("Stack.Push", 1, 2)]),
        ("func (p Pair[K, V]) Get() (k K, v V) {\n}\n", [("Pair.Get", 1, 2)]),
        ("func Map[K comparable, V interface{ ~int }](m map[K]V) []K {\n}\n", [("Map", 1, 2)]),
        ("type T[K any] struct {\n\tf func() // }\n\tg struct {\n\t}\n}\n", [("T", 1, 5)]),
        ("// A b.\n//go:noinline\nfunc f() {}\n\n// C.\ntype I interface {\n}\n", [("f", 1, 4), ("I", 5, 7)]),
        ("func f(x int,\n// }\ny int) {\n}\nfunc g()\n", [("f", 1, 4), ("g", 5, 5)]),
        ("var f = func() {\n}\n\n// trailing\n", []),
        ("// only\n// comments\n", []),
    ],
)
def test_functions_methods_and_types_are_found(text: str, found: list[tuple[str, int, int]]) -> None:
    pieces = read(text).pieces
    assert [(p.section_header, p.first_line, p.last_line) for p in pieces if p.section_header] == found
    covered = {n for piece in pieces for n in range(piece.first_line or 0, (piece.last_line or 0) + 1)}
    assert covered == set(range(1, text.count("\n") + 1))


def test_a_long_function_repeats_its_whole_signature() -> None:
    signature = "func (s *T) Long(\n\ta struct {\n\t\tb int\n\t},\n) (err error) {"
    text = f"// About it.\n{signature}\n" + "".join(f"\tx{number}()\n" for number in range(100)) + "}\n"
    parts = read(text, ChunkLimits(max_tokens=80)).pieces
    assert len(parts) > 3
    assert parts[0].text.startswith(f"// About it.\n{signature}\n\tx0()")
    assert all(piece.text.startswith(f"{signature}\n\tx") for piece in parts[1:])


@pytest.mark.parametrize(
    "text",
    ["/* " * 40_000, "\"'`" * 40_000, "func " * 40_000, "{" * 100_000, "func f() {\n" * 10_000, "a /* b\n" * 10_000],
    ids=lambda text: text[:5],
)
@pytest.mark.timeout(20)  # quadratic work would take minutes
def test_hostile_sources_take_linear_time(text: str) -> None:
    assert read(text).pieces[0].first_line == 1
