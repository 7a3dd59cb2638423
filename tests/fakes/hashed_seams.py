"""Seams of an engine on the real disk and clock, with real watchers, whose model is a hash of words."""

from __future__ import annotations

from kbsync.clock import SystemClock
from kbsync.compose import Seams
from kbsync.embed.model_files import ModelFiles
from kbsync.filesystem import RealFileSystem
from kbsync.sources.watcher import NativeWatcher
from tests.fakes.hash_embedder import HashDevice, WordCounter
from tests.fakes.reading_cage import ReadingCage


def hashed_seams(device: HashDevice) -> Seams:
    return Seams(
        RealFileSystem(),
        SystemClock(),
        ModelFiles("", "hashed words", 16, 64, frozenset(), "", "", "hashed-words-16"),
        WordCounter(),
        lambda: [device],
        NativeWatcher,
        lambda _slots, _folder: ReadingCage(),
    )
