"""Kept conversions are never the reason why a document is not read."""

from __future__ import annotations

import shutil
from pathlib import Path

from kbsync.store.kept_conversions import KeptConversions


def test_a_folder_that_somebody_removed_is_made_anew_and_fails_no_document(tmp_path: Path) -> None:
    """P18: what was kept is made again; where the data folder itself is away nothing is kept."""
    folder = tmp_path / "data" / "conversions"
    folder.mkdir(parents=True)
    kept = KeptConversions(str(folder))
    kept.keep("ab", "rules", b"text")
    shutil.rmtree(folder)
    kept.sweep(set())
    kept.forget("ab")
    assert (kept.find("ab", "rules"), kept.listed()) == (None, [])
    kept.keep("ab", "rules", b"text")
    assert kept.find("ab", "rules") is not None
    shutil.rmtree(folder.parent)
    kept.keep("ab", "rules", b"text")
    assert not folder.parent.exists()
