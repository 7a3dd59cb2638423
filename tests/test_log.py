"""Logs are JSON lines that only their owner reads, and never the reason why something stops."""

from __future__ import annotations

import ast
import errno
import json
import logging
import os
import re
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from kbsync import log
from kbsync.errors import FailFile
from kbsync.reasons import Reason
from tests.meta.checkout import ROOT

NOBODY = 65534


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """Configure logging into a file of a folder that is not there yet, and put back what was before."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    for handler in before:
        root.removeHandler(handler)  # `configure` would close the test runner's own
    file = tmp_path / "logs" / "kbsync.log"
    log.configure(str(file), "info", terminal=False)
    yield file
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)
    logging.getLogger("kbsync").setLevel(logging.NOTSET)
    structlog.reset_defaults()


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_record_is_one_json_line_with_its_fields(log_file: Path) -> None:
    logger = structlog.stdlib.get_logger("kbsync.test")
    logger.info("job_ended", path="/notes/a\n\x1b[0m文\udce9.md", state="indexed", detail=object)
    (line,) = lines(log_file)
    assert (line["event"], line["level"], line["logger"]) == ("job_ended", "info", "kbsync.test")
    assert line["path"] == "/notes/a\n\x1b[0m文\udce9.md"
    assert line["timestamp"].endswith("Z")
    assert log_file.read_bytes().isascii()


def opened(path: str) -> None:
    open(path).close()


def converted(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        try:
            opened("/not/there")
        except OSError:
            raise FailFile(Reason.IO, "It is gone.", hint="Look.") from error
        raise


def test_an_exception_is_logged_with_its_causes_and_without_what_it_quotes(log_file: Path) -> None:
    """A13: the message of a library's error may be a line of the document."""
    text = "canary7d31"
    try:
        converted(text)
    except FailFile:
        structlog.stdlib.get_logger("kbsync.test").exception("job_crashed")
    (line,) = lines(log_file)
    told = line["exception"].splitlines()
    assert told[0] == "Traceback (most recent call last):"
    assert told[-1] == "FailFile: It is gone. Look."
    assert told.index("ValueError") < told.index("which led to:"), "its class and place are told, not its words"
    assert line["exception"].count("test_log.py") == 3
    assert text not in log_file.read_text()


def test_an_error_that_is_its_own_cause_is_told_once(log_file: Path) -> None:
    first, second = KeyError("a"), KeyError("b")
    first.__context__, second.__context__ = second, first
    structlog.stdlib.get_logger("kbsync.test").error("odd", exc_info=first)
    (line,) = lines(log_file)
    assert line["exception"].count("KeyError") == 2


def test_a_records_lines_on_a_terminal_are_its_own(capsys: pytest.CaptureFixture[str], log_file: Path) -> None:
    """A13: a file's name forges no record, neither in a field nor in a library's warning or an error's message."""
    log.configure(str(log_file), "info", terminal=True)
    name = "/notes/a\n2026-01-01 [error] forged\x1b]0;\x07文\udce9.md"
    structlog.stdlib.get_logger("kbsync.test").warning("watcher_failed", path=name)
    logging.getLogger("some.library").warning("cannot open %s", name)
    try:
        opened(name)
    except OSError:
        structlog.stdlib.get_logger("kbsync.test").exception("job_crashed", path=name)
    told = capsys.readouterr().err
    assert told.count("\n2026-01-01 [error]") == 0
    assert "\x1b]" not in told
    assert "文" in told, "what people write stays readable"
    assert "\\udce9.md" in told
    assert len([line for line in told.splitlines() if re.match(r"\S+Z \[", line)]) == 3
    assert len(lines(log_file)) == 3


