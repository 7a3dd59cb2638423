"""T4: the writer is killed at, or refused, its k-th system call: `python -m tests.faults.syscall_points [--all]`.

A play is a child of this process that opens the store and commits documents through the writer and the stored files,
and says of each that it is done after the commit. strace is put on it before it begins. What it leaves another child
looks at, and finishes. Every call that changes a file is counted in an undisturbed run first.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import structlog

from kbsync.errors import KbsyncError
from kbsync.knowledge_base import integrity
from kbsync.model import Origin
from kbsync.store import discards, documents, maintenance, origins
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer
from tests.faults.one_thread import begin_again_with_one_thread, threads
from tests.store.made_documents import made_update, matching, write_document

KILL, FULL, BROKEN = "kill", "full disk", "I/O error"
MODES = (KILL, FULL, BROKEN)
# What changes files. The second names are those of machines that have only these.
CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link",
         "linkat", "fallocate", "write")  # fmt: skip
_INJECTED = {KILL: "signal=SIGKILL:when={k}", FULL: "error=ENOSPC:when={k}+", BROKEN: "error=EIO:when={k}"}
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(", re.MULTILINE)
_DOCUMENTS = 5
_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)
_ATTACHED_S = 20.0


class Unavailable(RuntimeError):
    """strace is not here, or may not look at other processes."""


@dataclass(frozen=True, slots=True)
class Point:
    call: str
    k: int
    mode: str


@dataclass(slots=True)
class Report:
    """What came of all plays. `calls` of the undisturbed run; `wrong` names the point and what did not hold."""

    calls: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODES, 0))
    acknowledged: int = 0
    refused: int = 0
    missed: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def _text(number: int) -> str:
    return f"Document {number} tells of the {('plum', 'pear', 'quince', 'medlar', 'cherry')[number]} in the garden."


def _content(number: int) -> bytes:
    return _text(number).encode() * 40


def _hash(number: int) -> str:
    return hashlib.sha256(_content(number)).hexdigest()


class Store:
    """The writer, its readers and the stored files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.writer = Writer(str(folder / "kb.sqlite3"))
        self.readers = Readers(self.writer.path)
        self.stored = StoredFiles(str(folder / "staging"), str(folder / "documents"))
        self.kept = KeptConversions(str(folder / "conversions"))

    def open(self) -> None:
        self.writer.open()

    def close(self) -> None:
        self.writer.close()
        self.readers.close()

    def take_in(self, number: int) -> None:
        """Stage, keep, store and commit a document as the road does."""
        with self.stored.staging("made.md") as (copy, file):
            file.write(_content(number))
        self.kept.keep(_hash(number), "converter-1", _content(number))
        stored_path = self.stored.store(copy, _hash(number), "made.md")

        def commit(connection: Connection) -> None:
            document_id = write_document(connection, made_update(_hash(number), _text(number), f"And more: {number}."))
            origins.add(connection, document_id, Origin("added", f"/made/{number}.md", None), 1.0)
            documents.set_stored_path(connection, document_id, stored_path, "made.md")

        self.writer.run(commit)
        self.stored.discard(copy)

    def take_out(self, number: int) -> None:
        """Delete a document, and its stored copy after the commit."""

        def delete(connection: Connection) -> None:
            document = documents.by_hash(connection, _hash(number))
            if document is not None:
                documents.delete(connection, document.id)

        def discard(connection: Connection) -> None:
            for name in discards.pending(connection):
                self.stored.discard(os.path.join(self.stored.documents_dir, name))
            discards.kept(connection)

        self.writer.run(delete)
        self.writer.run(discard)


def deeds(store: Store) -> list[tuple[str, Callable[[], object]]]:
    """Return what a play does in its order, and what it says of each when it is done."""
    found: list[tuple[str, Callable[[], object]]] = [("open", store.open)]
    for number in range(_DOCUMENTS):
        found.append((f"in {number}", partial(store.take_in, number)))
    found.append(("out 0", lambda: store.take_out(0)))
    found.append(("rewritten", lambda: store.writer.run_alone(maintenance.rewrite)))
    found.append(("closed", store.close))
    return found


