"""What all tests share: the folder of real documents that some of them want, and what happens where it is absent."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.side_by_side import Room, group_of, turn_of

CORPUS_VARIABLE = "KBSYNC_TEST_CORPUS"
_MISSING = f"{CORPUS_VARIABLE} names no folder: set it to the folder of real documents"
_ROOM = pytest.StashKey[Room]()
_TOLD, _TALLIED = "told", "tallied"
# Where only a database lies on the disk: in memory each commit's wait for it is nothing, and most of these tests' time.
# The programs, the watchers and the walks have a real disk.
_IN_MEMORY = tuple(
    f"tests/{name}/" for name in ("store", "queue", "search", "knowledge_base", "daemon", "interfaces", "projects")
)
_MEMORY_DISK, _MEMORY_BYTES = "/dev/shm", 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Set up what the programs that tests start inherit."""
    # They hear Ctrl+C, also where the tests were started in a shell's background.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # They keep what they compiled: else each of hundreds would compile kbsync anew, which takes as long as its work.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if hasattr(config, "workerinput"):  # one of several processes
        config.stash[_ROOM] = Room(Path(__file__), Path(__file__).with_name("side_by_side.py"))
        # Each would take all cores for its arithmetic, and wait for the others' threads while it does.
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (room := config.stash.get(_ROOM, None)) is not None:
        room.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # the order is ours
    return ByGroup(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _ROOM in config.stash:
        items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Outside of all that a test does: the time that it waits here is not its own.
    room = item.config.stash.get(_ROOM, None)
    if room is None:
        return (yield)
    with room.entered(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real documents; a test that asks for it is left out where it is absent, in CI it fails."""
    folder = Path(os.environ.get(CORPUS_VARIABLE) or os.devnull)
    if not folder.is_dir():
        pytest.skip(_MISSING)
    return folder.resolve()


@pytest.fixture(scope="session")
def samples() -> Path:
    """Return the folder of small files of our own."""
    return Path(__file__).parent.resolve() / "samples"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # On a laptop an absent corpus is a choice; in CI it would be a gap that nobody sees.
    if report.skipped and CORPUS_VARIABLE in report.longreprtext and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{_MISSING} (with CI=true its absence is a failure)"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = sum(CORPUS_VARIABLE in report.longreprtext for report in terminalreporter.stats.get("skipped", ()))
    if left_out:
        terminalreporter.write_line(f"{left_out} tests left out: {_MISSING}", yellow=True)
    # Of a test's reports the last one carries all that was told.
    ended = [report for report in terminalreporter.stats.get("", ()) if getattr(report, "when", "") == "teardown"]
    for line in sorted(str(value) for report in ended for key, value in report.user_properties if key == _TOLD):
        terminalreporter.write_line(line)
    tallied = Counter[str]()
    for what, count in (value for report in ended for key, value in report.user_properties if key == _TALLIED):
        tallied[what.replace("_", " ")] += count
    if tallied:
        lost = tallied.pop("lost", 0)
        kinds = ", ".join(f"{count:,} {what}" for what, count in sorted(tallied.items()))
        terminalreporter.write_line(f"Faults tried: {tallied.total():,} ({kinds}); lost: {lost}")


@pytest.fixture
def told(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return what says how much a test has played: printed at the end, whichever process ran it."""
    return lambda line: record_property(_TOLD, line)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Return what counts the faults that a test has made, `tally(kills=60, lost=0)`, for one sentence at the end."""

    def add(**counts: int) -> None:
        for what, count in counts.items():
            record_property(_TALLIED, (what, count))

    return add


@pytest.fixture(scope="session")
def memory_disk() -> Iterator[Path | None]:
    """Return a folder in memory, None where this machine has none that is large enough."""
    try:
        there = os.statvfs(_MEMORY_DISK)
    except OSError:  # macOS has none
        yield None
        return
    if there.f_bavail * there.f_frsize < _MEMORY_BYTES or not os.access(_MEMORY_DISK, os.W_OK | os.X_OK):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kbsync-tests-", dir=_MEMORY_DISK) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path, memory_disk: Path | None) -> Iterator[Path]:
    """Return an empty folder of the test's own, in memory where only a database lies in it."""
    if memory_disk is None or not request.node.nodeid.startswith(_IN_MEMORY):
        yield tmp_path
        return
    folder = memory_disk / tmp_path.name
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Put back how logging was configured: commands and benches that run in this process configure it for all."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configured, settings = structlog.is_configured(), structlog.get_config()
    yield
    for handler in root.handlers:
        if isinstance(handler, logging.FileHandler) and handler not in handlers:
            handler.close()  # else whichever test runs when it is collected is told of an open file
    root.handlers[:] = handlers
    root.setLevel(level)
    if configured:
        structlog.configure(**settings)
    else:
        structlog.reset_defaults()