def test_warnings_of_python_go_to_the_log(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log.configure(str(log_file), "info", terminal=False)
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("a library is old", DeprecationWarning, stacklevel=1)
    (line,) = lines(log_file)
    assert line["logger"] == "py.warnings"
    assert "DeprecationWarning: a library is old" in line["event"]
    assert capsys.readouterr().err == ""


def test_a_level_holds_from_the_next_record_on(log_file: Path) -> None:
    logger = structlog.stdlib.get_logger("kbsync.test")
    for level in ("error", "debug", "info"):
        log.set_level(level)
        logger.debug(f"debug_at_{level}")
        logger.warning(f"warning_at_{level}")
    assert [line["event"] for line in lines(log_file)] == ["debug_at_debug", "warning_at_debug", "warning_at_info"]


def test_a_rotation_begins_a_new_file_where_there_is_anything_to_put_away(log_file: Path) -> None:
    logger = structlog.stdlib.get_logger("kbsync.test")
    assert not log.rotate(), "nothing was written yet"
    for number in range(7):
        logger.info(f"number_{number}")
        assert log.rotate()
    assert not log.rotate()
    logger.info("last")
    kept = sorted(file.name for file in log_file.parent.iterdir())
    assert kept == ["kbsync.log", *(f"kbsync.log.{number}" for number in range(1, 5))]
    assert [line["event"] for line in lines(log_file)] == ["last"]
    assert [line["event"] for line in lines(log_file.with_name("kbsync.log.1"))] == ["number_6"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in log_file.parent.iterdir()} == {0o600}


def test_a_rotation_that_fails_is_a_problem_and_no_crash(monkeypatch: pytest.MonkeyPatch, log_file: Path) -> None:
    structlog.stdlib.get_logger("kbsync.test").info("before")

    def refused(*_names: str) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refused)
        assert not log.rotate()
    assert "Permission denied" in str(log.problem())
    structlog.stdlib.get_logger("kbsync.test").info("after")
    assert log.problem() is None
    assert lines(log_file)[-1]["event"] == "after"


# ---- every call in the program ----

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def logging_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield (where, call) of every record that the program logs."""
    for file in sorted((ROOT / "kbsync").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        loggers = {
            target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _is_logger(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = node.func.value
                if _is_logger(on) or (isinstance(on, ast.Name) and on.id in loggers):
                    assert node.func.attr in LEVELS, f"{file}:{node.lineno}: a logger is asked for records only"
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def _is_logger(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_logger"


def test_events_and_fields_have_constant_names_out_of_one_list() -> None:
    used = set()
    wrong = []
    for where, call in logging_calls():
        event = call.args[0] if len(call.args) == 1 else None
        named = isinstance(event, ast.Constant) and re.fullmatch(r"[a-z]+(_[a-z]+)*", str(event.value))
        fields = {keyword.arg for keyword in call.keywords} - {"exc_info"}
        used |= fields
        wrong += [] if named else [f"{where}: the event is one constant in snake_case"]
        wrong += [f"{where}: {field or '**'} is none of log.FIELDS" for field in fields - log.FIELDS.keys()]
    assert wrong == []
    assert used == log.FIELDS.keys(), "what is listed is used"


def test_every_module_that_logs_was_found() -> None:
    """What the test above looks at must not become empty by another way to get a logger."""
    modules = {where.partition(":")[0] for where, _call in logging_calls()}
    assert modules >= {"kbsync/daemon/worker.py", "kbsync/compose/engine.py", "kbsync/store/writer.py"}
    ways = ("structlog.get_logger", "logging.getLogger(__name__)", "from structlog")
    for file in (ROOT / "kbsync").rglob("*.py"):
        assert not any(way in file.read_text(encoding="utf-8") for way in ways), file


def test_libraries_are_heard_from_warning_on(log_file: Path) -> None:
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("odd: %s", "thing")
    structlog.stdlib.get_logger("kbsync.test").debug("detail")
    (line,) = lines(log_file)
    assert (line["event"], line["logger"]) == ("odd: thing", "some.library")


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_the_log_and_its_folder_are_private_also_after_a_rotation(log_file: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        logger = structlog.stdlib.get_logger("kbsync.test")
        for _ in range(12):
            logger.info("large", text="x" * 1_000_000)
    finally:
        os.umask(before)
    files = list(log_file.parent.iterdir())
    assert {file.name for file in files} == {"kbsync.log", "kbsync.log.1", "kbsync.log.2"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(log_file.parent.stat().st_mode) == 0o700
    assert all(file.stat().st_size <= 5 << 20 for file in files)


def test_configuring_twice_writes_once(log_file: Path) -> None:
    log.configure(str(log_file), "info", terminal=False)
    structlog.stdlib.get_logger("kbsync.test").info("once")
    assert len(lines(log_file)) == 1


def test_a_failure_is_one_escaped_line(tmp_path: Path) -> None:
    file = tmp_path / "new" / "ingest-errors.log"
    error_log = log.ErrorLog(str(file))
    error_log.record("/notes/a\n\x1b]0;\x07文\udce9.md", "damaged\r\n100 %s \u202e", 0.0)
    error_log.record("/notes/b.md", "damaged", 1.5)
    error_log.close()
    error_log.close()
    text = file.read_text()
    assert text.isascii()
    assert text.count("\n") == 2
    assert not any(ord(character) < 32 for character in text.replace("\n", ""))
    assert lines(file)[0] == {
        "at": "1970-01-01T00:00:00+00:00",
        "path": "/notes/a\n\x1b]0;\x07文\udce9.md",
        "error": "damaged\r\n100 %s \u202e",
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_log_of_failures_is_rotated(tmp_path: Path) -> None:
    file = tmp_path / "ingest-errors.log"
    error_log = log.ErrorLog(str(file))
    for _ in range(12):
        error_log.record("/notes/a.md", "x" * 1_000_000, 0.0)
    error_log.close()
    assert sorted(os.listdir(tmp_path)) == ["ingest-errors.log", "ingest-errors.log.1"]


def test_a_log_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "ingest-errors.log"
    file.touch(mode=0o644)
    error_log = log.ErrorLog(str(file))
    error_log.record("/notes/a.md", "damaged", 0.0)
    error_log.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True)


# The largest size of a file stands in for a disk that is full and then has room again.
FULL_DISK = """
import logging, resource, sys
from kbsync import log
import structlog
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
error_log = log.ErrorLog(sys.argv[1])
log.configure(sys.argv[2], "info", terminal=False)
logger = structlog.stdlib.get_logger("kbsync.test")
def record(text):
    error_log.record("/notes/a.md", text, 0.0)
    logger.info(text)
