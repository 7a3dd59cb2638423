"""Go sources: functions, methods, types, strings that look like code."""

from __future__ import annotations

import pytest

from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from tests.fakes.word_counter import WordCounter


def read(text: str) -> Parsed:
    return router.convert(text.encode(), "code", "go", "main.go", ChunkLimits(), WordCounter())


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
    "text",
    ["/* " * 40_000, "\"'`" * 40_000, "func " * 40_000, "{" * 100_000, "func f() {\n" * 10_000, "a /* b\n" * 10_000],
    ids=lambda text: text[:5],
)
@pytest.mark.timeout(20)  # quadratic work would take minutes
def test_hostile_sources_take_linear_time(text: str) -> None:
    assert read(text).pieces[0].first_line == 1
