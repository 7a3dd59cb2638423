"""Sources of whole distributions: every line of theirs is in a chunk, no chunk is longer than the embedder reads."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.model import ChunkLimits, Parsed, Piece
from kbsync.pipelines import router
from kbsync.pipelines.decode import decode
from kbsync.pipelines.enrich import make_chunks
from tests.pipelines.conftest import TOKENIZER

LIMITS = ChunkLimits()
# Where Debian's packages put shell scripts; their own installation scripts are there on the smallest system.
SHELL_PLACES = ("/usr/bin/*", "/usr/sbin/*", "/usr/share/*/*.sh", "/etc/init.d/*", "/var/lib/dpkg/info/*")
SHELLS = {b"sh", b"bash", b"dash"}
GO_PLACES = "usr/share/go-*/src/**/*.go"  # golang-src
WANTED = {"python": 200, "bash": 50, "go": 50}
LONGEST_WORD = 100  # a longer one may be cut in two


def python_files() -> Iterator[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in library.rglob("*.py"):
        if not {"site-packages", "test", "tests", "idle_test"} & set(path.parts) and path.read_bytes().strip():
            yield path


def shell_files() -> Iterator[Path]:
    for place in SHELL_PLACES:
        for path in Path("/").glob(place.lstrip("/")):
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                with path.open("rb") as file:
                    first = file.readline(100).split()
                if first and first[0].startswith(b"#!") and first[0].rpartition(b"/")[2] in SHELLS:
                    yield path


def go_files() -> Iterator[Path]:
    yield from (path for path in Path("/").glob(GO_PLACES) if "testdata" not in path.parts)


FILES = {"python": python_files, "bash": shell_files, "go": go_files}


def chosen(language: str) -> list[Path]:
    """Return as many files as are wanted: shell scripts from the longest on, others evenly spaced among their paths."""
    found, wanted = sorted(set(FILES[language]())), WANTED[language]
    if len(found) < wanted:
        message = f"{len(found)} of the {wanted} {language} files that are wanted were found on this machine"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{message}; .ci/run brings them")
        pytest.skip(message)
    if language == "bash":  # most of them have a few lines and no function
        return sorted(found, key=lambda path: path.stat().st_size, reverse=True)[:wanted]
    return [found[index * len(found) // wanted] for index in range(wanted)]


def not_shown(text: str, parsed: Parsed) -> list[int]:
    """Return the lines that no chunk holds, or only one that does not show all of their words."""
    rows = text.removesuffix("\n").split("\n")
    holding: list[list[Piece]] = [[] for _ in range(len(rows) + 1)]
    for piece in parsed.pieces:
        assert piece.first_line is not None
        assert piece.last_line is not None
        for number in range(piece.first_line, piece.last_line + 1):
            holding[number].append(piece)
    return [number for number, row in enumerate(rows, 1) if not is_shown(row, holding[number])]


def is_shown(row: str, pieces: list[Piece]) -> bool:
    if not row.strip() or any(row.strip() in piece.text for piece in pieces):
        return bool(pieces)
    words = [word for word in row.split() if len(word) <= LONGEST_WORD]
    return all(any(word in piece.text for piece in pieces) for word in words)


@pytest.mark.parametrize("language", list(WANTED))
def test_every_line_is_in_a_chunk_and_no_chunk_is_above_the_limit(language: str, told: Callable[[str], None]) -> None:
    counter, model = HuggingFaceCounter(str(TOKENIZER)), Tokenizer.from_file(str(TOKENIZER))
    model.no_truncation()
    model.no_padding()
    lines = chunks = longest = 0
    named: set[str] = set()
    missing: dict[str, list[int]] = {}
    paths = chosen(language)
    for path in paths:
        text = decode(path.read_bytes())
        parsed = router.convert(path.read_bytes(), "code", language, path.name, LIMITS, counter)
        assert not parsed.truncated, path
        made = make_chunks(parsed, router.title_of(parsed, path.name), counter)
        encodings = model.encode_batch([chunk.enriched_text for chunk in made], add_special_tokens=False)
        assert [len(encoding) for encoding in encodings] == [chunk.token_count for chunk in made], path
        if numbers := not_shown(text, parsed):
            missing[str(path)] = numbers
        named.update(str(path) for piece in parsed.pieces if piece.section_header)
        lines += text.removesuffix("\n").count("\n") + 1
        chunks += len(made)
        longest = max(longest, *(chunk.token_count for chunk in made))
    told(
        f"{language}: {len(paths)} files ({len(named)} with functions), {lines} lines, {chunks} chunks, "
        f"the longest of {longest} tokens, {len(missing)} files with lines in none"
    )
    assert missing == {}
    assert longest <= LIMITS.max_tokens


def test_a_line_that_is_lost_or_only_counted_is_seen() -> None:
    text = "one line\nanother line\nlast\n"
    assert not_shown(text, Parsed((Piece("one line", "module", None, 1, 1), Piece("last", "module", None, 2, 3)))) == [
        2
    ]
    assert not_shown(text, Parsed((Piece(text, "module", None, 1, 2),))) == [3]
