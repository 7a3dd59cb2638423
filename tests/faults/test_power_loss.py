"""P13: whenever the power goes, with unsynced writes dropped, reordered and torn, nothing acknowledged is lost.

The controls show that the losses of this disk are real: told to wait for it less, the same database is damaged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from unittest import mock

import pytest

from kbsync.config import locations
from kbsync.store import stored_files
from tests.faults.power_lives import Waiting, migrated, played
from tests.faults.power_log import DiskLog
from tests.faults.power_loss import Recorded, lose_power
from tests.faults.power_loss_copies import taken_in

SEED = 1
Play = Callable[[str, Waiting], Recorded]


@pytest.mark.parametrize(
    ("play", "images", "seed"),
    [(played, 30, 1), (played, 190, 2), (played, 190, 3), (migrated, 40, 1), (taken_in, 50, 1)],
)
def test_nothing_is_damaged_or_lost(
    play: Play, images: int, seed: int, told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    counts, wrong = lose_power(play, "FULL", images, seed)
    tally(power_loss_images=counts.images, lost=counts.harmed)
    told(f"T5 {play.__name__}: {counts}, seed {seed}")
    assert wrong == []
    assert counts.images == images


@pytest.mark.parametrize("play", [played, migrated])
def test_a_database_that_does_not_wait_for_the_disk_is_damaged(play: Play, told: Callable[[str], None]) -> None:
    counts, _wrong = lose_power(play, "OFF", 40, SEED)
    told(f"T5 control, {play.__name__} with synchronous = OFF: {counts}")
    assert counts.corrupt > 0


def test_one_that_waits_at_checkpoints_only_loses_what_it_acknowledged(told: Callable[[str], None]) -> None:
    counts, _wrong = lose_power(played, "NORMAL", 40, SEED)
    told(f"T5 control, played with synchronous = NORMAL: {counts}")
    assert counts.lost > 0
    assert (counts.corrupt, counts.mixed, counts.newer) == (0, 0, 0)


@pytest.mark.parametrize(("module", "step"), [(stored_files, "sync_folder"), (locations, "sync_names")])
def test_copies_whose_names_are_not_synced_are_lost(module: ModuleType, step: str, told: Callable[[str], None]) -> None:
    with mock.patch.object(module, step):
        counts, _wrong = lose_power(taken_in, "FULL", 15, SEED)
    told(f"T5 control, taken_in without {step}: {counts}")
    assert counts.lost > 0


def test_what_was_synced_is_there_and_what_was_not_may_be() -> None:
    log = DiskLog({"/data/old": b"old"})
    new = log.create("/data/new")
    log.write(new, 0, b"a" * 1024)
    log.sync(new)
    log.sync_folder("/data")
    log.write(new, 100, b"b" * 1024)
    log.truncate(log.names["/data/old"], 1)
    log.rename("/data/new", "/data/renamed")
    images = [image for seed in range(200) for _point, image in log.images([len(log)], seed)]
    found = [image.get("/data/renamed", image.get("/data/new", b"")) for image in images]
    assert {content[:100] for content in found} == {b"a" * 100}
    assert {image["/data/old"] for image in images} == {b"old", b"o"}
    assert {image.keys() - {"/data/old"} == {"/data/new"} for image in images} == {True, False}
    # Each of the three sectors by itself, or the write as a whole.
    tears = {(content[100:101], content[512:513], content[1024:1025]) for content in found}
    assert tears == set(itertools.product((b"a", b"b"), (b"a", b"b"), (b"", b"b")))


def test_nothing_is_there_of_a_folder_whose_name_was_lost() -> None:
    log = DiskLog()
    log.make_folder("/data/copies")
    file = log.create("/data/copies/a")
    log.write(file, 0, b"apples")
    log.sync(file)
    log.sync_folder("/data/copies")
    found = {tuple(image.items()) for seed in range(50) for _point, image in log.images([len(log)], seed)}
    assert found == {(), (("/data/copies/a", b"apples"),)}
    log.sync_folder("/data")
    found = {tuple(image.items()) for seed in range(50) for _point, image in log.images([len(log)], seed)}
    assert found == {(("/data/copies/a", b"apples"),)}
