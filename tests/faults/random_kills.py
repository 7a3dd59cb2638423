"""T6: a real daemon over folders that never rest is killed again and again: nothing that it acknowledged is ever lost.

python -m tests.faults.random_kills [--rounds N] [--seed S]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kbsync.config.locations import Locations
from kbsync.errors import KbsyncError, UsageError
from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.paths import encode
from kbsync.knowledge_base import integrity
from kbsync.store.writer import Writer
from tests.fakes.eventually import eventually
from tests.faults.nursery import Nursery, configured, settled
from tests.faults.restless_folder import INBOX, MIRRORS, OUTSIDE, RestlessFolder
from tests.faults.table_dump import Tables, tables_of

ROUNDS, SEED = 60, 7
# After the first commit of its round the daemon lives so much longer (seconds).
_SHORTEST_S, _LONGEST_S = 0.1, 1.5
# In so many rounds of a hundred a child that converts is killed before the daemon is.
_CHILDREN_PERCENT = 25
_SETTINGS = {"quiet_s": 0.1, "longest_wait_s": 1.0, "rescan_s": 2.0, "workers": 2, "max_missing_share": 1.0}


@dataclass(slots=True)
class Kills:
    """What was done and what came of it. `lost`: acknowledged and not there, or there and not right."""

    seed: int
    daemons: int = 0
    children: int = 0
    # Rounds in which something was committed; jobs acknowledged before a kill; answers given before one.
    rounds: int = 0
    acknowledged: int = 0
    answered: int = 0
    changes: int = 0
    # Files that were being read at six kills in a row.
    parked: int = 0
    documents: int = 0
    forks: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"T6 seed {self.seed}: {self.daemons} daemons and {self.children} children killed in {self.rounds} rounds "
            f"with commits, {self.changes} changes, {self.acknowledged} jobs and {self.answered} requests "
            f"acknowledged, {self.documents} documents at the end, {self.parked} parked, lost: {len(self.lost)}, "
            f"{self.seconds:.0f} s"
        )


class _Asker:
    """Asks a daemon for all sorts of things, from a thread, until it is dead; keeps what it answered."""

    def __init__(self, ground: Path, seed: int) -> None:
        self._ground = ground
        self._random = random.Random(seed)
        self._words = 0
        # Of notes and added files that were promised to be read: a word that only each has -> its job.
        self.promised: dict[str, int] = {}

    @contextmanager
    def asking(self, client: Callable[[], Client | None]) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._ask, args=(client, stop), name="asker")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _ask(self, client: Callable[[], Client | None], stop: threading.Event) -> None:
        while not stop.wait(self._random.uniform(0.02, 0.2)):
            asked = client()
            if asked is None:
                continue  # not there yet
            with suppress(KbsyncError):  # killed meanwhile: what was not answered was not promised
                self._random.choice((self._note, self._note, self._add, self._pause, self._look))(asked)

    def _word(self) -> str:
        self._words += 1
        return f"promise{self._words}x"

    def _note(self, client: Client) -> None:
        word = self._word()
        self.promised[word] = client.post("notes", {"text": f"A note with the word {word}."})["job_id"]

    def _add(self, client: Client) -> None:
        word = self._word()
        path = self._ground / OUTSIDE / f"{word}.md"
        path.write_text(f"# Added\n\nA file with the word {word}.\n")
        (job,) = client.post("local/add", {"paths": [encode(str(path))]})["jobs"]
        path.unlink()  # its only copy is kbsync's now
        self.promised[word] = job["job_id"]

    def _pause(self, client: Client) -> None:
        folder = {"path": encode(str(self._ground / self._random.choice(MIRRORS)))}
        client.post("local/sources/pause", folder)
        client.post("local/sources/resume", folder)

    def _look(self, client: Client) -> None:
        client.get("search", q="ripens late")
        client.post("local/rescan")


class _Log:
    """The daemon's own log: what it says to have done, it said after the commit."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0

    def indexed(self) -> list[tuple[str, int]]:
        """Return (path, document) of the jobs that ended well since the last call."""
        if not os.path.exists(self._path):
            return []
        with open(self._path, "rb") as file:
            file.seek(self._at)
            lines = file.read().splitlines(keepends=True)
        found = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # being written, or cut off
            self._at += len(line)
            with suppress(ValueError):  # the next daemon wrote behind half a line
                entry = json.loads(line)
                if entry.get("event") == "job_ended" and entry.get("document_id") is not None:
                    found.append((str(entry["path"]), int(entry["document_id"])))
        return found


