"""kbsync never reads its own files, under whatever name: an open and close of the database would lose commits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.compose import Engine, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import Settings
from kbsync.errors import SkipFile
from kbsync.filesystem import RealFileSystem, stat_of
from kbsync.model import IngestOptions, Source
from kbsync.reasons import Reason
from kbsync.sources.scanner import judge_path, scan
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams


@pytest.fixture
def opened(tmp_path: Path):  # type: ignore[no-untyped-def]
    engine = open_engine(locate({"KBSYNC_HOME": str(tmp_path / "home")}), Settings(), hashed_seams(HashDevice()))
    yield engine
    engine.close()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_the_database_is_refused_by_hand_and_through_a_hard_link(opened: Engine, tmp_path: Path, ending: str) -> None:
    database = opened.locations.database + ending
    link = tmp_path / f"innocent{ending}.md"
    os.link(database, link)
    for path in (database, str(link)):
        with pytest.raises(SkipFile) as refused:
            opened.kb.adding.add_file(path, IngestOptions(type="text"))
        assert refused.value.reason is Reason.IGNORED
    source = Source(1, str(tmp_path))
    assert [seen.reason for seen in scan(RealFileSystem(), source, opened.own) if seen.path == str(link)] == [
        Reason.IGNORED
    ]


def test_a_source_in_or_below_an_own_folder_is_not_walked(opened: Engine) -> None:
    for folder in (opened.locations.log_dir, opened.locations.documents_dir):
        walk = scan(RealFileSystem(), Source(1, folder), opened.own)
        assert (list(walk), walk.complete) == ([], False)
        assert "kbsync itself" in str(walk.errors[0][1])
        with pytest.raises(PermissionError):
            judge_path(RealFileSystem(), Source(1, folder), opened.own, f"{folder}/a.md")


def test_a_folder_beside_the_own_ones_is_walked(opened: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("quince")
    walk = scan(RealFileSystem(), Source(1, str(tmp_path)), opened.own)
    assert str(tmp_path / "a.md") in [seen.path for seen in walk if seen.reason is None]
    assert stat_of(os.stat(opened.locations.data_dir)).inode in {inode for _, inode in opened.own}
