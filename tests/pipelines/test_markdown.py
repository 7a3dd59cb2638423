"""Markdown: sections, chains, merging, front matter, long sections and parts."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from kbsync.model import ChunkLimits, Parsed, Piece
from kbsync.pipelines import router
from kbsync.pipelines.enrich import make_chunks
from tests.fakes.word_counter import WordCounter

COUNTER = WordCounter()
# Every section of the small examples stands by itself.
APART = ChunkLimits(min_tokens=1, max_tokens=256)


def read(text: str, limits: ChunkLimits = APART, name: str = "file.md") -> Parsed:
    return router.convert(text.encode(), "markdown", None, name, limits, COUNTER)


def shown(text: str, limits: ChunkLimits = APART) -> list[tuple[str | None, str]]:
    return [(piece.section_header, piece.text) for piece in read(text, limits).pieces]


def assert_covered(text: str, pieces: tuple[Piece, ...]) -> None:
    covered = {line for piece in pieces for line in range(piece.first_line or 0, (piece.last_line or 0) + 1)}
    missing = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() and number not in covered]
    assert missing == []


def assert_within(parsed: Parsed, limits: ChunkLimits, name: str = "file.md") -> None:
    chunks = make_chunks(parsed, router.title_of(parsed, name), COUNTER)
    assert max(chunk.token_count for chunk in chunks) <= limits.max_tokens


def words(count: int, start: int = 0) -> str:
    return " ".join(f"w{number}" for number in range(start, start + count))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("## A\n\none\n\n## B\n\ntwo\n", [("A", "one"), ("B", "two")]),
        ("# Title\n\nintro\n\n## A\n\none", [(None, "intro"), ("A", "one")]),
        ("## Config\n\nc\n\n### Advanced Options\n\nao", [("Config", "c"), ("Config > Advanced Options", "ao")]),
        ("## Config\n\n### Advanced Options\n\nao", [("Config > Advanced Options", "ao")]),
        ("## A\n\n### B\n\nb\n\n## C\n\nc\n\n### D\n\nd", [("A > B", "b"), ("C", "c"), ("C > D", "d")]),
        ("### Deep first\n\nx\n\n## Then\n\ny", [("Deep first", "x"), ("Then", "y")]),
        ("## A\n\n#### Deeper\n\nstays", [("A", "#### Deeper\n\nstays")]),
        ("# One\n\na\n\n# Two\n\nb\n\n## C\n\nc", [("One", "a"), ("Two", "b"), ("Two > C", "c")]),
        ("## A ##\n\none\n\n##\tB\n\ntwo\n\n   ## C\n\nthree", [("A", "one"), ("B", "two"), ("C", "three")]),
        ("## A { #anchor }\n\none", [("A", "one")]),
        ("## C#\n\nsharp", [("C#", "sharp")]),
        ("Setext one\n===\n\na\n\nSetext two\n---\n\nb", [(None, "a"), ("Setext two", "b")]),
        ("text\n\n---\n\nmore", [(None, "text\n\n---\n\nmore")]),
        ("- item\n---\nmore", [(None, "- item\n---\nmore")]),
        ("#hashtag\n####### seven\n\\# no", [(None, "#hashtag\n####### seven\n\\# no")]),
        ("    ## code\n\nx", [(None, "    ## code\n\nx")]),
        ("before\n\n# Title\n\nafter", [(None, "before\n\n# Title\n\nafter")]),
        ("<!-- ## hidden\n\n## too -->\nx", [(None, "<!-- ## hidden\n\n## too -->\nx")]),
        ("<pre>\n## no\n\n## no\n</pre>\nx", [(None, "<pre>\n## no\n\n## no\n</pre>\nx")]),
        ("<!-- open\n## A\n\nx", [(None, "<!-- open"), ("A", "x")]),
        ("<script>\n## no\n</script>\n## A\n\nx", [(None, "<script>\n## no\n</script>"), ("A", "x")]),
        ("<style>\n# no\n</style>\n<prefer>\n## A\n\nx", [(None, "<style>\n# no\n</style>\n<prefer>"), ("A", "x")]),
        ("|a|b|\n|-|-|\n|1|2|\n## A\n\nx", [(None, "|a|b|\n|-|-|\n|1|2|"), ("A", "x")]),
        ("|a|b|\n|-|-|\n|1|2|\n```\n## no\n```", [(None, "|a|b|\n|-|-|\n|1|2|\n```\n## no\n```")]),
        ("a | b\n---\n\nx", [("a | b", "x")]),
        ("## A\r\n\r\none\r\n\r\n```\r\n# no\r\n```\r\n## B\r\n\r\nx", [("A", "one\n\n```\n# no\n```"), ("B", "x")]),
        ("no headers at all", [(None, "no headers at all")]),
    ],
)
def test_sections_begin_at_headers_and_carry_their_chain(text: str, pieces: list[tuple[str | None, str]]) -> None:
    assert shown(text) == pieces
    assert_covered(text, read(text).pieces)


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "  ```"])
def test_headers_inside_fences_are_no_headers(fence: str) -> None:
    text = f"## A\n\n{fence}bash\n# install\n\n## run\n{fence}\n\nafter\n\n## B\n\nx"
    assert [piece.section_header for piece in read(text).pieces] == ["A", "B"]


@pytest.mark.parametrize(
    "fence",
    [
        "- item\n\n  ```sh\n  ## no\n  ```",
        "- ```sh\n  ## no\n  ```",
        "1. - ~~~\n     ## no\n     ~~~",
        "* item\n  ```\n## sloppy\n  ```",
        "> ```\n> ## no\n> ```",
        "> ```\n> never closed",
        "- ```\n  never closed",
        "- item\n\n  ~~~\n  never closed\n\n  either",
        "```\n## a\n``` closes nothing\n## b\n```",
        "``` `inline` ```",
        "~~~~ `info`\n```\n## a\n~~~\n## b\n~~~~",
    ],
)
def test_a_fence_in_a_list_or_quotation_ends_with_it_and_hides_no_header_after_it(fence: str) -> None:
    assert shown(f"{fence}\n\n## B\n\nx") == [(None, fence), ("B", "x")]


@pytest.mark.parametrize(("before", "row", "after"), [("- ```sh", "  x{}", "  ```"), ("> ~~~", "> x{}", "> ~~~")])
def test_a_long_fence_in_a_list_or_quotation_becomes_parts_too(before: str, row: str, after: str) -> None:
    rows = [row.format(number) for number in range(100)]
    pieces = read("\n".join([before, *rows, after]), ChunkLimits(max_tokens=60)).pieces
    assert [piece.metadata["part"] for piece in pieces] == [f"{n}/{len(pieces)}" for n in range(1, len(pieces) + 1)]
    assert [shown for piece in pieces for shown in piece.text.split("\n")[1:-1]] == rows
    assert {(piece.text.split("\n")[0], piece.text.split("\n")[-1]) for piece in pieces} == {(before, after)}


def test_a_shorter_or_other_fence_does_not_close_one() -> None:
    text = "````\n```\n## a\n~~~~\n```\n````\n\n## B\n\nx"
    assert [piece.section_header for piece in read(text).pieces] == [None, "B"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# A title\n\nx", "A title"),
        ("A title\n=======\n\nx", "A title"),
        ("# One\n\nx\n\n# Two\n\ny", "One"),
        ("---\ntitle: From the front\n---\n# A title\n\nx", "From the front"),
        ("## Only a section\n\nx", None),
        ("```\n# comment\n```\n", None),
    ],
)
def test_the_title_is_front_matter_then_the_first_header(text: str, title: str | None) -> None:
    assert read(text).title == title


def test_front_matter_becomes_metadata_and_another_first_header_stays_findable() -> None:
    text = "---\ntitle: From the front\ntags: [a, b]\n---\n\n# Another title\n\nintro words\n\n## A\n\none"
    parsed = read(text)
    assert [parsed.metadata[key] for key in ("title", "tags")] == ["From the front", ["a", "b"]]
    assert [piece.section_header for piece in parsed.pieces] == ["Another title", "Another title > A"]
    assert_covered(text, parsed.pieces)


@pytest.mark.parametrize("title", ["Short one", words(100)], ids=["short", "too long for a chunk"])
def test_a_title_that_chunks_do_not_show_in_full_stays_in_the_text(title: str) -> None:
    by_hand = None if len(title) > 80 else "Set by hand"
    for text in (f"---\ntitle: {title}\n---\n\nintro", f"# {title}\n\nintro", f"{title}\n===\n\nintro"):
        parsed = router.convert(text.encode(), "markdown", None, "file.md", ChunkLimits(), COUNTER, by_hand)
        assert title in parsed.pieces[0].text
        assert_covered(text, parsed.pieces)


def test_front_matter_that_is_none_stays_in_the_text() -> None:
    for front in ("---\nJust a line between rules.\n---", "---\na: 1\nnot a setting\n---", "---\ntitle: never closed"):
        (piece,) = read(f"{front}\n\nbody").pieces
        assert piece.text == f"{front}\n\nbody"


def test_a_file_of_front_matter_only_keeps_its_text() -> None:
    (piece,) = read("---\ntitle: Alone\n---\n").pieces
    assert "title: Alone" in piece.text


SMALL = ChunkLimits(min_tokens=5, max_tokens=256)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        # The small one is an ancestor of the next: the next one's chain.
        ("## A\n\nsmall\n\n### B\n\n1 2 3 4 5 6", [("A > B", "## A\n\nsmall\n\n### B\n\n1 2 3 4 5 6")]),
        ("# T\n\nintro\n\n## A\n\n1 2 3 4 5 6", [("A", "intro\n\n## A\n\n1 2 3 4 5 6")]),
        # Else what they have in common.
        ("## A\n\nsmall\n\n## B\n\n1 2 3 4 5 6", [(None, "## A\n\nsmall\n\n## B\n\n1 2 3 4 5 6")]),
        (
            "## A\n\n### B\n\nsmall\n\n### C\n\n1 2 3 4 5 6",
            [("A", "## A\n\n### B\n\nsmall\n\n### C\n\n1 2 3 4 5 6")],
        ),
        ("## A\n\n### B\n\nsmall\n\n## A\n\n1 2 3 4 5 6", [("A", "## A\n\n### B\n\nsmall\n\n## A\n\n1 2 3 4 5 6")]),
        # Enough together: the next one stands by itself again.
        (
            "## A\n\n1 2 3\n\n## B\n\n4 5 6\n\n## C\n\n1 2 3 4 5 6",
            [(None, "## A\n\n1 2 3\n\n## B\n\n4 5 6"), ("C", "1 2 3 4 5 6")],
        ),
        # The last small one stays alone.
        ("## A\n\n1 2 3 4 5 6\n\n## B\n\nsmall", [("A", "1 2 3 4 5 6"), ("B", "small")]),
        # Headers without body are no sections, and their words are kept.
        ("## Empty\n\n## B\n\n1 2 3 4 5 6", [("B", "## Empty\n\n## B\n\n1 2 3 4 5 6")]),
        ("## A\n\n1 2 3 4 5 6\n\n## Last", [("A", "1 2 3 4 5 6\n\n## Last")]),
        ("# T\n\n## Only\n\n### Headers", [(None, "# T\n\n## Only\n\n### Headers")]),
    ],
)
def test_small_sections_are_merged_with_the_next(text: str, pieces: list[tuple[str | None, str]]) -> None:
    assert shown(text, SMALL) == pieces
    assert_covered(text, read(text, SMALL).pieces)


def test_a_plain_file_without_headers_is_cut_to_size_with_overlap() -> None:
    limits = ChunkLimits(max_tokens=40, overlap_tokens=8)
    text = " ".join(f"Sentence {number} is here." for number in range(60))
    parsed = read(text, limits, name="notes.txt")
    assert len(parsed.pieces) > 5
    assert_within(parsed, limits, "notes.txt")
    for before, after in pairwise(parsed.pieces):
        assert before.text.split(". ")[-1] in after.text


def test_a_long_section_is_cut_at_paragraphs_and_keeps_its_chain() -> None:
    limits = ChunkLimits(min_tokens=5, max_tokens=60, overlap_tokens=0)
    paragraphs = [f"{words(20, 100 * number)}." for number in range(8)]
    text = "# T\n\n## A\n\n" + "\n\n".join(paragraphs) + "\n\n## B\n\n" + words(10)
    parsed = read(text, limits)
    assert [piece.section_header for piece in parsed.pieces] == ["A", "A", "A", "A", "B"]
    assert [piece.text.split("\n\n") for piece in parsed.pieces[:4]] == [paragraphs[i : i + 2] for i in range(0, 8, 2)]
    assert_covered(text, parsed.pieces)
    assert_within(parsed, limits)


def test_pieces_of_a_merged_section_past_the_small_one_carry_their_own_chain() -> None:
    limits = ChunkLimits(min_tokens=5, max_tokens=40, overlap_tokens=0)
    text = "## A\n\nsmall\n\n## B\n\n" + "\n\n".join(f"{words(20, 100 * number)}." for number in range(3))
    assert [piece.section_header for piece in read(text, limits).pieces] == [None, "B", "B"]


def test_a_long_fence_is_cut_at_lines_into_numbered_parts() -> None:
    limits = ChunkLimits(min_tokens=5, max_tokens=60)
    rows = [f"line {number} of code" for number in range(60)]
    text = "## A\n\nBefore it.\n\n```python\n" + "\n".join(rows) + "\n```\n\nAfter it.\n"
    parsed = read(text, limits)
    parts = [piece for piece in parsed.pieces if piece.kind == "code"]
    assert [piece.metadata["part"] for piece in parts] == [f"{n}/{len(parts)}" for n in range(1, len(parts) + 1)]
    assert all(piece.text.startswith("```python\n") and piece.text.endswith("\n```") for piece in parts)
    assert [row for piece in parts for row in piece.text.split("\n")[1:-1]] == rows
    assert (parsed.pieces[0].text, parsed.pieces[-1].text) == ("Before it.", "After it.")
    assert_covered(text, parsed.pieces)
    assert_within(parsed, limits)


def test_a_long_table_is_cut_at_rows_and_repeats_its_header() -> None:
    limits = ChunkLimits(min_tokens=5, max_tokens=60)
    rows = [f"| item{number} | {number} |" for number in range(60)]
    text = "## A\n\n| name | price |\n|------|-------|\n" + "\n".join(rows) + "\n"
    parsed = read(text, limits)
    assert len(parsed.pieces) > 5
    assert all(piece.text.startswith("| name | price |\n|------|-------|\n| item") for piece in parsed.pieces)
    assert [row for piece in parsed.pieces for row in piece.text.split("\n")[2:]] == rows
    assert {piece.kind for piece in parsed.pieces} == {"table"}
    assert_covered(text, parsed.pieces)
    assert_within(parsed, limits)


@pytest.mark.parametrize(
    "text",
    [
        "# " + words(500) + "\n\nbody of it\n\n## A\n\nmore",
        "# T\n\n## " + words(500) + "\n\nbody of it",
        "# T\n\n## " + words(500) + "\n\n### " + words(500, 1000) + "\n\nbody of it",
        "```" + words(500) + "\ncode\n```",
        "| " + words(500) + " | b |\n|---|---|\n" + "| 1 | 2 |\n" * 50,
        "## A\n\n" + words(2000),
        "---\ntitle: " + words(500) + "\n---\nbody of it",
    ],
    ids=["title", "header", "chain", "fence", "table", "paragraph", "front matter"],
)
def test_absurdly_long_lines_lose_nothing_and_stay_within_the_limit(text: str) -> None:
    limits = ChunkLimits(max_tokens=64)
    parsed = read(text, limits)
    found = set(
        " ".join([*map(str, parsed.metadata.values()), *(piece.text for piece in parsed.pieces)])
        .replace("```", "")
        .split()
    )
    assert [word for word in text.split() if word.startswith("w") and word not in found and word != "w499"] == []
    assert_covered(text, parsed.pieces)
    assert_within(parsed, limits)


@pytest.mark.parametrize("edit", ["word", "paragraph", "nothing", "fence"])
def test_editing_one_section_leaves_the_pieces_of_all_others_as_they_are(edit: str) -> None:
    limits = ChunkLimits(min_tokens=20, max_tokens=80)
    sections = [
        f"## S{number}\n\n" + "\n\n".join(f"{words(30, 1000 * number + 100 * p)}." for p in range(4))
        for number in range(20)
    ]
    changed = {
        "word": sections[7].replace("w7000 ", "other "),
        "paragraph": sections[7] + f"\n\n{words(50, 90_000)}.",
        "nothing": "## S7\n\n" + words(21),
        "fence": sections[7] + "\n\n```\n" + "## not\n" * 50 + "```",
    }[edit]
    before = shown("# T\n\n" + "\n\n".join(sections), limits)
    after = shown("# T\n\n" + "\n\n".join([*sections[:7], changed, *sections[8:]]), limits)
    assert after != before
    assert [piece for piece in after if piece[0] != "S7"] == [piece for piece in before if piece[0] != "S7"]


@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_of_blocks_is_covered_and_within_the_limit(seed: int) -> None:
    chance = random.Random(seed)
    blocks: list[Callable[[], str]] = [
        lambda: "#" * chance.randint(1, 6) + " " + words(chance.choice([1, 3, 40]), chance.randint(0, 99)),
        lambda: words(chance.choice([1, 5, 60, 200])) + ".",
        lambda: "```\n" + "\n".join(["x = 1", "", "# y"] * chance.choice([1, 30])) + "\n```",
        lambda: "| a | b |\n|--|--|\n" + "| 1 | 2 |\n" * chance.choice([0, 2, 60]),
        lambda: "索引总是正确的。" * chance.choice([1, 30]),
        lambda: "Heading\n---",
        lambda: "```",
        lambda: "<!-- x",
        lambda: "- " + "\n- ".join(words(4).split()),
        lambda: "x" * chance.choice([10, 5000]),
    ]
    text = "\n\n".join(chance.choice(blocks)() for _ in range(chance.randint(1, 40)))
    limits = ChunkLimits(min_tokens=chance.choice([1, 10, 40]), max_tokens=chance.choice([64, 128]), overlap_tokens=16)
    parsed = read(text, limits)
    assert_covered(text, parsed.pieces)
    assert_within(parsed, limits)
    assert all(piece.text.strip() for piece in parsed.pieces)
    found = " ".join([parsed.title or "", *(f"{piece.section_header} {piece.text}" for piece in parsed.pieces)])
    missing = _words_of(text) - _words_of(found)
    assert missing <= {"---", "x" * 5000}  # a setext header's line, a word beyond the limit


def _words_of(text: str) -> set[str]:
    return set(text.replace("#", " ").replace("。", "。 ").split())


@pytest.mark.parametrize(
    "text",
    [
        "> " * 20_000,
        ">\n" * 20_000,
        "[" * 50_000,
        "*a " * 100_000,
        "!" * 500_000,
        "a" + " " * 500_000 + "b",
        "word " * 100_000,
        "Word. " * 150_000,
        "x" * 2_000_000,
        "e" + "\u0301" * 150_000,
        "\U0001f468\u200d" * 100_000,
        "## a\n" * 20_000,
        "```\n" * 20_001,
        "<pre>\n<!--\n" * 20_000,
        "#### a\n\n" * 20_000,
        "a\n---\n" * 20_000,
        "  ```a\nx\n" * 20_000,
        "- ```\n" * 20_001,
        "> ```\n\n" * 20_000,
        "|a|\n|-|\n" * 20_000,
    ],
    ids=lambda text: repr(text[:6]),
)
@pytest.mark.timeout(20)  # quadratic work would take minutes
def test_hostile_texts_take_linear_time(text: str) -> None:
    parsed = read(text, ChunkLimits(max_chunks=200))
    assert 0 < len(parsed.pieces) <= 200
    assert max(len(piece.text) for piece in parsed.pieces) <= 256 * 32