def _play(folder: Path, acknowledgements: int) -> None:
    """Do everything, whatever fails on the way, and say of each deed that is done. An error is one of kbsync's own."""
    is_open = False
    for name, deed in deeds(Store(folder)):
        if not is_open and name != "open":
            break
        try:
            deed()
        except KbsyncError as error:
            _say(acknowledgements, f"refused {type(error).__name__}")
        else:
            is_open = True
            _say(acknowledgements, name)


def _make_folders(folder: Path) -> None:
    for name in ("staging", "documents", "conversions"):
        (folder / name).mkdir(parents=True)


def _say(descriptor: int, line: str) -> None:
    # Not by `write`, which may be refused.
    os.writev(descriptor, [f"{line}\n".encode()])


def judged(folder: Path, told: Sequence[str]) -> list[str]:
    """Open what was left, and return what of it is not as it was told, or not whole; then finish the work."""
    store, wrong = Store(folder), []
    store.open()
    try:
        wrong += [f"{problem.kind}: {problem.detail}" for problem in store.writer.run(integrity.check)]
        there = set(store.readers.read(documents.content_hashes))
        copies = store.readers.read(documents.stored_paths)
        for number in range(_DOCUMENTS):
            is_there, word = _hash(number) in there, _text(number).split()[5]
            found = store.readers.read(partial(matching, table="chunks_fts", words=word))
            if bool(found) != is_there:
                wrong.append(f"document {number} is there: {is_there}, and found: {found}")
            if f"in {number}" in told and not is_there and number:
                wrong.append(f"acknowledged and lost: document {number}")
        if "in 0" in told and "out 0" not in told and _hash(0) not in there and not _may_be_out(told):
            wrong.append("acknowledged and lost: document 0")
        if "out 0" in told and _hash(0) in there:
            wrong.append("taken out, and there again")
        for path in copies:
            if hashlib.sha256(Path(path).read_bytes()).hexdigest() not in path:
                wrong.append(f"another content: {path}")
        store.stored.sweep(copies)
        store.close()
        store = Store(folder)
        for _name, deed in deeds(store):
            deed()
        store.open()
        if set(store.readers.read(documents.content_hashes)) != {_hash(number) for number in range(1, _DOCUMENTS)}:
            wrong.append("the work cannot be finished")
        if os.listdir(store.stored.staging_dir):
            wrong.append("something is left in staging")
        store.kept.sweep({_hash(number) for number in range(_DOCUMENTS)})
        if len(os.listdir(folder / "conversions")) != _DOCUMENTS:
            wrong.append("the kept conversions are not what they were")
        wrong += [f"in the end {problem.kind}" for problem in store.writer.run(integrity.check)]
    finally:
        store.close()
    return wrong


def _may_be_out(told: Sequence[str]) -> bool:
    """Return whether the play came to the deletion: killed in it, it may have been done."""
    return f"in {_DOCUMENTS - 1}" in told or any(line.startswith("refused") for line in told)


