"""Takes in what is dropped into the sources/ of knowledge projects, once it has been quiet for a while.

Projects know no database: what they hold is in their files, and what is refused stays where it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from kbsync.clock import Clock
from kbsync.daemon.wake import Wake
from kbsync.daemon.watchers import MakeWatcher, Watchers
from kbsync.errors import EngineBusy, KbsyncError, RetryLater
from kbsync.model import Change, Source
from kbsync.projects.arrivals import Refusal, is_left_out
from kbsync.projects.ingest import Tools, ingest
from kbsync.projects.project import Project, is_project
from kbsync.sources.mounts import Mount

log = structlog.stdlib.get_logger(__name__)

# Every project is looked at this often, whatever its watcher tells.
_LOOK_S = 300.0
# A command has the project just now, or a file could not be read just now.
_AGAIN_S = 5.0
_LONGEST_SLEEP_S = 60.0

# (size, time of change in nanoseconds, inode): another one is another content, or another file.
_Look = tuple[int, int, int]


@dataclass(slots=True)
class _Followed:
    """One project: when it is looked at next (monotonic), how its waiting files looked last, what was refused."""

    number: int
    project: Project
    due_at: float
    seen: dict[str, _Look] = field(default_factory=dict)
    seen_at: float = float("-inf")
    refused: dict[str, tuple[_Look | None, str]] = field(default_factory=dict)
    problem: str | None = None
    # It was looked at since somebody asked.
    is_known: bool = False


class Intake:
    """Follows the projects that are configured. `follow` and `status` from any thread, steps from one at a time.

    `rests` says why work rests now, None where it goes on.
    """

    def __init__(
        self,
        clock: Clock,
        tools: Tools,
        make_watcher: MakeWatcher,
        mounts: Callable[[], Sequence[Mount]],
        quiet_s: float,
        rests: Callable[[], str | None],
        stop: threading.Event,
    ) -> None:
        self._clock = clock
        self._tools = tools
        self._quiet_s = quiet_s
        self._rests = rests
        self._stop = stop
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._numbers = 0
        self._bell = Wake()
        self.watchers = Watchers(make_watcher, clock, self._changed, lambda number, _why: self._mark(number), mounts)

    def follow(self, roots: Iterable[str]) -> None:
        """Make the set of followed projects what the settings say."""
        wanted = set(roots)
        with self._lock:
            gone = [one for root, one in self._followed.items() if root not in wanted]
            new = []
            for root in sorted(wanted - set(self._followed)):
                self._numbers += 1
                new.append(_Followed(self._numbers, Project(root), self._clock.monotonic()))
            for one in gone:
                del self._followed[one.project.root]
            self._followed.update({one.project.root: one for one in new})
        for one in gone:
            self.watchers.end(one.number)
        for one in new:
            self.watchers.begin(Source(one.number, one.project.sources, recursive=False))
        self.wake()

    def run(self) -> None:
        """Step until told to stop."""
        while not self._stop.is_set():
            rings = self._bell.rings()
            if not self.step():
                self._bell.wait(rings, self._pause())

    def wake(self) -> None:
        """Make `run` look what there is to do."""
        self._bell.ring()

    def step(self) -> bool:
        """Look at one project whose time has come; False where there is none."""
        if self._rests() is not None:
            return False
        now = self._clock.monotonic()
        with self._lock:
            due = [one for one in self._followed.values() if one.due_at <= now]
            if not due:
                return False
            one = min(due, key=lambda one: one.due_at)
            one.due_at = now + _LOOK_S
        try:
            self._look(one, now)
            one.is_known = True
        except EngineBusy:
            self._again(one, _AGAIN_S)
        except RetryLater as error:  # the project's disk is full, or no child is free
            self._tell(one, str(error))
            self._again(one, _AGAIN_S)
        except (KbsyncError, OSError) as error:
            self._tell(one, str(error))
            one.is_known = True
        return True

    def request(self) -> None:
        """Have every project looked at now."""
        with self._lock:
            for one in self._followed.values():
                one.due_at, one.is_known = self._clock.monotonic(), False
        self.wake()

    def idle(self) -> bool:
        """Return whether every project was looked at, and nothing waits there that could be taken in."""
        with self._lock:
            return all(one.is_known and (one.problem is not None or not one.seen) for one in self._followed.values())

    def status(self) -> list[dict[str, object]]:
        """Return for each project its path, the names that wait, what is refused with the reason, and its problem."""
        with self._lock:
            return [
                {
                    "path": one.project.root,
                    "waiting": sorted(one.seen),
                    "refused": [{"file": file, "reason": why} for file, (_, why) in sorted(one.refused.items())],
                    "problem": one.problem,
                }
                for one in sorted(self._followed.values(), key=lambda one: one.project.root)
            ]

    def _look(self, one: _Followed, now: float) -> None:
        if not is_project(one.project.root):
            is_there = os.path.isdir(one.project.root)
            self._tell(one, f"{one.project.root} is {'no project any more' if is_there else 'not there now'}.")
            return
        self._tell(one, None)
        looks = _looks(one.project.sources)
        refused = {file: told for file, told in one.refused.items() if looks.get(file) == told[0]}
        if not set(one.refused) <= set(looks):
            refused = {}  # one is gone: perhaps others were in its way alone
        waiting = {file: look for file, look in looks.items() if file not in refused}
        rested = now - one.seen_at >= self._quiet_s
        quiet = {file for file, look in waiting.items() if rested and one.seen.get(file) == look}
        with self._lock:
            if rested or set(waiting) != set(one.seen):
                one.seen_at = now
            one.seen, one.refused = waiting, refused
        if not quiet:
            if waiting:
                self._again(one, self._quiet_s)
            return
        outcome = ingest(one.project, self._tools, only=lambda file: file in quiet)
        for notice in outcome.notices:
            log.warning("project_mended", path=one.project.root, why=notice)
        for taken in outcome.taken:
            log.info("project_ingested", path=os.path.join(one.project.sources, taken.file))
        self._settle(one, outcome.refused, looks)

    def _settle(self, one: _Followed, refusals: Sequence[Refusal], looks: dict[str, _Look]) -> None:
        """Remember what was refused as it is now: it is tried again when it has changed, or another one came."""
        lasting = {
            refusal.file: (looks.get(refusal.file), refusal.message) for refusal in refusals if not refusal.again
        }
        for file in sorted(set(lasting) - set(one.refused)):
            log.warning("project_refused", path=os.path.join(one.project.sources, file), why=lasting[file][1])
        left = _looks(one.project.sources)
        with self._lock:
            one.refused = lasting
            one.seen = {file: look for file, look in left.items() if file not in lasting}
        if any(refusal.again for refusal in refusals):
            self._again(one, _AGAIN_S)
        elif one.seen:
            self._again(one, self._quiet_s)

    def _tell(self, one: _Followed, problem: str | None) -> None:
        if problem is not None and problem != one.problem:
            log.warning("project_unusable", path=one.project.root, error=problem)
        one.problem = problem

    def _again(self, one: _Followed, seconds: float) -> None:
        with self._lock:
            one.due_at = min(one.due_at, self._clock.monotonic() + seconds)

    def _changed(self, change: Change) -> None:
        self._mark(change.source_id)

    def _mark(self, number: int) -> None:
        now = self._clock.monotonic()
        with self._lock:
            for one in self._followed.values():
                if one.number == number:
                    one.due_at = min(one.due_at, now)
        self._bell.ring()

    def _pause(self) -> float:
        if self._rests() is not None:
            return _LONGEST_SLEEP_S
        now = self._clock.monotonic()
        with self._lock:
            times = [one.due_at - now for one in self._followed.values()]
        return max(0.05, min([_LONGEST_SLEEP_S, *times]))


def _looks(folder: str) -> dict[str, _Look]:
    """Return how each entry of a folder that can be taken in, or refused, looks now. Raises OSError."""
    found: dict[str, _Look] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_left_out(entry.name):
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found[entry.name] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found
