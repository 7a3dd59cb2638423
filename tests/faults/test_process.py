"""What befalls the process: it is told to end in the middle of anything, a part of it dies, a file kills it."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kbsync.config.locations import Locations
from kbsync.daemon.lock import owner_of
from kbsync.errors import KbsyncError
from kbsync.queue import backoff
from tests.fakes.eventually import eventually
from tests.faults.forked_daemon import ASKED, HANGS, POISON
from tests.faults.nursery import Nursery, configured, settled
from tests.faults.table_dump import tables_of
from tests.meta.checkout import ROOT

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="forks its daemons, and watches them through /proc"),
]

# SIGTERM must have ended everything within it; a busy machine takes a little longer to tell of it.
LIMIT_S = 10.0


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery
        assert nursery.forks == 0, "P12: nothing forks beside threads"


@pytest.fixture
def folder(home: Path) -> Path:
    folder = home / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def places(home: Path, folder: Path) -> Locations:
    return configured(home / "kb", f"path = {json.dumps(str(folder))}", quiet_s=0.1, rescan_s=3600)


def ended(nursery: Nursery, numbers: Sequence[signal.Signals]) -> tuple[int, float]:
    """Send signals one after the other; return (exit code, seconds)."""
    began = time.monotonic()
    for number in numbers:
        nursery.signal(number)
    return nursery.ended(), time.monotonic() - began


def jobs(places: Locations) -> list[tuple[object, ...]]:
    with tables_of(places.database) as tables:
        assert tables.damages() == []
        return tables.rows("SELECT path, state, attempts FROM jobs WHERE state <> 'done' ORDER BY path")


# ---- told to end ----


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGTERM, signal.SIGTERM],
        [signal.SIGINT],
        [signal.SIGHUP, signal.SIGTERM, signal.SIGHUP],
    ],
    ids=lambda numbers: " ".join(number.name for number in numbers),
)
def test_told_to_end_during_a_job_it_ends_in_time_and_the_job_waits(
    nursery: Nursery, places: Locations, folder: Path, numbers: Sequence[signal.Signals]
) -> None:
    """P04, P06 and P09: also where the job's child hears no signal. What hung is no attempt that failed."""
    (folder / "endless.pdf").write_bytes(HANGS)
    client = nursery.begin_serving(Path(places.config_file).parent)
    eventually(lambda: client.get("status")["conversion"]["children"][0]["pid"])
    assert nursery.children()
    code, seconds = ended(nursery, numbers)
    assert code == 0, nursery.messages()
    assert seconds < LIMIT_S
    assert nursery.left() == []
    assert jobs(places) == [(os.fsencode(folder / "endless.pdf"), "queued", 0)]


def test_killed_it_leaves_no_child_that_reads_on(nursery: Nursery, places: Locations, folder: Path) -> None:
    """P09: though the child is in native code and hears nothing. The attempt counts: nobody knows what was to blame."""
    (folder / "endless.pdf").write_bytes(HANGS)
    client = nursery.begin_serving(Path(places.config_file).parent)
    eventually(lambda: client.get("status")["conversion"]["children"][0]["pid"])
    assert nursery.children()
    code, _ = ended(nursery, [signal.SIGKILL])
    assert code == -signal.SIGKILL
    assert nursery.left() == []
    assert jobs(places) == [(os.fsencode(folder / "endless.pdf"), "processing", 1)]


def test_sighup_alone_ends_nothing(nursery: Nursery, places: Locations, folder: Path, home: Path) -> None:
    """P04: it has the configuration read again."""
    other = home / "other"
    other.mkdir()
    (other / "quince.md").write_text("ripens late")
    client = nursery.begin_serving(Path(places.config_file).parent)
    configured(home / "kb", *(f"path = {json.dumps(str(path))}" for path in (folder, other)), quiet_s=0.1)
    nursery.signal(signal.SIGHUP)
    eventually(lambda: client.get("search", q="ripens")["hits"])
    assert ended(nursery, [signal.SIGTERM])[0] == 0


def test_a_statement_that_takes_for_ever_does_not_hold_up_the_end(nursery: Nursery, places: Locations) -> None:
    """P04: a check, a compaction, a purge of a large database: it is ended, nothing of the database is lost."""
    nursery.begin_serving(Path(places.config_file).parent, "endless statement")
    eventually(lambda: os.path.exists(os.path.join(places.data_dir, ASKED)))
    code, seconds = ended(nursery, [signal.SIGTERM])
    assert code == 0, nursery.messages()
    assert seconds < LIMIT_S
    assert jobs(places) == []


