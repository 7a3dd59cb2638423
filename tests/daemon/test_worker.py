"""How a job ends: done, skipped, failed, tried again; one bad file costs one job, and a late answer is dropped."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kbsync.errors import RetryLater, StorageUnavailable
from kbsync.queue.backoff import MAX_ATTEMPTS, delay
from kbsync.queue.job_queue import STORAGE_DELAYS_S
from kbsync.reasons import FileState, Reason
from tests.fakes.acting_device import ActingDevice
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PATH = f"{NOTES}/first.md"
OTHER = f"{NOTES}/second.md"
INDEXED = (FileState.INDEXED, None)


class Killed(BaseException):
    """The process ends here; nothing after it runs."""


@pytest.fixture
def device() -> ActingDevice:
    return ActingDevice()


@pytest.fixture
def world(tmp_path: Path, device: ActingDevice) -> World:
    world = World.new(tmp_path / "home", device)
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    return world


def _errors(world: World) -> list[dict[str, str]]:
    try:
        text = Path(world.locations.error_log).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def _once(action: Callable[[], None]) -> Callable[[Sequence[str]], None]:
    done: list[bool] = []

    def act(texts: Sequence[str]) -> None:
        if not done:
            done.append(True)
            action()

    return act


# ---- the file changes under the work ----


def test_the_late_answer_for_a_file_that_changed_while_it_was_processed_is_dropped(
    engine: SimulatedEngine, device: ActingDevice
) -> None:
    """P10: the job has another generation by then."""

    def change() -> None:
        engine.write(PATH, "medlar")
        engine.loops.producer.step()
        engine.clock.advance(2.0)
        engine.loops.producer.step()

    device.before = _once(change)
    engine.write(PATH, "quince")
    engine.settle()
    assert engine.found("medlar") == [PATH]
    assert engine.documents() == [(1, "first", "current")], "what was never true after its commit was never written"
    assert engine.read("SELECT state, attempts, generation FROM jobs") == [("done", 1, 2)]


def test_a_change_that_nobody_told_while_it_was_processed_is_found_by_the_next_walk(
    engine: SimulatedEngine, device: ActingDevice
) -> None:
    device.before = _once(lambda: engine.fs.write(PATH, b"medlar"))
    engine.write(PATH, "quince")
    engine.settle()
    engine.rescan()
    assert engine.found("medlar") == [PATH]
    assert engine.found("quince") == []


def test_a_file_that_vanished_before_it_was_read_ends_its_job_without_a_verdict(engine: SimulatedEngine) -> None:
    engine.write(OTHER, "medlar")
    engine.settle()
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    assert engine.state(PATH) == (FileState.WAITING, Reason.QUEUED)
    engine.fs.remove(PATH)
    engine.settle()
    assert engine.state(PATH)[0] is FileState.GONE
    of_path = "SELECT state, reason FROM jobs WHERE path = ? ORDER BY id DESC LIMIT 1"
    assert engine.read(of_path, os.fsencode(PATH)) == [("skipped", "gone")]
    assert _errors(engine.world) == []


def test_a_file_removed_while_it_was_processed_is_hidden(engine: SimulatedEngine, device: ActingDevice) -> None:
    engine.write(OTHER, "medlar")
    engine.settle()
    device.before = _once(lambda: engine.remove(PATH))
    engine.write(PATH, "quince")
    engine.settle()
    assert engine.found("quince") == []
    assert engine.state(PATH)[0] is FileState.GONE


# ---- what is not for the index ----


def test_a_file_that_may_not_be_read_has_failed_and_its_old_version_stays(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.fs.fail(PATH, PermissionError(errno.EACCES, "Permission denied"))
    engine.write(PATH, "medlar")
    engine.settle()
    assert engine.state(PATH) == (FileState.FAILED, Reason.PERMISSION)
    assert engine.found("quince") == [PATH]
    assert [line["path"] for line in _errors(engine.world)] == [PATH]
    engine.fs.heal(PATH)
    engine.rescan()
    assert engine.state(PATH) == (FileState.FAILED, Reason.PERMISSION), "nothing about the file itself changed"
    engine.write(PATH, "medlar")
    engine.settle()
    assert engine.found("medlar") == [PATH]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("noise.md", b"\x00\x01\x02\x03" * 400, Reason.BINARY),
        ("table.xyz", b"quince", Reason.UNSUPPORTED),
        ("letter.odt", b"PK quince", Reason.UNSUPPORTED),
        ("empty.md", b"", Reason.EMPTY),
        ("id_ed25519", b"quince", Reason.SECRET),
    ],
)
def test_what_is_not_for_the_index_is_skipped_with_its_reason(
    engine: SimulatedEngine, name: str, content: bytes, reason: Reason
) -> None:
    engine.write(f"{NOTES}/{name}", content)
    engine.settle()
    assert engine.state(f"{NOTES}/{name}") == (FileState.SKIPPED, reason)
    assert engine.documents() == []
    assert engine.embedded() == []
    assert _errors(engine.world) == [], "a skip is no failure"


def test_a_text_that_becomes_binary_is_not_found_any_more(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.write(PATH, b"\x00\x01\x02\x03" * 400)
    engine.settle()
    assert engine.state(PATH) == (FileState.SKIPPED, Reason.BINARY)
    assert engine.found("quince") == []
    engine.write(PATH, "quince")
    engine.settle()
    assert engine.found("quince") == [PATH]
    assert len(engine.embedded()) == 1


def test_no_byte_of_a_secret_reaches_the_home_of_kbsync(engine: SimulatedEngine) -> None:
    canary = b"canary7f3a9c"
    for name in (
        ".env",
        ".env.local",
        "id_rsa",
        "server.pem",
        "tls.key",
        ".ssh/config.md",
        "vault.kdbx",
        ".gnupg/a.md",
    ):
        engine.write(f"{NOTES}/{name}", canary)
    engine.write(PATH, b"control5d1e")
    engine.settle()
    engine.rescan()
    engine.close()
    kept = b"".join(path.read_bytes() for path in engine.world.home.rglob("*") if path.is_file())
    assert b"control5d1e" in kept, "the search would see it"
    assert canary not in kept


def test_a_new_ignore_pattern_judges_what_is_queued_already(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    assert engine.state(PATH) == (FileState.WAITING, Reason.QUEUED)
    engine.configure(NOTES, ignore=["first.*"])
    assert engine.loops.workers[0].step()
    assert engine.state(PATH) == (FileState.SKIPPED, Reason.IGNORED)
    assert engine.embedded() == []
    engine.configure(NOTES)
    engine.settle()
    assert engine.found("quince") == [PATH]


def test_a_job_of_a_source_that_was_taken_out_is_dropped(engine: SimulatedEngine, device: ActingDevice) -> None:
    device.before = _once(lambda: engine.configure())
    engine.write(PATH, "quince")
    engine.settle()
    assert engine.documents() == []
    assert engine.read("SELECT count(*) FROM jobs") == [(0,)]
    assert engine.kb.check() == []


# ---- what fails, and for how long ----


def test_a_passing_error_of_the_model_is_tried_again_after_a_growing_while_and_then_done(
    engine: SimulatedEngine, device: ActingDevice
) -> None:
    failures = 2

    def fail(texts: Sequence[str]) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise RetryLater(Reason.MODEL, "The device is out of memory.")

    device.before = fail
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    worker = engine.loops.workers[0]
    for attempt in (1, 2):
        assert worker.step()
        assert engine.state(PATH) == (FileState.WAITING, Reason.RETRY)
        assert "out of memory" in engine.why(PATH).detail
        wait = delay(attempt, Reason.MODEL)
        assert wait is not None
        engine.clock.advance(wait - 0.01)
        assert not worker.step()
        engine.clock.advance(0.02)
    assert worker.step()
    assert engine.state(PATH) == INDEXED
    assert engine.found("quince") == [PATH]
    assert _errors(engine.world) == []


def test_a_passing_error_that_never_passes_fails_the_file_until_it_changes(
    engine: SimulatedEngine, device: ActingDevice
) -> None:
    attempts = []

    def fail(texts: Sequence[str]) -> None:
        attempts.append(engine.clock.now())
        raise RetryLater(Reason.MODEL, "The device is out of memory.")

    device.before = fail
    engine.write(PATH, "quince")
    engine.settle()
    assert len(attempts) == MAX_ATTEMPTS
    assert engine.state(PATH) == (FileState.FAILED, Reason.MODEL)
    assert [line["path"] for line in _errors(engine.world)] == [PATH]
    engine.rescan()
    assert len(attempts) == MAX_ATTEMPTS
    device.before = lambda texts: None
    engine.write(PATH, "quince and medlar")
    engine.settle()
    assert engine.state(PATH) == INDEXED


def test_a_text_that_the_model_cannot_embed_fails_only_its_own_file(
    engine: SimulatedEngine, device: ActingDevice
) -> None:
    def fail(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise ValueError("cannot embed this")

    device.before = fail
    engine.write(PATH, "poison")
    engine.write(OTHER, "medlar")
    engine.settle()
    assert engine.state(PATH) == (FileState.FAILED, Reason.MODEL)
    assert engine.state(OTHER) == INDEXED
    assert len(_errors(engine.world)) == 1
    assert engine.kb.check() == []


def test_a_read_error_of_the_disk_is_tried_again(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    engine.fs.fail(PATH, OSError(errno.EIO, "Input/output error"))
    assert engine.loops.workers[0].step()
    assert engine.state(PATH) == (FileState.WAITING, Reason.RETRY)
    engine.fs.heal(PATH)
    engine.settle()
    assert engine.found("quince") == [PATH]


def test_a_full_disk_under_the_database_costs_no_file(engine: SimulatedEngine) -> None:
    """F29: however often it is tried."""
    engine.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1))  # no page more than now
    engine.write(PATH, "# Many\n\n" + "\n\n".join("quince " * 80 + str(number) for number in range(200)))
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    for _ in range(2 * MAX_ATTEMPTS):
        with pytest.raises(StorageUnavailable):
            engine.loops.workers[0].step()
        assert engine.state(PATH) == (FileState.WAITING, Reason.RETRY)
        assert "full" in engine.why(PATH).detail
        assert engine.read("SELECT attempts FROM jobs") == [(0,)], "no attempt of the file is counted"
        assert not engine.loops.workers[0].step(), "others go first"
        engine.clock.advance(STORAGE_DELAYS_S[1])
    assert engine.kb.check() == []
    engine.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1 << 30))
    engine.settle()
    assert engine.found("quince") == [PATH]


# ---- the process dies ----


def test_a_job_that_ran_when_the_process_died_runs_again(
    started: Callable[[], SimulatedEngine], device: ActingDevice
) -> None:
    engine = started()
    device.before = _once(_die)
    engine.write(PATH, "quince")
    with pytest.raises(Killed):
        engine.settle()
    assert engine.state(PATH) == (FileState.WAITING, Reason.PROCESSING)
    engine = started()
    assert engine.state(PATH) == (FileState.WAITING, Reason.QUEUED)
    engine.settle()
    assert engine.found("quince") == [PATH]
    assert engine.read("SELECT count(*) FROM jobs") == [(1,)]


def test_a_file_that_kills_the_process_every_time_is_parked_and_told_until_it_changes(
    started: Callable[[], SimulatedEngine], device: ActingDevice
) -> None:
    """P08: never a crash loop."""

    def die(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise Killed

    device.before = die
    engine = started()
    engine.write(OTHER, "medlar")
    engine.settle()
    engine.write(PATH, "poison")
    deaths = 0
    while deaths < 2 * MAX_ATTEMPTS:
        try:
            engine.settle()
            break
        except Killed:
            deaths += 1
            engine = started()
    assert deaths == MAX_ATTEMPTS
    assert engine.state(PATH) == (FileState.FAILED, Reason.CRASHED)
    assert [line["path"] for line in _errors(engine.world)] == [PATH]
    assert engine.found("medlar") == [OTHER]
    engine.rescan()
    assert engine.state(PATH) == (FileState.FAILED, Reason.CRASHED)
    engine.write(PATH, "cured")
    engine.settle()
    assert engine.found("cured") == [PATH]


def _die() -> None:
    raise Killed
