"""Words into rows and columns: by a structure, and by where they stand."""

from __future__ import annotations

from kbsync.pipelines.table_grid import Box, Grid, Word, grid_of_lines, grid_of_structure


def word(text: str, left: float, top: float) -> Word:
    return Word(text, (left, top, left + 8 * len(text), top + 10))


def box(column: int, row: int) -> Box:
    return (100.0 * column, 20.0 * row, 100.0 * column + 80, 20.0 * row + 12)


def rows(grid: Grid | None) -> list[list[str]]:
    assert grid is not None
    return [[cell.text for cell in grid.cells if cell.first_row <= row <= cell.last_row] for row in range(grid.rows)]


def test_words_go_into_the_cell_of_their_row_and_column() -> None:
    tags = ["<tr>", "<td></td>", "<td></td>", "</tr>", "<tr>", "<td></td>", "<td></td>", "</tr>"]
    words = [word("name", 0, 0), word("price", 100, 0), word("pear", 0, 20), word("2.50", 130, 23)]
    grid = grid_of_structure(tags, [box(0, 0), box(1, 0), box(0, 1), box(1, 1)], words)
    assert rows(grid) == [["name", "price"], ["pear", "2.50"]]
    assert grid is not None
    assert grid.misfit == 0


def test_spans_push_later_cells_aside() -> None:
    tags = ["<thead>", "<tr>", "<td", ' rowspan="2"', ">", "</td>", "<td></td>", "</tr>", "</thead>"]
    tags += ["<tr>", "<td></td>", "</tr>"]
    grid = grid_of_structure(
        tags, [box(0, 0), box(1, 0), box(1, 1)], [word("both", 0, 10), word("up", 100, 0), word("down", 100, 20)]
    )
    assert grid is not None
    places = [(cell.text, cell.first_row, cell.last_row, cell.first_column, cell.header) for cell in grid.cells]
    assert places == [("both", 0, 1, 0, True), ("up", 0, 0, 1, True), ("down", 1, 1, 1, False)]


def test_a_stretch_over_two_columns_is_split_between_its_words() -> None:
    tags = ["<tr>", "<td></td>", "<td></td>", "</tr>"]
    grid = grid_of_structure(tags, [box(0, 0), box(1, 0)], [Word("one two", (30, 0, 170, 10))])
    assert rows(grid) == [["one", "two"]]


def test_a_structure_with_too_few_rows_is_a_misfit() -> None:
    words = [word("a", 0, 0), word("b", 100, 0), word("c", 0, 20), word("d", 100, 20)]
    tags = ["<tr>", "<td></td>", "<td></td>", "</tr>"]
    grid = grid_of_structure(tags, [(0, 0, 80, 32), (100, 0, 180, 32)], words)
    assert grid is not None
    assert grid.misfit == 1


def test_no_word_is_lost_without_a_structure() -> None:
    words = [word("name", 0, 0), word("price", 100, 0), word("pear", 0, 20), word("2.50", 130, 22), word("end", 0, 40)]
    assert rows(grid_of_lines(words)) == [["name", "price"], ["pear", "2.50"], ["end"]]
    assert grid_of_structure([], [], words) is None
    assert grid_of_lines([]).rows == 0