record("before")
resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
for _ in range(8):
    record("x" * 300)
if sys.argv[3] == "room":
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    record("after")
error_log.close()
log.configure(sys.argv[2], "info", terminal=False)
print("went on")
"""


@pytest.mark.parametrize("then", ["room", "none"])
def test_a_full_disk_stops_nothing(tmp_path: Path, then: str) -> None:
    outcome = run(FULL_DISK, str(tmp_path / "errors.log"), str(tmp_path / "kbsync.log"), then)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "went on\n", "")
    for name in ("errors.log", "kbsync.log"):
        text = "".join(path.read_text() for path in tmp_path.glob(f"{name}*"))
        assert "before" in text
        assert ("after" in text) is (then == "room")


UNWRITABLE = f"""
import os, sys
from kbsync import log
import structlog
if os.getuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
assert os.getuid() != 0
try:
    open(sys.argv[1], "a")
except PermissionError:
    print("refused")
error_log = log.ErrorLog(sys.argv[1])
log.configure(sys.argv[1], "info", terminal=False)
error_log.record("/notes/a.md", "damaged", 0.0)
structlog.stdlib.get_logger("kbsync.test").info("unheard")
error_log.close()
print("went on")
"""


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    outcome = run(UNWRITABLE, str(folder / "kbsync.log"))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "refused\nwent on\n", "")
    assert os.listdir(folder) == []


def test_a_folder_that_vanishes_is_made_again(log_file: Path) -> None:
    logger = structlog.stdlib.get_logger("kbsync.test")
    logger.info("first")
    logging.getLogger().handlers[0].close()
    log_file.unlink()
    log_file.parent.rmdir()
    logger.info("second")
    assert [line["event"] for line in lines(log_file)] == ["second"]


def test_a_log_on_a_full_disk_says_that_it_is_full(monkeypatch: pytest.MonkeyPatch, log_file: Path) -> None:
    """P18: to make its folder writable would help nothing."""

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log, "_open_private", full)
        structlog.stdlib.get_logger("kbsync.test").warning("first")
    problem = log.problem()
    assert problem is not None
    assert "No space left on device. Free some space." in problem
    structlog.stdlib.get_logger("kbsync.test").warning("second")
    assert log.problem() is None
    assert lines(log_file)[-1]["event"] == "second"
