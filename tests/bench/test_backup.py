"""The bench of backups, small: under other roots nothing is embedded, converted, told or changed."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import backup


def test_two_hundred_documents_under_other_roots_cost_no_embedding(told: Callable[[str], None]) -> None:
    """D12: a backup on another machine, and a rescan that changes nothing."""
    figures = {figure.name: figure for figure in backup.measure(documents=200, rounds=1)}
    documents, _, stored = figures["backup: documents, chunks, stored files"].values
    assert (documents, stored) == (200, 4)
    nothing = (
        "embeddings made by it",
        "conversions made by it",
        "changes that it told of",
        "rows of the index that differ",
    )
    assert {what: sum(figures[f"restore: {what}"].values) for what in nothing} == dict.fromkeys(nothing, 0)
    seconds = figures["restore: under other roots"].median
    told(f"backup of 200 documents restored under other roots: {seconds:.2f} s, 0 embeddings, 0 changes")
