"""Bash sources: functions, comments, here-documents."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from tests.fakes.word_counter import WordCounter


def read(text: str, limits: ChunkLimits | None = None) -> Parsed:
    return router.convert(text.encode(), "code", "bash", "deploy.sh", limits or ChunkLimits(), WordCounter())


def functions(text: str) -> list[tuple[str | None, int | None, int | None]]:
    return [(p.section_header, p.first_line, p.last_line) for p in read(text).pieces if p.kind == "function"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name() {\n  echo\n}\n", [("name", 1, 3)]),
        ("function name {\n  echo\n}\n", [("name", 1, 3)]),
        ("function name() {\n  echo\n}\n", [("name", 1, 3)]),
        ("name ()\n{\n  echo\n}\n", [("name", 1, 4)]),
        ("one() { echo 1; }\ntwo() { echo 2; }\n", [("one", 1, 1), ("two", 2, 2)]),
        ("sub() (\n  cd /\n)\n", [("sub", 1, 3)]),
        ("#!/bin/bash\n# What it does.\n# More.\nname() {\n  :\n}\n", [("name", 2, 6)]),
        ("a() {\n  :\n}\n\n# of b\nb() {\n  :\n}\n", [("a", 1, 4), ("b", 5, 8)]),
        ("a() {\n  inner() {\n    :\n  }\n  inner\n}\n", [("a", 1, 6)]),
        ("if x; then\n  a() {\n    :\n  }\nfi\n", [("a", 2, 4)]),
        ("a() {\n  cat <<EOF\n}\nb() {\nEOF\n  :\n}\n", [("a", 1, 7)]),
        ("cat <<-'END' > x\na() {\n}\n\tEND\nb() {\n  :\n}\n", [("b", 5, 7)]),
        ("cat <<A <<B\nx() {\nA\ny() {\nB\nz() {\n  :\n}\n", [("z", 6, 8)]),
        ("x=$((1 << N))\na() {\n  :\n}\n", [("a", 2, 4)]),
        ("grep x <<< word\na() {\n  :\n}\n", [("a", 2, 4)]),
        ("a() {\n  [[ $x == '{' ]] && echo ${y}\n} >&2\n", [("a", 1, 3)]),
        ("a() {\n  never closed\n", []),
        ("a() {\n  cat <<'EOF'\n}\nb() {\nEOF\n}\n", [("a", 1, 6)]),
        ('a() {\n  cat <<"E F"\n}\nE F\n}\n', [("a", 1, 5)]),
        ("a() {\n  cat <<\\EOF\n}\nEOF\n}\n", [("a", 1, 5)]),
        ("a() {\n  cat <<E\\OF\n}\nEOF\n}\n", [("a", 1, 5)]),
        ("a() {\n  cat <<'!'\n}\n!\n}\n", [("a", 1, 5)]),
        ("a() {\n  cat <<'$X' <<12\n}\n$X\n}\n12\n}\n", [("a", 1, 7)]),
        ('a() {\n  x="$(cat <<EOF\n}\nEOF\n)"\n}\n', [("a", 1, 6)]),
        ("echo '<<E' \"<<E\" # <<E\na() {\n  :\n}\ncat <<E\nE\n", [("a", 2, 4)]),
        ("a() {\n  awk '\n{ x }\n}\n' <<E\n}\nE\n}\nb() { :; }\n", [("a", 1, 8), ("b", 9, 9)]),
        ("a() {\n  sed 's/a/b/' # isn't\n}\nb() {\n  awk '\n/x/ {\n}' f\n}\n", [("a", 1, 3), ("b", 4, 8)]),
        ("a() {\n  if x; then\n    y; fi }\n\n# of b\nb() {\n  :\n}\n", [("a", 1, 4), ("b", 5, 8)]),
        ("if x; then\n  a() {\n    :\n}\nfi\n", [("a", 2, 4)]),
        ("x='\nfunction a(x) {\n}'\nfunction b (\n:\n)\nc()(\n:\n)\n", [("b", 4, 6), ("c", 7, 9)]),
        ("a()\n\n# why\n{\n  :\n}\n", [("a", 1, 6)]),
        ("a() # why\n{\n  :\n} 2>&1 | b\n", [("a", 1, 4)]),
        ("# only\n\n# comments\n", []),
        ("echo a() b\nx=(1 2)\n", []),
        ("a::b-c() {\n  :\n}\n", [("a::b-c", 1, 3)]),
    ],
)
def test_functions_are_found_with_their_comments(text: str, found: list[tuple[str | None, int, int]]) -> None:
    assert functions(text) == found
    covered = {n for piece in read(text).pieces for n in range(piece.first_line or 0, (piece.last_line or 0) + 1)}
    assert covered == set(range(1, text.count("\n") + 1))


def test_a_script_without_functions_is_cut_to_size_with_overlap() -> None:
    rows = [f"echo step {number}" for number in range(100)]
    pieces = read("\n".join(rows), ChunkLimits(max_tokens=50, overlap_tokens=9)).pieces
    assert len(pieces) > 5
    for before, after in pairwise(pieces):
        assert before.text.split("\n")[-1] == after.text.split("\n")[2]


def test_a_long_function_repeats_its_first_line() -> None:
    text = "# About it.\nlong() {\n" + "".join(f"  echo step {number}\n" for number in range(100)) + "}\n"
    parts = read(text, ChunkLimits(max_tokens=60)).pieces
    assert parts[0].text.startswith("# About it.\nlong() {\n  echo step 0\n")
    assert all(piece.text.startswith("long() {\n  echo") for piece in parts[1:])
    assert parts[-1].metadata["part"] == f"{len(parts)}/{len(parts)}"


@pytest.mark.parametrize(
    "text",
    [
        "f() {\n" * 10_000,
        "".join(f"cat <<E{n}\n" for n in range(10_000)),
        "a(" * 50_000,
        "function " * 50_000,
        "a()\n" * 20_000,
        "awk '\n" * 20_001,
        "awk " * 2_000 + "'\n" * 9,
        "cat <<'" * 20_000,
    ],
    ids=["unclosed", "documents", "parentheses", "keywords", "no body", "programs", "words", "quotes"],
)
@pytest.mark.timeout(20)  # quadratic work would take minutes
def test_hostile_scripts_take_linear_time(text: str) -> None:
    assert read(text).pieces
