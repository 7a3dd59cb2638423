"""What all tests share: the folder of real documents that some of them want, and what happens where it is absent."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

CORPUS_VARIABLE = "KBSYNC_TEST_CORPUS"
_MISSING = f"{CORPUS_VARIABLE} names no folder: set it to the folder of real documents"


def pytest_configure() -> None:
    """Have the programs that tests start hear Ctrl+C, also where the tests were started in a shell's background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
