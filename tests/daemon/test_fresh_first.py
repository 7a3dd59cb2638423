"""A fresh file does not queue up behind a first scan: threads, disk and clock are real, the device works when told."""

from __future__ import annotations

from pathlib import Path

from kbsync.compose import build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.model import Change
from tests.fakes.eventually import eventually
from tests.fakes.file_age import wait_until_old
from tests.fakes.hash_embedder import GatedDevice
from tests.fakes.hashed_seams import hashed_seams
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

BULK = 150
SCANNED, FRESH = f"{NOTES}/scanned.md", f"{NOTES}/fresh.md"
BIRDS = ("heron", "bittern", "egret", "stork", "ibis")


def words(stem: str, count: int) -> str:
    return " ".join(f"{stem}of{number}" for number in range(count))


def test_fresh_files_are_found_while_most_of_a_scan_is_still_to_be_worked(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    for number in range(BULK):
        (folder / f"bulk-{number}.md").write_text(words(f"item{number}", 40))
    wait_until_old(folder)
    (home / "config.toml").write_text(f'[[sources]]\npath = "{folder}"\n')
    places = locate({"KBSYNC_HOME": str(home)})
    device = GatedDevice(batch_tokens=40)  # one file a batch
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(device))
    daemon = build_daemon(engine)

    def all_found() -> bool:
        return all(engine.kb.search(f"{bird}of0", "lexical").hits for bird in BIRDS)

    try:
        daemon.start()
        eventually(lambda: engine.kb.unsettled() == BULK)
        for bird in BIRDS:
            (folder / f"{bird}.md").write_text(words(bird, 80))  # larger: of a scan the small files go first
        eventually(lambda: engine.kb.unsettled() == BULK + len(BIRDS))
        while not all_found():
            assert device.begun.acquire(timeout=20)
            device.gate.release()
        left = engine.kb.unsettled()
    finally:
        device.gate.release(10 * BULK)
        daemon.stop()
        engine.close()
    # Only what waited for its vectors already went before.
    assert left > BULK / 2


def test_a_worker_kept_free_takes_fresh_changes_only(engine: SimulatedEngine) -> None:
    spare = engine.loops.workers[-1]
    engine.fs.write(SCANNED, b"quince")
    engine.clock.advance(10)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    assert not spare.step()
    source = engine.watchers[-1].source
    engine.fs.write(FRESH, b"medlar")
    engine.loops.producer.take(Change(source.id, FRESH, closed=True))
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    assert spare.step()
    assert engine.found("medlar") == [FRESH]
    assert engine.found("quince") == []
