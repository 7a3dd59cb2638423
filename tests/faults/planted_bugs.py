"""T12: bugs that programs of this kind have had, each with the test that is to catch it, and the trial of both.

`python -m tests.faults.planted_bugs [NAME...] [--unharmed]` plants each into a copy of the program and runs the tests
named for it there; they must fail. With `--unharmed` all of them run on a copy without any bug and must pass.

Nothing of the program is imported here: each trial, in a process forked from this one, imports its own copy.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_PACKAGE = "kbsync"
# Outside libraries that most trials need: imported once, before the forks.
_SHARED = (
    "apsw",
    "hypothesis",
    "numpy",
    "pydantic_settings",
    "pytest",
    "sqlite_vec",
    "structlog",
    "watchdog.observers",
)
# A test that fails since something never comes need not wait for it as long as it does otherwise.
_PATIENCE = ("tests.sources.watch_reports", "PATIENCE_S", 3.0)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement in one file of the package. `old` is there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, the tests that are to catch it, and a pattern of what the message of their failure says."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    message: str


BUGS = (
    Bug(
        "the overflow signal is dropped",
        (
            Edit(
                "sources/inotify.py",
                "        self._overflowed()\n",
                "        super().on_queue_overflow()\n",
            ),
        ),
        ("tests/sources/test_watcher_faults.py::test_a_lost_event_is_told_and_the_new_observer_still_sees",),
        "never came",
    ),
    Bug(
        "a file is changed only where its time is a later one",
        (
            Edit(
                "sources/reconcile.py",
                "        or now.mtime_ns != before.mtime_ns\n        or now.ctime_ns != before.ctime_ns\n",
                "        or now.mtime_ns > before.mtime_ns\n",
            ),
        ),
        ("tests/faults/test_file_states.py::test_f19_a_change_is_seen_whatever_its_time_says[946684800.0]",),
        r"assert \[\] == ",
    ),
    Bug(
        "what may not be read any more is deleted",
        (
            Edit(
                "knowledge_base/commits.py",
                "        if reason in (Reason.PERMISSION, Reason.IO,",
                "        if reason in (Reason.IO,",
            ),
        ),
        ("tests/faults/test_file_states.py::test_f04_a_file_that_may_not_be_read_any_more_keeps_what_it_held",),
        r"assert \[\] == ",
    ),
    Bug(
        "a work is acknowledged before its commit",
        (
            Edit(
                "store/writer.py",
                "                    answers.append((request, *self._one(connection, request)))\n",
                "                    result, failure = self._one(connection, request)\n"
                "                    if failure is None:\n"
                "                        request.future.set_result(result)\n"
                "                    else:\n"
                "                        request.future.set_exception(failure)\n",
            ),
        ),
        ("tests/faults/test_power_loss.py::test_nothing_is_damaged_or_lost[played-30-1]",),
        "what was acknowledged is there|power lost at",
    ),
    Bug(
        "the first path that goes takes its document along",
        (
            Edit(
                "store/origins.py",
                "WHEN EXISTS (SELECT 1 FROM origins WHERE document_id = ?1 AND live = 1) THEN 'current'",
                "WHEN NOT EXISTS (SELECT 1 FROM origins WHERE document_id = ?1 AND live = 0) THEN 'current'",
            ),
        ),
        ("tests/daemon/test_moves.py::test_of_two_equal_files_either_may_go",),
        r"assert \[\] == ",
    ),
    Bug(
        "row ids are used again",
        (
            Edit(
                "store/schema/0001_initial.sql",
                "CREATE TABLE chunks (\n    id INTEGER PRIMARY KEY AUTOINCREMENT,\n",
                "CREATE TABLE chunks (\n    id INTEGER PRIMARY KEY,\n",
            ),
        ),
        ("tests/store/test_documents.py::test_no_row_id_is_ever_used_again",),
        r"assert after\[0\] > before\[0\]",
    ),
    Bug(
        "a file is not looked at again after it was read",
        (
            Edit(
                "sources/snapshot.py",
                "            after = file.fstat()\n        there = fs.lstat(path)\n",
                "            after = before\n        there = before\n",
            ),
        ),
        tuple(
            "tests/faults/test_file_states_real.py::"
            f"test_f01_f02_f20_whatever_changes_while_it_is_read_is_not_taken_for_one_version[{change}]"
            for change in ("_overwrite", "_replace")
        ),
        "DID NOT RAISE",
    ),
    Bug(
        "a child outlives the program that started it",
        (
            Edit(
                "confinement.py",
                "        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)\n",
                "",
            ),
        ),
        ("tests/pipelines/test_isolation.py::test_a_parent_killed_leaves_no_child_after_two_seconds",),
        r"until\(",
    ),
    Bug(
        "the path of an event is followed through a link",
        (
            Edit("filesystem.py", "return stat_of(os.lstat(path))", "return stat_of(os.stat(path))"),
            Edit(
                "filesystem.py",
                "READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC\n",
                "READ_ONLY = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC\n",
            ),
        ),
        (
            "tests/faults/test_file_states_real.py::"
            "test_f12_a_link_in_a_files_place_between_look_and_reading_ends_as_a_link",
        ),
        "DID NOT RAISE",
    ),
    Bug(
        "commits do not wait for the disk",
        (
            Edit(
                "store/connection.py",
                'connection.execute("PRAGMA synchronous = FULL")',
                'connection.execute("PRAGMA synchronous = OFF")',
            ),
        ),
        ("tests/faults/test_power_loss.py::test_nothing_is_damaged_or_lost[played-30-1]",),
        "power lost at",
    ),
)
# What shows that a copy as such fails no test.
UNHARMED = Bug("none", (), BUGS[2].tests + BUGS[5].tests + BUGS[6].tests, "")


@dataclass(slots=True)
class Verdict:
    """How the tests of a trial ended: node id to the message of its failure, "" where it passed.

    `errors`: what else went wrong, such as a test that is not there any more. `package`: what was imported.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    package: str = ""


