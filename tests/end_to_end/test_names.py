"""File names of any bytes are indexed, printed harmlessly and understood again as arguments."""

from __future__ import annotations

import os

import pytest

from tests.end_to_end.conftest import Road

NAMES = {
    "no UTF-8": b"caf\xe9-\xff.md",
    "a newline": b"two\nlines.md",
    "an escape": b"esc\x1b[31mred.md",
    "a leading dash": b"-n.md",
    "255 bytes": b"x" * 252 + b".md",
    "percent and quotes": b"50%20'\"\\.md",
    "right to left": "a\u202egnp.md".encode(),
    "decomposed": "ma\u0308rz.md".encode(),
    "wide space": "東京\u3000資料.md".encode(),
}


@pytest.mark.parametrize("what", NAMES)
def test_a_file_of_any_name_is_indexed_and_told_about(road: Road, what: str) -> None:
    word = "oddname" + "abcdefghijk"[list(NAMES).index(what)]  # letters only: a number would be a part of its own
    raw = os.path.join(os.fsencode(road.folder), NAMES[what])
    with open(raw, "wb") as file:
        file.write(f"# Odd\n\nThis file says {word}.\n".encode())
    road.program.run("wait")
    shown = raw.decode("utf-8", "backslashreplace")
    assert road.program.json("why", raw)["state"] == "indexed"
    (hit,) = road.program.json("search", "--mode", "lexical", word)["hits"]
    assert hit["path"] == shown
    for printed in (
        road.program.run("search", "--mode", "lexical", word),
        road.program.run("why", raw),
        road.program.run("documents", "list", "--limit", "1000"),
        road.program.run("add", "--", raw),
    ):
        assert not any(mark in printed.stdout + printed.stderr for mark in "\x1b\u202e\x9b")
    lines = road.program.run("why", raw).stdout.splitlines()
    assert lines[0].endswith(": indexed"), "a name stays on its line"


def test_a_name_cannot_forge_lines_of_a_result(road: Road) -> None:
    (road.folder / "real\n9. Forged.md").write_text("# Honest\n\nAbout forgedlines.\n")
    road.program.run("wait")
    printed = road.program.run("search", "--mode", "lexical", "forgedlines").stdout
    assert not [line for line in printed.splitlines() if line.startswith("9. Forged")]


def test_a_wide_space_of_chinese_text_is_printed_as_it_is(road: Road) -> None:
    path = road.folder / "wide.md"
    path.write_text("# 宽\n\n甲乙丙\u3000丁戊己\n")
    road.program.run("wait")
    number = road.program.json("why", str(path))["document_id"]
    assert "甲乙丙\u3000丁戊己" in road.program.run("documents", "show", str(number)).stdout
