"""Makes the index anew for another model, beside searches: as a person's daemon does it, killed once in the middle."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbsync.errors import KbsyncError
from tests.bench.figures import Figure
from tests.end_to_end.program import Daemon, Program
from tests.fakes.random_model import make_random_model

CHUNKS = 5000
_SECTIONS = 50  # of one chunk each, in a file
_IDLE_SEARCHES = 60
# One person types no faster; back to back the searches themselves would be the load.
_PAUSE_S = 0.1
_PATIENCE_S = 3600.0
_WORDS = """
anchor basket candle dinner engine forest garden harbour island jacket kettle ladder market needle orchard pencil
quarry ribbon saddle timber umbrella valley window yellow
""".split()  # noqa: SIM905 (a list of words would fill a page)


@dataclass(slots=True)
class Searches:
    """What a series of searches took, in seconds, and what went wrong."""

    lexical: list[float] = field(default_factory=list)
    hybrid: list[float] = field(default_factory=list)
    by_words_only: int = 0
    failures: list[str] = field(default_factory=list)

    def one(self, daemon: Daemon, number: int) -> None:
        """Search once by words and once by words and meaning."""
        for mode, seconds in (("lexical", self.lexical), ("hybrid", self.hybrid)):
            begun = time.perf_counter()
            try:
                answer = daemon.client.get("search", q=_text(number * 7, 4), mode=mode)
            except KbsyncError as error:
                self.failures.append(str(error))
                continue
            seconds.append(time.perf_counter() - begun)
            if not answer["hits"]:
                self.failures.append(f"nothing found by {mode}")
            self.by_words_only += answer["mode"] != mode
        time.sleep(_PAUSE_S)


def measure(chunks: int = CHUNKS) -> list[Figure]:
    """Return seconds of searches, idle and beside the reindex, and how far it was before and after a kill."""
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as base:
        root = Path(base).resolve()
        wider = make_random_model(root / "wider", 768)
        folder = root / "notes"
        _write_notes(folder, chunks)
        program = Program(root / "home")
        _configure(program, folder, str(wider))
        idle, beside, back = Searches(), Searches(), Searches()
        with program.daemon() as daemon:
            _until(daemon.has_model)
            ticket = daemon.client.post("local/rescan")["ticket"]
            _until(lambda: bool(daemon.client.get("local/settled", ticket=ticket)["settled"]))
            for number in range(_IDLE_SEARCHES):
                idle.one(daemon, number)
            total = _reindex(daemon)["chunks_total"]
        _configure(program, folder, "packaged")
        begun = time.perf_counter()
        with program.daemon() as daemon:
            _until(daemon.has_model)
            killed_at = _search_until(daemon, beside, lambda state: state["chunks_done"] >= 0.4 * total)["chunks_done"]
            daemon.signal(signal.SIGKILL)
            daemon.ended(within_s=30)
        with program.daemon() as daemon:
            resumed_at = _reindex(daemon)["chunks_done"]
            _until(daemon.has_model)
            _search_until(daemon, beside, lambda state: state["state"] != "running")
            there_s = time.perf_counter() - begun
            there = _reindex(daemon)
        with program.daemon():
            pass  # a start drops the replaced table; as long as it is there, going back needs no work at all
        _configure(program, folder, str(wider))
        begun = time.perf_counter()
        with program.daemon() as daemon:
            _until(daemon.has_model)
            _search_until(daemon, back, lambda state: state["state"] != "running")
            back_s = time.perf_counter() - begun
            last = _reindex(daemon)
            whole = daemon.client.post("local/check")["ok"]
        for series in (idle, beside, back):
            for failure in series.failures[:3]:
                print(f"failed: {failure}")
    return [
        Figure("reindex: chunks before, there, back", "chunks", (total, there["chunks_done"], last["chunks_done"])),
        Figure("reindex: done when killed, when resumed", "chunks", (killed_at, resumed_at)),
        Figure("reindex: 768 to 384, starts included", "s", (there_s,)),
        Figure("reindex: back to 768, start included", "s", (back_s,)),
        Figure("reindex: lexical search, idle", "s", tuple(idle.lexical)),
        Figure("reindex: lexical search, beside", "s", tuple(beside.lexical)),
        Figure("reindex: hybrid search, idle", "s", tuple(idle.hybrid)),
        Figure("reindex: hybrid search, beside", "s", tuple(beside.hybrid)),
        Figure("reindex: hybrid search, on the way back", "s", tuple(back.hybrid)),
        Figure("reindex: searches answered by words only", "searches", (beside.by_words_only, back.by_words_only)),
        Figure(
            "reindex: searches that failed",
            "searches",
            tuple(len(one.failures) for one in (idle, beside, back)),
        ),
        Figure("reindex: index whole afterwards (1: yes)", "", (float(whole),)),
    ]


def _search_until(daemon: Daemon, searches: Searches, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + _PATIENCE_S
    number = 0
    while not done(state := _reindex(daemon)) and state["state"] == "running":
        assert time.monotonic() < end, state
        searches.one(daemon, number)
        number += 1
    return state


def _reindex(daemon: Daemon) -> dict[str, Any]:
    return daemon.client.get("reindex")


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def _configure(program: Program, folder: Path, embedder: str) -> None:
    program.home.mkdir(exist_ok=True)
    lines = ["[http]", "port = 0", "[models]", f"embedder = {json.dumps(embedder)}"]
    lines += ["[[sources]]", f"path = {json.dumps(str(folder))}", ""]
    Path(program.places.config_file).write_text("\n".join(lines), encoding="utf-8")


def _write_notes(folder: Path, chunks: int) -> None:
    folder.mkdir()
    for first in range(0, chunks, _SECTIONS):
        sections = [
            f"## Section {number}\n\n{_text(number, 90)}" for number in range(first, min(first + _SECTIONS, chunks))
        ]
        path = folder / f"{first:06}.md"
        path.write_text(f"# Notes from {first}\n\n" + "\n\n".join(sections), encoding="utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))  # old enough to be taken at the first look


def _text(number: int, words: int) -> str:
    """Return words in an order that differs from number to number."""
    return " ".join(_WORDS[(number * 31 + place * (1 + number % 11)) % len(_WORDS)] for place in range(words))