class _Reports:
    """A plugin of pytest that fills a verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def pytest_runtest_logreport(self, report: object) -> None:
        import pytest

        assert isinstance(report, pytest.TestReport)
        if report.when == "call" and not report.skipped:
            self._verdict.outcomes[report.nodeid] = report.longreprtext if report.failed else ""
        elif report.skipped:
            self._verdict.errors.append(f"{report.nodeid} was skipped: {report.longreprtext}")
        elif report.failed:
            self._verdict.errors.append(report.longreprtext)

    def pytest_collectreport(self, report: object) -> None:
        import pytest

        assert isinstance(report, pytest.CollectReport)
        if report.failed:
            self._verdict.errors.append(report.longreprtext)


def edited(bug: Bug) -> dict[str, str]:
    """Return the text of each file with the bug in it. Raises ValueError where an edit does not fit any more."""
    texts: dict[str, str] = {}
    for edit in bug.edits:
        text = texts.get(edit.file) or (CHECKOUT / _PACKAGE / edit.file).read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(f"{bug.name}: {edit.file} holds this {text.count(edit.old)} times: {edit.old}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def planted(bug: Bug, folder: Path) -> None:
    """Copy the package into a folder, with the bug. Raises ValueError as `edited` does."""
    # With what is compiled already, and the times by which that is known to be right.
    shutil.copytree(CHECKOUT / _PACKAGE, folder / _PACKAGE)
    for file, text in edited(bug).items():
        path = folder / _PACKAGE / file
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()


def tried(bug: Bug, folder: Path) -> Verdict:
    """Run a bug's tests on a copy that has it, in a process of their own that leaves no other behind."""
    planted(bug, folder)
    told = folder / "verdict.json"
    child = os.fork()
    if child == 0:
        try:
            told.write_text(json.dumps(asdict(_played(bug, folder))), encoding="utf-8")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    if not told.exists():
        return Verdict(errors=["the trial ended by itself"])
    return Verdict(**json.loads(told.read_text(encoding="utf-8")))


def _played(bug: Bug, folder: Path) -> Verdict:
    import psutil
    import pytest

    # A child that the bug lets outlive its parent comes to this process, and goes with it.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ["PYTHONPATH"] = str(folder)
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path[:0] = [str(folder)]
    os.chdir(folder)  # programs that a test starts look here first
    module, name, seconds = _PATIENCE
    setattr(importlib.import_module(module), name, seconds)
    verdict = Verdict()
    arguments = ["-c", str(CHECKOUT / "pyproject.toml"), "--rootdir", str(CHECKOUT), "-o", f"pythonpath={folder}"]
    arguments += ["-q", "-p", "pytest_timeout", "-p", "no:cacheprovider", *(str(CHECKOUT / test) for test in bug.tests)]
    with open(folder / "output", "w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        pytest.main(arguments, plugins=[_Reports(verdict)])
    verdict.package = os.path.dirname(str(importlib.import_module(_PACKAGE).__file__))
    for left in psutil.Process().children(recursive=True):
        left.kill()
    return verdict


def wrong_with(bug: Bug, verdict: Verdict) -> list[str]:
    """Return why a trial does not show that its tests catch the bug; for `UNHARMED`: that they pass without one."""
    wrong = list(verdict.errors)
    if os.path.dirname(verdict.package) == str(CHECKOUT):
        wrong.append(f"not the copy was tried, but {verdict.package}")
    for test in bug.tests:
        message = verdict.outcomes.get(test)
        if message is None:
            wrong.append(f"{test} did not run")
        elif bug.edits and not message:
            wrong.append(f"{test} passes in spite of the bug")
        elif bug.edits and not re.search(bug.message, message):
            wrong.append(f"{test} fails for another reason: {message}")
        elif message and not bug.edits:
            wrong.append(f"{test} fails without any bug: {message}")
    return wrong


def trials(bugs: Sequence[Bug]) -> dict[str, Verdict]:
    """Try bugs one after the other; return the verdict of each by its name."""
    os.chdir(CHECKOUT)
    # Threads of a library's own would not be there after a fork.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for module in _SHARED:
        importlib.import_module(module)
    verdicts = {}
    for bug in bugs:
        with tempfile.TemporaryDirectory(prefix="kbsync-bug-") as folder:
            verdicts[bug.name] = tried(bug, Path(folder))
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Print which tests caught which bug; return 1 where one got away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="bugs by a part of their names; all without")
    parser.add_argument("--unharmed", action="store_true", help="run all named tests without any bug")
    parser.add_argument("--json", action="store_true", help="print the verdicts")
    chosen = parser.parse_args(arguments)
    bugs = [bug for bug in BUGS if not chosen.names or any(name in bug.name for name in chosen.names)]
    if chosen.unharmed:
        bugs = [Bug("none", (), tuple(dict.fromkeys(test for bug in bugs for test in bug.tests)), "")]
    elif chosen.json:
        bugs.append(UNHARMED)
    verdicts = trials(bugs)
    if chosen.json:
        print(json.dumps({name: asdict(verdict) for name, verdict in verdicts.items()}))
        return 0
    bad = 0
    for bug in bugs:
        wrong = wrong_with(bug, verdicts[bug.name])
        bad += bool(wrong)
        print(f"{'NOT SHOWN' if wrong else 'ok':10}{bug.name}")
        print(*(f"          {line}" for line in wrong or bug.tests), sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