class Bench:
    """Plays in children of this process, one at a time, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "store"
        self._log = folder / "strace"

    def count(self) -> Counter[str]:
        """Return how often an undisturbed play makes each call. Raises Unavailable."""
        _told, code = self._played(())
        if code:
            raise Unavailable(f"a play that strace only looks at ended with {code}: {self._log.read_text()[-500:]}")
        return Counter(_CALL.findall(self._log.read_text()))

    def play(self, point: Point, report: Report) -> None:
        """Disturb a play at one call, and judge what it left."""
        told, code = self._played(("-e", f"inject={point.call}:{_INJECTED[point.mode].format(k=point.k)}"))
        report.runs[point.mode] += 1
        report.acknowledged += sum(not line.startswith("refused") for line in told)
        report.refused += sum(line.startswith("refused") for line in told)
        if point.mode == KILL:
            report.missed += code == 0
        elif code:
            report.wrong.append(f"{point}: it ended with {code} {told[-1:]}")
            return
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = judged(self._folder, told)
            except BaseException:  # noqa: BLE001 (told to the parent)
                answer = [traceback.format_exc(limit=-4)]
            os.write(write, json.dumps(answer)[:60_000].encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            wrong = json.loads(file.read() or '["the one who looked at it died"]')
        os.waitpid(child, 0)
        report.wrong += [f"{point} after {told[-2:]}: {what}" for what in wrong]

    def _played(self, injected: Sequence[str]) -> tuple[list[str], int]:
        """Return (what the play said, how it ended: negative by a signal)."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _make_folders(self._folder)
        assert threads() == 1, "only a process with one thread may be forked"
        go, begin = os.pipe()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(begin)
                ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
                os.read(go, 1)
                _play(self._folder, write)
                code = 0
            except BaseException:  # noqa: BLE001 (told to the parent)
                _say(write, f"surprise {traceback.format_exc(limit=-3)!r}")
            finally:
                os._exit(code)
        os.close(go)
        os.close(write)
        tracer = subprocess.Popen(
            ["strace", "-f", "-qq", "-p", str(child), "-o", self._log, "-e", f"trace=?{',?'.join(CALLS)}", *injected],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            close_fds=True,
        )
        try:
            self._wait_for(tracer, child)
        finally:
            os.close(begin)  # which it takes for the word to begin, too
        with os.fdopen(read) as file:
            told = file.read().splitlines()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        tracer.communicate()
        return told, code

    @staticmethod
    def _wait_for(tracer: subprocess.Popen[bytes], child: int) -> None:
        end = time.monotonic() + _ATTACHED_S
        status = Path(f"/proc/{child}/status")
        while "TracerPid:\t0\n" in status.read_text():
            if tracer.poll() is not None:
                assert tracer.stderr is not None
                raise Unavailable(tracer.stderr.read().decode().strip())
            if time.monotonic() > end:
                raise Unavailable("strace did not come within the time")
            time.sleep(0.001)


def chosen(calls: Counter[str], most: int | None) -> list[Point]:
    """Return the points: of each kind of call `most` to be killed at, and half as many for the others; None: all.

    By strides that reach the last one of its kind.
    """
    points = []
    for mode in MODES:
        for call in CALLS:
            wanted = calls[call] if most is None else most if mode == KILL else most // 2
            stride = max(1, calls[call] // max(wanted, 1))
            points += [Point(call, k, mode) for k in range(calls[call], 0, -stride)]
    return points


def run(most: int | None) -> Report:
    """Play all and return what came of it. Raises Unavailable."""
    if shutil.which("strace") is None:
        raise Unavailable("strace is not installed")
    report, memory = Report(), Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kbsync-calls-", dir=memory if memory.is_dir() else None) as folder:
        # Once in this process: what is imported when it is first needed is there in every child, and makes no calls.
        warm = Path(folder) / "warm"
        _make_folders(warm)
        judged(warm, ())
        bench = Bench(Path(folder))
        calls = bench.count()
        report.calls = dict(calls)
        for point in chosen(calls, most):
            bench.play(point, report)
    times = os.times()
    report.seconds = sum(times[:4])
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where something was lost, 2 where strace cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.syscall_points", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every call, not a sample")
    parser.add_argument("--most", type=int, default=50, help="calls of each kind to be killed at")
    parser.add_argument("--json", action="store_true", help="for a program")
    options = parser.parse_args(arguments)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        report = run(None if options.all else options.most)
    except Unavailable as error:
        sys.stdout.write(f"{error}\n")
        return 2
    if options.json:
        sys.stdout.write(json.dumps(asdict(report)))
        return 0
    for line in report.wrong:
        sys.stdout.write(f"{line}\n")
    runs = ", ".join(f"{report.runs[mode]} {mode}" for mode in MODES)
    sys.stdout.write(
        f"{sum(report.calls.values())} calls {report.calls}, {sum(report.runs.values())} plays ({runs}), "
        f"{report.acknowledged} acknowledged, {report.refused} refused, {report.missed} not reached, "
        f"{len(report.wrong)} wrong, {report.seconds:.0f} s of CPU\n"
    )
    return 1 if report.wrong else 0


if __name__ == "__main__":
    begin_again_with_one_thread("tests.faults.syscall_points")
    sys.exit(main())
