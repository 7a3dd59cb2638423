"""From bytes to pieces by type, titles, limits and fingerprints."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from kbsync import file_types
from kbsync.errors import SkipFile
from kbsync.file_types import DocumentType
from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from kbsync.pipelines.enrich import make_chunks
from kbsync.reasons import Reason
from tests.fakes.word_counter import WordCounter

LIMITS = ChunkLimits()


def convert(
    data: bytes, document_type: DocumentType, language: str | None = None, limits: ChunkLimits = LIMITS
) -> Parsed:
    return router.convert(data, document_type, language, "the name.md", limits, WordCounter())


@pytest.mark.parametrize(
    ("document_type", "language", "kind"),
    [
        ("markdown", None, "section"),
        ("text", None, "text"),
        ("code", "python", "module"),
        ("code", "cobol", "module"),
        ("code", None, "module"),
        ("code", "notebook", "data"),
        ("data", None, "data"),
        ("csv", None, "table"),
        ("email", None, "text"),
        ("note", None, "note"),
    ],
)
def test_each_type_has_its_pipeline(document_type: DocumentType, language: str | None, kind: str) -> None:
    assert {piece.kind for piece in convert(b"some words\n", document_type, language).pieces} == {kind}


def test_every_type_that_is_said_to_be_readable_is_read() -> None:
    readable = file_types.READABLE_TYPES & set(router.READER_VERSIONS)
    assert readable >= {"markdown", "text", "code", "data", "csv", "note", "email"}


@pytest.mark.parametrize("document_type", sorted(set(get_args(DocumentType)) - set(router.READER_VERSIONS)))
def test_other_types_are_refused_with_what_is_supported(document_type: DocumentType) -> None:
    with pytest.raises(SkipFile) as refused:
        convert(b"x", document_type)
    assert refused.value.reason is Reason.UNSUPPORTED
    assert ".md" in str(refused.value)


@pytest.mark.parametrize(
    ("title", "name", "expected"),
    [
        ("From content", "x.md", "From content"),
        (None, "report 2024.final.md", "report 2024.final"),
        (None, "/folder/guide.md", "guide"),
        (None, ".bashrc", ".bashrc"),
        (None, "a\nb.md", "a b"),
        (None, "bad\udcff.md", "bad\ufffd"),
        (None, "", "untitled"),
    ],
)
def test_the_title_is_the_contents_or_the_names(title: str | None, name: str, expected: str) -> None:
    assert router.title_of(Parsed((), title=title), name) == expected


def test_a_very_long_name_leaves_room_for_text() -> None:
    name = "가" * 80 + ".txt"
    parsed = router.convert(b"word " * 600, "text", None, name, LIMITS, WordCounter())
    chunks = make_chunks(parsed, router.title_of(parsed, name), WordCounter())
    assert max(chunk.token_count for chunk in chunks) <= LIMITS.max_tokens
    assert len(chunks) < 10


def test_text_beyond_the_limit_is_read_from_its_start() -> None:
    paragraph = "索引总是正确的。" * 40 + "\n\n"
    data = ("x" + paragraph * (router.MAX_TEXT_BYTES // len(paragraph.encode()) + 1)).encode()
    limits = replace(LIMITS, max_chunks=20)
    parsed = convert(data, "markdown", limits=limits)
    assert parsed.truncated
    assert parsed.pieces[0].text.startswith("x索引总是正确的。")
    assert "\ufffd" not in "".join(piece.text for piece in parsed.pieces)


@pytest.mark.parametrize(
    ("document_type", "language", "data"),
    [
        ("markdown", None, b"## A\n\nsome text here\n\n" * 100),
        ("text", None, b"some words. " * 3000),
        ("code", "python", b"def f():\n    return 1\n\n" * 100),
        ("csv", None, b"a,b\n" * 3000),
    ],
)
def test_more_pieces_than_the_limit_are_cut_and_said(
    document_type: DocumentType, language: str | None, data: bytes
) -> None:
    limits = ChunkLimits(min_tokens=1, max_tokens=64, max_chunks=7)
    parsed = convert(data, document_type, language, limits)
    assert (len(parsed.pieces), parsed.truncated) == (7, True)
    assert not convert(data, document_type, language, replace(limits, max_chunks=5000)).truncated


def test_fingerprints_change_with_the_rules() -> None:
    types: tuple[DocumentType, ...] = ("markdown", "text", "code", "data", "csv", "note", "email")
    assert len({router.converter_fingerprint(document_type) for document_type in types}) == len(types)
    changed = [
        LIMITS,
        replace(LIMITS, min_tokens=1),
        replace(LIMITS, max_tokens=99),
        replace(LIMITS, overlap_tokens=1),
        replace(LIMITS, include_context=False),
        replace(LIMITS, max_chunks=9),
    ]
    assert len({router.chunker_fingerprint(limits) for limits in changed}) == len(changed)
    assert router.chunker_fingerprint(LIMITS) == router.chunker_fingerprint(ChunkLimits())
