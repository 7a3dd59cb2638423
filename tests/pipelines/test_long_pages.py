"""Long pictures are cut between their lines, and what no letter fits into is not read."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw

from kbsync.pipelines import long_pages


def lined(width: int, height: int, every: int) -> Image.Image:
    """Return a picture with a dark bar, half as high as the distance between two, for each line of text."""
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    for top in range(0, height, every):
        draw.rectangle((width // 10, top, width * 8 // 10, top + every // 2), fill="black")
    return picture


@pytest.mark.parametrize("every", [24, 40, 90])
def test_a_long_picture_is_cut_between_its_lines_and_no_row_is_lost_or_read_twice(every: int) -> None:
    picture = lined(200, 2_000, every)
    strips = long_pages.strips(picture)
    assert [top for top, _ in strips[1:]] == [bottom for _, bottom in strips[:-1]]
    assert (strips[0][0], strips[-1][1]) == (0, 2_000)
    assert all(100 <= bottom - top <= 500 for top, bottom in strips)
    for cut, _ in strips[1:]:
        assert every // 2 < cut % every, f"row {cut} lies inside a line"
    assert abs(len(strips) - long_pages.pages_worth(200, 2_000)) <= 4


@pytest.mark.parametrize("size", [(595, 842), (842, 595), (1_000, 2_500), (4_000, 500)])
def test_a_page_of_any_common_shape_is_read_in_one_piece(size: tuple[int, int]) -> None:
    assert long_pages.strips(Image.new("RGB", size)) == [(0, size[1])]
    assert long_pages.pages_worth(*size) == 1
    assert long_pages.has_room_for_text(*size)


@pytest.mark.parametrize("size", [(20_000, 3), (3, 20_000), (1, 1), (20_000, 100), (9, 3_000)])
def test_a_ruled_line_has_no_room_for_text_and_is_worth_one_page(size: tuple[int, int]) -> None:
    assert not long_pages.has_room_for_text(*size)
    assert long_pages.pages_worth(*size) == 1


@pytest.mark.parametrize("size", [(595, 842), (1_000, 14_000), (9_000, 300)])
def test_the_middle_is_inside_and_of_a_common_shape(size: tuple[int, int]) -> None:
    left, top, right, bottom = long_pages.middle(*size)
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]
    assert max(right - left, bottom - top) <= 2.5 * min(right - left, bottom - top)