class _Story:
    """One folder and one home through all rounds."""

    def __init__(self, base: Path, nursery: Nursery, kills: Kills) -> None:
        self._base, self._nursery, self._kills = base, nursery, kills
        self._random = random.Random(kills.seed)
        self._ground = base / "ground"
        self._mirrors = [str(self._ground / name) for name in MIRRORS]
        self.folder = RestlessFolder(self._ground, kills.seed)
        self._asker = _Asker(self._ground, kills.seed)
        self._places = _configured(base / "home", self._mirrors, str(self._ground / INBOX))
        self._log = _Log(self._places.log_file)
        self._acknowledged: set[tuple[str, int]] = set()

    @property
    def promised(self) -> dict[str, int]:
        return self._asker.promised

    def round(self) -> None:
        """Begin a daemon, wait for its first commit, kill it some time after, and look at what is left."""
        nursery, kills = self._nursery, self._kills
        nursery.begin(self._base / "home")
        with self._asker.asking(nursery.client):
            new = eventually(self._first, within_s=60.0, every_s=0.005)
            due = time.monotonic() + self._random.uniform(_SHORTEST_S, _LONGEST_S)
            if self._random.random() < _CHILDREN_PERCENT / 100:
                kills.children += self._kill_a_child(due)
            time.sleep(max(0.0, due - time.monotonic()))
            nursery.signal(signal.SIGKILL)
            ended = nursery.ended()
            left = nursery.left()
        assert ended == -signal.SIGKILL, nursery.messages()
        assert not left, f"orphans: {left}"
        kills.daemons += 1
        kills.rounds += 1
        new += self._log.indexed()
        kills.acknowledged += len(new)
        self._acknowledged.update(new)
        with _copied(self._places, self._base / "copy") as tables:
            assert tables.damages() == []
            kills.lost += _forgotten(tables, new, self._asker.promised)

    def _first(self) -> list[tuple[str, int]]:
        self._nursery.assert_alive()
        return self._log.indexed()

    def _kill_a_child(self, due: float) -> bool:
        """Kill one that reads documents, if there is any in time."""
        while time.monotonic() < due:
            for child in self._nursery.children():
                with suppress(psutil.NoSuchProcess):
                    if any("spawn_main" in word for word in child.cmdline()):
                        child.kill()
                        return True
            time.sleep(0.01)
        return False

    def end(self) -> None:
        """Let everything come to rest and compare it with a clean run over the same folders."""
        nursery, kills = self._nursery, self._kills
        kills.changes = self.folder.account.changes
        client = nursery.begin_serving(self._base / "home")
        for mirror in self._mirrors:
            with suppress(UsageError):  # most often it is not paused
                client.post("local/sources/resume", {"path": encode(mirror)})
        kills.parked = _parked_again(client)
        before = _descriptors(nursery.pid, self._places)
        for number in range(20):
            self._asker.promised[f"late{number}x"] = client.post("notes", {"text": f"late{number}x"})["job_id"]
        settled(client)
        # Connections that clients have closed may still be going.
        eventually(lambda: not _descriptors(nursery.pid, self._places) - before)
        self._stop()
        assert os.listdir(self._places.staging_dir) == []
        with tables_of(self._places.database) as tables:
            assert tables.damages() == []
            kills.lost += _forgotten(tables, self._acknowledged, self._asker.promised)
            kills.lost += [f"promised, not found: {word}" for word in _unfound(tables, self._asker.promised)]
            kills.lost += self.folder.lost_of_inbox(lambda content_hash: _stored(tables, content_hash))
            kills.documents = len(tables.rows("SELECT id FROM documents WHERE state = 'current'"))
            found = tables.searchable(self._mirrors)
            open_jobs = tables.rows("SELECT id, path, state FROM jobs WHERE state IN ('queued', 'processing')")
            bad = tables.rows("SELECT path, state, reason, detail FROM files WHERE state NOT IN ('indexed', 'gone')")
        assert open_jobs == []
        assert os.listdir(self._ground / INBOX) == [], f"not taken in: {bad}"
        assert self.folder.wrong() == [], "what lies in a mirror is nobody's to change"
        expected = self._clean_run()
        for what in expected:
            differing = set(map(repr, found[what])) ^ set(map(repr, expected[what]))
            assert found[what] == expected[what], f"{what} differ from a clean run's: {sorted(differing)[:4]}"
        kills.forks = nursery.forks

    def _clean_run(self) -> dict[str, list[tuple[object, ...]]]:
        home = self._base / "clean"
        places = _configured(home, self._mirrors)
        settled(self._nursery.begin_serving(home))
        self._stop()
        with tables_of(places.database) as tables:
            return tables.searchable(self._mirrors)

    def _stop(self) -> None:
        self._nursery.signal(signal.SIGTERM)
        assert self._nursery.ended() == 0, self._nursery.messages()
        assert self._nursery.left() == []


