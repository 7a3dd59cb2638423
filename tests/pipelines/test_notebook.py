"""Notebooks: cells without outputs, and what is broken."""

from __future__ import annotations

import json

import pytest

from kbsync.errors import SkipFile
from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from kbsync.reasons import Reason
from tests.fakes.word_counter import WordCounter


def read(data: str) -> Parsed:
    return router.convert(data.encode(), "code", "notebook", "analysis.ipynb", ChunkLimits(min_tokens=3), WordCounter())


def notebook(*cells: dict[str, object]) -> str:
    return json.dumps({"cells": cells, "metadata": {"kernelspec": {"language": "Julia"}}, "nbformat": 4})


CELLS: tuple[dict[str, object], ...] = (
    {"cell_type": "markdown", "source": ["# Sales\n", "\n", "How sales went over the year."]},
    {"cell_type": "markdown", "source": "## Loading\n\nWe load the table of sales."},
    {
        "cell_type": "code",
        "source": "load('sales')\n# not a header",
        "outputs": [{"data": {"image/png": "SECRETPIXELS"}}],
    },
)


def test_cells_are_read_under_their_headers_and_outputs_are_not() -> None:
    parsed = read(notebook(*CELLS))
    assert (parsed.title, parsed.language) == ("Sales", "julia")
    assert [piece.section_header for piece in parsed.pieces] == [None, "Loading"]
    assert parsed.pieces[1].text == "We load the table of sales.\n\n```julia\nload('sales')\n# not a header\n```"
    assert [piece.metadata["cells"] for piece in parsed.pieces] == [[1, 1], [2, 3]]
    assert "SECRETPIXELS" not in str(parsed)
    assert all(piece.first_line is None for piece in parsed.pieces)


def test_a_cell_with_fences_of_its_own_stays_one_cell() -> None:
    parsed = read(notebook({"cell_type": "code", "source": "s = '''\n```\n# a\n```\n'''"}))
    assert len(parsed.pieces) == 1
    assert parsed.pieces[0].text.startswith("````julia\n")


def test_the_old_format_is_read_too() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Old times"},
        {"cell_type": "code", "input": ["x = 1\n", "y = 2 + 3"], "outputs": []},
    ]
    parsed = read(json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}))
    assert [piece.section_header for piece in parsed.pieces] == ["Old times"]
    assert "y = 2 + 3" in parsed.pieces[0].text


def test_broken_json_is_read_as_text() -> None:
    broken = notebook(*CELLS)[:-9]
    parsed = read(broken)
    assert "How sales went over the year." in " ".join(piece.text for piece in parsed.pieces)
    assert {piece.kind for piece in parsed.pieces} == {"data"}


def test_of_a_notebook_beyond_the_limit_the_whole_cells_are_read() -> None:
    giant: dict[str, object] = {"cell_type": "code", "source": "x", "outputs": ["A" * router.MAX_TEXT_BYTES]}
    parsed = read(notebook(*CELLS, giant))
    assert parsed.truncated
    assert [piece.section_header for piece in parsed.pieces] == [None, "Loading"]


@pytest.mark.parametrize("cells", [[], [{"cell_type": "code", "source": " \n"}], ["nonsense", {"source": 5}]])
def test_a_notebook_without_text_is_empty(cells: list[dict[str, object]]) -> None:
    with pytest.raises(SkipFile) as refused:
        read(notebook(*cells))
    assert refused.value.reason is Reason.EMPTY
