"""The benches run: on tiny sizes and fake devices. What they measure is no test's business."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbsync.clock import SystemClock
from kbsync.compose import Seams, build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.embed.model_files import ModelFiles
from kbsync.filesystem import RealFileSystem
from kbsync.interfaces.operations import Operations
from kbsync.model import ConversionRequest
from kbsync.pipelines.isolation import SlotStatus
from kbsync.sources.watcher import NativeWatcher
from tests.bench import documents, freshness, ingestion, scan, tree
from tests.bench.__main__ import main
from tests.bench.figures import Figure, as_json, ratio, table
from tests.bench.library import library_files
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.word_counter import WordCounter


class EngineInThisProcess:
    """A daemon with its threads, on a fake device."""

    def __init__(self, home: Path, folder: Path) -> None:
        locations = locate({"KBSYNC_HOME": str(home)})
        Path(locations.config_file).write_text(f"quiet_s = 0.1\n[[sources]]\npath = '{folder}'\n", encoding="utf-8")
        model = ModelFiles("/no/model", "hashed words", 16, 120, frozenset(), "", "", "hashed-words-16")
        seams = Seams(
            RealFileSystem(),
            SystemClock(),
            model,
            WordCounter(),
            lambda: [HashDevice()],
            NativeWatcher,
            lambda _slots, _folder: ReadingCage(),
        )
        self._engine = open_engine(locations, load_settings(locations.config_file), seams)
        self._daemon = build_daemon(self._engine)
        self._operations = Operations(self._engine, self._daemon, [])
        self._daemon.start()

    def search(self, query: str) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = self._operations.search(query, "hybrid", 10, 0)["hits"]
        return hits

    def waiting(self) -> int:
        return self._engine.kb.unsettled()

    def add_source(self, folder: str) -> None:
        self._operations.add_source(folder)

    def close(self) -> None:
        self._daemon.stop()
        self._engine.close()


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Yield home, `fresh` and `bulk`."""
    made = (tmp_path / "home", tmp_path / "fresh", tmp_path / "bulk")
    for folder in made:
        folder.mkdir()
    before = set(threading.enumerate())
    yield made
    assert not [thread.name for thread in set(threading.enumerate()) - before if not thread.daemon]


def test_the_scan_bench_walks_the_same_tree_as_the_bare_walk() -> None:
    figures = {figure.name: figure for figure in scan.measure(files=120, rounds=2, first_rounds=1)}
    assert len(figures["scan: rescan against bare"].values) == 2
    assert len(figures["scan: first scan against bare"].values) == 1
    assert all(value > 0 for figure in figures.values() for value in figure.values)


def test_the_tree_is_what_it_says(tmp_path: Path) -> None:
    scan.make_tree(str(tmp_path), 120)
    assert scan.bare_walk(str(tmp_path)) == 121
    assert sum(name.endswith(".tmp") for _, _, names in os.walk(tmp_path) for name in names) == 3


def test_the_tree_bench_moves_files_and_embeds_nothing_for_it() -> None:
    figures = {figure.name: figure for figure in tree.measure(files=200, moved=60, rounds=2)}
    assert figures["tree: texts embedded by the moves"].values == (0.0,)
    assert figures["tree: texts embedded, all"].values == (196.0,)
    assert len(figures["tree: rescan against bare"].values) == 2
    assert len(figures["tree: memory held, from before to after"].values) == 6


def test_the_freshness_bench_finds_what_it_drops_and_changes(folders: tuple[Path, Path, Path]) -> None:
    home, fresh, bulk = folders
    engine = EngineInThisProcess(home, fresh)
    try:
        figures = freshness.measured(engine, str(fresh), str(bulk), drops=1, queued_files=3)
    finally:
        engine.close()
    assert [len(figure.values) for figure in figures] == [1, 1, 1, 1, 2]
    assert all(value > 0 for figure in figures[:4] for value in figure.values)


def test_the_ingestion_bench_splits_the_time_into_all_of_it() -> None:
    figures = {figure.name: figure.median for figure in ingestion.measure(2, HashDevice(), WordCounter(), 3)}
    for what, files in (("code", 2), ("notes", 3)):
        name = f"ingestion of {what}"
        shares = [figures[f"{name}: share of {stage}"] for stage in ("read", "chunk", "embed", "commit")]
        assert sum(shares) == pytest.approx(100)
        assert figures[f"{name}: documents"] == files
        assert figures[f"{name}: chunks"] >= files


def test_the_documents_bench_takes_turns_and_tells_what_a_worker_held(tmp_path: Path) -> None:
    for name in ("one.pdf", "two.pdf"):
        (tmp_path / name).write_text("quince\fmedlar")
    asked = [documents.request_of(str(path), "no tokenizer", 1) for path in sorted(tmp_path.iterdir())]
    ours, bare = ReadingCage(), FixedCage()
    figures = {figure.name: figure for figure in documents.measured(ours, bare, asked, 3, HashDevice())}
    assert [len(figures[f"documents: cage against bare, {name}"].values) for name in ("one.pdf", "two.pdf")] == [3, 3]
    assert len(figures["documents: cage against bare, all"].values) == 3
    assert figures["documents: bare, all"].values == (2.0, 2.0, 2.0)
    assert len(ours.requests) == bare.runs == 2 + 2 * 3, "each was warm before it was measured"
    assert figures["documents: chunks embedded"].values == (4.0,)
    assert figures["documents: peak memory, bare"].values == (1.0,)


class FixedCage:
    """Bare conversions that take a second each."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, request: ConversionRequest, time_limit_s: float) -> float:
        self.runs += 1
        return 1.0

    def status(self) -> tuple[SlotStatus, ...]:
        return (SlotStatus("idle", 1, None, None, 0, 1 << 30),)


def test_library_files_are_as_many_as_asked_for_and_different() -> None:
    files = library_files(50)
    assert len(set(files)) == 50
    assert all(path.endswith(".py") and os.path.getsize(path) > 0 for path in files)


def test_a_figure_tells_median_and_p95() -> None:
    figure = Figure("a", "s", tuple(float(value) for value in range(1, 21)))
    assert (figure.median, figure.p95) == (10.5, 19.0)
    assert ratio("r", [2.0, 9.0], [1.0, 3.0]).values == (2.0, 3.0)
    assert "10.500" in table([figure])
    assert json.loads(as_json([figure]))["figures"]["a"]["p95"] == 19.0


def test_the_command_writes_the_figures_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "scan", "--files", "60", "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["figures"]
    printed = capsys.readouterr().out
    assert len(figures) == 5
    assert all(name in printed for name in figures)


def test_the_command_refuses_a_bench_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "scan,speed"])
    assert "no such bench: speed" in capsys.readouterr().err
