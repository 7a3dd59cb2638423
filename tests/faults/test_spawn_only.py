"""S08: nothing is forked, long paths are ordinary ones, and Windows, which is not supported, says so in a sentence."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.filesystem import RealFileSystem
from kbsync.model import Source
from kbsync.sources.scanner import scan
from kbsync.sources.snapshot import read_snapshot
from tests.meta.checkout import ROOT

# What forks, or runs Python code between fork and exec, where threads and torch's locks are copied halfway.
FORKING = {"fork", "forkpty", "preexec_fn", "set_start_method", "Pool", "Manager", "ProcessPoolExecutor"}
# The module's own are of the system's usual kind, which is fork on Linux up to Python 3.13.
USUAL_KIND = {"Process", "Pipe", "Queue", "Event", "Lock", "Semaphore", "Value", "Array"}


def forking(source: str) -> Iterator[str]:
    """Yield what in a program's text starts processes otherwise than by spawn."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.alias(name=name) if name in FORKING:
                yield name
            case ast.Attribute(value=ast.Name(id="multiprocessing"), attr=name) if name in USUAL_KIND:
                yield name
            case ast.ImportFrom(module="multiprocessing", names=names):
                yield from (alias.name for alias in names if alias.name in USUAL_KIND)
            case ast.Call(func=ast.Attribute(attr="get_context"), args=arguments):
                match arguments:
                    case [ast.Constant(value="spawn")]:
                        pass
                    case _:
                        yield "get_context"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.fork()", ["fork"]),
        ("import multiprocessing\nmultiprocessing.Process()", ["Process"]),
        ("from multiprocessing import Queue", ["Queue"]),
        ("import multiprocessing\nmultiprocessing.get_context()", ["get_context"]),
        ("import multiprocessing\nmultiprocessing.get_context('forkserver')", ["get_context"]),
        ("import multiprocessing\nmultiprocessing.get_context('spawn').Process()", []),
        ("import subprocess\nsubprocess.run(['ls'], preexec_fn=print)", ["preexec_fn"]),
        ("import subprocess\nsubprocess.run(['ls'])", []),
    ],
)
def test_what_forks_is_known(source: str, found: list[str]) -> None:
    assert list(forking(source)) == found


def test_every_process_is_spawned() -> None:
    """S08: no fork: after torch or with threads it deadlocks, and Windows has none."""
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "kbsync").rglob("*.py"))
        if (names := list(forking(path.read_text(encoding="utf-8"))))
    }
    assert not found


def test_a_path_of_more_than_260_characters_is_walked_and_read(tmp_path: Path) -> None:
    """S08: the limit of older Windows programs."""
    folder = tmp_path.resolve() / "/".join(["a long name of a folder " * 4] * 6)
    folder.mkdir(parents=True)
    file = folder / "quince.md"
    file.write_text("quince")
    assert len(str(file)) > 500
    fs = RealFileSystem()
    assert [seen.path for seen in scan(fs, Source(1, str(tmp_path.resolve())))] == [str(file)]
    assert read_snapshot(fs, str(file), 100).head == b"quince"


def test_windows_is_told_that_it_is_not_supported() -> None:
    """S08: in place of a traceback about a module that is not there."""
    program = "import sys; sys.platform = 'win32'; from kbsync.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == ["kbsync: Windows is not supported; in its Linux (WSL 2) kbsync runs."]