def test_told_to_end_during_a_migration_it_leaves_the_database_as_it_was(
    nursery: Nursery, places: Locations, folder: Path
) -> None:
    """P04 and D04: the next start goes on from there."""
    home = Path(places.config_file).parent
    (folder / "quince.md").write_text("ripens late")
    settled(nursery.begin_serving(home))
    assert ended(nursery, [signal.SIGTERM])[0] == 0
    with tables_of(places.database) as tables:
        before = tables.rows("PRAGMA user_version"), tables.searchable([str(folder)])
    nursery.begin(home, "endless migration")
    doing = "bringing the database to its current form (step 9999 of 9999)"
    eventually(lambda: (owner := owner_of(places.lock_file)) is not None and owner.doing == doing)
    code, seconds = ended(nursery, [signal.SIGTERM])
    assert code == 0, nursery.messages()
    assert seconds < LIMIT_S
    with tables_of(places.database) as tables:
        assert (tables.rows("PRAGMA user_version"), tables.searchable([str(folder)])) == before
    assert nursery.begin_serving(home).get("search", q="ripens")["hits"]
    assert ended(nursery, [signal.SIGTERM])[0] == 0


def test_a_process_that_hangs_at_its_end_ends_all_the_same(nursery: Nursery, places: Locations) -> None:
    """P04: however often it was told; it says where it hung, and that something was wrong."""
    nursery.begin_serving(Path(places.config_file).parent, "hangs at its end")
    code, seconds = ended(nursery, [signal.SIGTERM, signal.SIGTERM])
    assert code == 1
    assert seconds < LIMIT_S + 5
    assert "in hang_in_stop" in nursery.messages()
    assert nursery.left() == []


# ---- a part of it dies ----


@pytest.mark.parametrize("part", ["writer", "embedder", "producer", "scheduler", "server"])
def test_where_a_thread_dies_the_process_ends_and_says_so(
    nursery: Nursery, places: Locations, folder: Path, part: str
) -> None:
    """P16: never half alive. Whoever looks after it (systemd, launchd) begins it anew."""
    home = Path(places.config_file).parent
    (folder / "quince.md").write_text("ripens late")
    nursery.begin(home, f"{part} dies")
    code = nursery.ended()
    assert code == 1, nursery.messages()
    assert "ended unexpectedly" in nursery.messages() or "a mistake in the program" in nursery.messages()
    assert nursery.left() == []
    client = nursery.begin_serving(home)
    settled(client)
    assert client.get("search", q="ripens")["hits"]
    assert ended(nursery, [signal.SIGTERM])[0] == 0


# ---- a file kills it ----


def test_a_file_that_kills_the_process_is_parked_and_takes_no_other_along(
    nursery: Nursery, places: Locations, folder: Path
) -> None:
    """P08: never a crash loop; counted before the work, so that each death is known."""
    home = Path(places.config_file).parent
    for name in ("a.md", "b.md", POISON, "q.md", "z.md"):
        (folder / name).write_text(f"{name} ripens late")
    deaths = 0
    while True:
        try:
            client = nursery.begin_serving(home)
            settled(client)
            break
        except (AssertionError, KbsyncError):  # it died meanwhile, however that looked from here
            assert nursery.ended() == -signal.SIGKILL, nursery.messages()
            deaths += 1
            assert deaths <= backoff.MAX_ATTEMPTS, "a crash loop"
    assert deaths == backoff.MAX_ATTEMPTS
    states = {}
    for name in ("a.md", "b.md", POISON, "q.md", "z.md"):
        record = client.post("local/why", {"path": str(folder / name)})
        states[name] = (record["state"], record["reason"])
    assert states.pop(POISON) == ("failed", "crashed")
    assert set(states.values()) == {("indexed", None)}
    assert ended(nursery, [signal.SIGTERM])[0] == 0


# ---- how children are begun ----


def test_every_child_is_spawned() -> None:
    """P12: a fork beside threads may copy a lock that nobody will ever open."""
    forking = {"fork", "forkpty", "Pool", "Process", "ProcessPoolExecutor", "set_start_method", "ProcessPool"}
    found = []
    for path in sorted((ROOT / "kbsync").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in forking and not ast.unparse(node.func).startswith("psutil."):  # that only looks at one
                    context = next((ast.unparse(word.value) for word in node.keywords if word.arg == "context"), None)
                    found.append((path.name, ast.unparse(node.func), context))
    assert found == [
        ("model_process.py", "multiprocessing.get_context('spawn').Process", None),
        ("isolated_slot.py", "pebble.ProcessPool", "multiprocessing.get_context('spawn')"),
    ]
