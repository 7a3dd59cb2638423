"""T5 of the copies that kbsync keeps: whenever the power goes, no file that was given to it is lost with its place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BufferedWriter
from pathlib import Path
from typing import Any
from unittest import mock

from kbsync import filesystem
from kbsync.config import locations
from kbsync.errors import KbsyncError
from kbsync.model import IngestOptions
from kbsync.store import stored_files
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.faults.power_lives import Waiting, told_to_wait
from tests.faults.power_log import DiskLog
from tests.faults.recording_vfs import recorded

INBOX = "/simulated/inbox"
ELSEWHERE = "/simulated/elsewhere"
_SOURCES = f'[[sources]]\npath = "{INBOX}"\nmode = "inbox"\n'


class _RecordingOs:
    """The module `os` for the modules that keep copies, with what they do to the disk written down.

    What was written to a file and never synced is taken to be lost.
    """

    def __init__(self, log: DiskLog) -> None:
        self._log = log
        self._opened: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            self._log.create(path)
        self._opened[descriptor] = path
        return descriptor

    def fdopen(self, descriptor: int, mode: str) -> BufferedWriter:
        assert mode == "wb"
        return os.fdopen(descriptor, "wb")

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        path = self._opened[descriptor]
        if os.path.isdir(path):
            self._log.sync_folder(path)
        else:
            self._log.write(self._log.names[path], 0, Path(path).read_bytes())
            self._log.sync(self._log.names[path])

    def makedirs(self, path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        above = os.path.dirname(path)
        if not os.path.isdir(above):
            self.makedirs(above, mode, exist_ok)
        if not os.path.isdir(path):
            os.mkdir(path, mode)
            self._log.make_folder(path)

    def link(self, before: str, path: str) -> None:
        os.link(before, path)
        self._log.link(self._log.names[before], path)

    def replace(self, before: str, path: str) -> None:
        os.replace(before, path)
        self._log.rename(before, path)

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self._log.unlink(path)


@dataclass(slots=True)
class Given:
    """What an engine was given and when: places in the log.

    A file in an inbox is there from `dropped` on and may be gone from `taken` on: then all depends on the copy.
    What was added by hand is kbsync's from `told` on.
    """

    folder: str
    log: DiskLog = field(default_factory=DiskLog)
    dropped: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    told: list[tuple[int, bytes]] = field(default_factory=list)

    def take(self, path: str) -> None:
        self.taken.setdefault(path, len(self.log))

    def harm(self, place: str, point: int) -> tuple[str, str] | None:
        """Begin another life on what is left, let it settle, and look for everything that was given until then."""
        world = World.new(Path(place))
        world.configure(text=_SOURCES)
        world.fs.make_directory(INBOX)
        there = {path: content for path, (since, content) in self.dropped.items() if since < point}
        for path, content in there.items():
            if self.taken.get(path, point) >= point:
                world.fs.write(path, content)
        try:
            life = SimulatedEngine(world)
            try:
                life.settle()
                told = [content for since, content in self.told if since <= point]
                lost, problems = self._lost(life, [*there.values(), *told]), life.kb.check()
                return ("corrupt", str(problems[0])) if problems and lost is None else lost
            finally:
                life.close()
        except KbsyncError as error:
            return "corrupt", str(error)

    def _lost(self, life: SimulatedEngine, given: list[bytes]) -> tuple[str, str] | None:
        kept = dict(life.read("SELECT content_hash, stored_path FROM documents WHERE state = 'current'"))
        for content in given:
            content_hash = hashlib.sha256(content).hexdigest()
            if content_hash not in kept:
                return "lost", f"{content[:20]!r} is not found"
            path = kept[content_hash]
            if path is None or not os.path.isfile(path):
                return "lost", f"{content[:20]!r} has no copy at {path}"
            if Path(path).read_bytes() != content:
                return "corrupt", f"the copy {path} of {content[:20]!r} holds something else"
        return None


def taken_in(folder: str, waiting: Waiting) -> Given:
    """Play an engine's first day: files dropped into an inbox, the same bytes again, files added by hand."""
    given = Given(folder)
    world = World.new(Path(folder))
    world.configure(text=_SOURCES)
    for path in (INBOX, ELSEWHERE):
        world.fs.make_directory(path)
    with _files_recorded(given.log), recorded(given.log, world.locations.data_dir):
        life = SimulatedEngine(world)
        try:
            life.engine.writer.run_alone(partial(told_to_wait, waiting))
            life.inboxes.before_removal = given.take
            for number in range(8):
                _drop(life, given, f"{number}.md", f"# Dropped {number}\n\n" + f"{'pears' * 200} " * number)
                if number % 2:
                    _add(life, given, f"{number}.txt", f"added {number} " + f"{'plums' * 100} " * number)
                life.settle()
            _drop(life, given, "again.md", "# Dropped 3\n\n" + f"{'pears' * 200} " * 3)
            life.settle()
            assert not life.fs.list_directory(INBOX)
        finally:
            # The last one to close tries a checkpoint, which none may that only reads: apsw's own files raise that.
            life.engine.readers.close()
            life.close()
    return given


def _drop(life: SimulatedEngine, given: Given, name: str, text: str) -> None:
    path = f"{INBOX}/{name}"
    given.dropped[path] = (len(given.log), text.encode())
    life.write(path, text)
    life.clock.advance(60.0)


def _add(life: SimulatedEngine, given: Given, name: str, text: str) -> None:
    path = f"{ELSEWHERE}/{name}"
    life.fs.write(path, text.encode())
    life.kb.adding.add_file(path, IngestOptions())
    given.told.append((len(given.log), text.encode()))


@contextmanager
def _files_recorded(log: DiskLog) -> Iterator[None]:
    recording = _RecordingOs(log)
    with ExitStack() as patched:
        for module in (filesystem, locations, stored_files):
            patched.enter_context(mock.patch.object(module, "os", recording))
        yield