def _parked_again(client: Client) -> int:
    """Do what a person does for files that were read at six kills, and so look as if they were to blame; count them.

    Those that were read at fewer need not wait any more either.
    """
    for job in client.get("jobs", state="queued", limit=1000)["jobs"]:
        with suppress(KbsyncError):  # it has begun meanwhile, or ended
            client.post(f"jobs/{job['id']}/retry")
    settled(client)
    parked = int(client.get("status")["files"]["states"].get("failed", 0))
    if parked:
        client.post("local/jobs/retry-failed")
        settled(client)
    return parked


def _configured(home: Path, mirrors: Sequence[str], inbox: str | None = None) -> Locations:
    entries = [f"path = {json.dumps(mirror)}" for mirror in mirrors]
    if inbox is not None:
        entries.append(f'path = {json.dumps(inbox)}\nmode = "inbox"')
    return configured(home, *entries, **_SETTINGS)


@contextmanager
def _copied(places: Locations, folder: Path) -> Iterator[Tables]:
    """Check a copy of a dead process' database with kbsync's own check, and open it: the next start has the original.

    So that it recovers by itself.
    """
    folder.mkdir()
    try:
        for ending in ("", "-wal"):
            if os.path.exists(places.database + ending):
                shutil.copyfile(places.database + ending, folder / f"kb.sqlite3{ending}")
        writer = Writer(str(folder / "kb.sqlite3"))
        writer.open()
        try:
            assert writer.run(integrity.check) == []
        finally:
            writer.close()
        with tables_of(writer.path) as tables:
            yield tables
    finally:
        shutil.rmtree(folder)


def _forgotten(
    tables: Tables, acknowledged: set[tuple[str, int]] | list[tuple[str, int]], promised: dict[str, int]
) -> list[str]:
    """Return what was told to be done, or promised, and is not in the database."""
    known = {(path, number) for path, number in tables.rows("SELECT path, document_id FROM origins")}
    documents = {number for (number,) in tables.rows("SELECT id FROM documents")}
    jobs = {number for (number,) in tables.rows("SELECT id FROM jobs")}
    lost = [
        f"acknowledged: {path} as document {number}"
        for path, number in acknowledged
        if number not in documents or (path and (os.fsencode(path), number) not in known)
    ]
    # Taken first: the asker may be told of more meanwhile.
    return lost + [f"promised: {word} as job {job}" for word, job in list(promised.items()) if job not in jobs]


def _unfound(tables: Tables, words: dict[str, int]) -> list[str]:
    texts = tables.rows(
        "SELECT c.text FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.state = 'current'"
    )
    found = {word for (text,) in texts for word in text.replace(".", " ").split()}
    return [word for word in words if word not in found]


def _stored(tables: Tables, content_hash: str) -> bytes | None:
    rows = tables.rows(
        "SELECT stored_path FROM documents WHERE content_hash = ? AND state = 'current' AND stored_path IS NOT NULL",
        (content_hash,),
    )
    return Path(rows[0][0]).read_bytes() if rows else None


def _descriptors(pid: int, places: Locations) -> Counter[str]:
    """Count a process' open files by what they are. Connections to the database come and go with its threads."""
    found: Counter[str] = Counter()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            continue  # closed meanwhile
        if not target.startswith(places.database):
            found[target.partition(":")[0]] += 1
    return found


def play(rounds: int, seed: int) -> Kills:
    """Play so many rounds; raises AssertionError where anything but an acknowledged job is wrong."""
    kills = Kills(seed)
    began = time.monotonic()
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="kbsync-t6-", dir=memory if memory.is_dir() else None)
    with folder as base, Nursery() as nursery:
        story = _Story(Path(base), nursery, kills)
        with story.folder:
            for _ in range(rounds):
                story.round()
        kills.answered = len(story.promised)
        story.end()
    kills.seconds = time.monotonic() - began
    return kills


def main(arguments: Sequence[str] | None = None) -> int:
    """Play and tell; return 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.random_kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args(arguments)
    kills = play(chosen.rounds, chosen.seed)
    print(kills, *kills.lost, sep="\n")
    return 1 if kills.lost or kills.forks else 0


if __name__ == "__main__":
    raise SystemExit(main())
