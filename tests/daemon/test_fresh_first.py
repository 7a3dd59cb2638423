"""A fresh file does not queue up behind a first scan: threads, disk and clock are real, the device is slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbsync.compose import build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from tests.fakes.eventually import eventually
from tests.fakes.file_age import wait_until_old
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams

if TYPE_CHECKING:
    from kbsync.model import Vectors

BATCH_S = 0.4


class SlowDevice(HashDevice):
    """Takes as long for a batch as a processor does, and uses none."""

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        time.sleep(BATCH_S)
        return super().encode(texts, query)


def test_fresh_files_are_found_within_two_seconds_while_a_scan_is_worked(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    for number in range(150):
        text = " ".join(f"item{number}of{word}" for word in range(100))
        (folder / f"bulk-{number}.md").write_text(f"# Bulk {number}\n\n{text}")
    wait_until_old(folder)
    (home / "config.toml").write_text(f'[[sources]]\npath = "{folder}"\n')
    places = locate({"KBSYNC_HOME": str(home)})
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(SlowDevice(batch_tokens=512)))
    daemon = build_daemon(engine)
    times = []
    try:
        daemon.start()
        eventually(lambda: engine.kb.unsettled() > 100)
        for number, word in enumerate(("heron", "bittern", "egret", "stork", "ibis")):
            (folder / f"fresh-{number}.md").write_text(f"The {word} is back.\n")
            written = time.monotonic()
            eventually(lambda word=word: engine.kb.search(word, "lexical").hits)  # type: ignore[misc]
            times.append(time.monotonic() - written)
        left = engine.kb.unsettled()
    finally:
        daemon.stop()
        engine.close()
    assert left > 50, "the scan was nearly over: the times say nothing"
    assert statistics.median(times) < 2.0
