"""I10: after a day's work of the daemon a mirror's folder is as it was, byte for byte, mode for mode, time for time.

Where strace may be used: and nothing in it was ever opened for writing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.meta.checkout import ROOT

DEEDS = ("settle", "search", "add", "remove", "leave out", "take in", "restart", "settle")
# Everything by which a file, a folder or what is known of it could be changed.
_CALLS = (
    "open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,mkdirat,"
    "rmdir,mknod,mknodat,chmod,fchmod,fchmodat,chown,lchown,fchown,fchownat,truncate,ftruncate,utimensat,utimes,utime,"
    "setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,fallocate"
)
_WRITING = re.compile(r"\b(?:O_WRONLY|O_RDWR|O_CREAT|O_TRUNC)\b")
_CALL = re.compile(r"^\d+\s+(?:<\.\.\. )?(\w+)")


def strace() -> list[str]:
    """Return the beginning of a traced command; empty where nobody may trace here."""
    program = shutil.which("strace")
    if program is None:
        return []
    tried = subprocess.run([program, "-f", "-e", "trace=openat", "true"], capture_output=True, check=False)
    return [program, "-f", "-y", "-qq", "-e", f"trace={_CALLS}"] if tried.returncode == 0 else []


def writes_in(trace: str, folder: str) -> list[str]:
    """Return the traced calls that could change something in a folder."""
    return [
        line
        for line in trace.splitlines()
        if folder in line
        and (call := _CALL.match(line)) is not None
        and (not call[1].startswith("open") or _WRITING.search(line))
    ]


@dataclass(frozen=True, slots=True)
class Version:
    """All that can be seen of a path except when it was read last."""

    mode: int
    owner: tuple[int, int]
    links: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    content: bytes


def versions(folder: Path) -> dict[str, Version]:
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        stat = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        elif path.is_file():
            content = path.read_bytes()
        found[str(path)] = Version(
            stat.st_mode,
            (stat.st_uid, stat.st_gid),
            stat.st_nlink,
            stat.st_ino,
            stat.st_mtime_ns,
            stat.st_ctime_ns,
            content,
        )
    return found


def make_tree(folder: Path) -> None:
    for number in range(12):
        deep = folder / f"part {number % 4}"
        deep.mkdir(parents=True, exist_ok=True)
        (deep / f"{number}.md").write_text(f"# Page {number}\n\nThe larch stands at {number}.\n")
        (deep / f"{number}.csv").write_text(f"tree,height\nlarch,{number}\n")
    (folder / "letter.pdf").write_bytes(b"%PDF-1.4 the alder")
    (folder / "empty.md").write_bytes(b"")
    (folder / "closed.md").write_text("no more writing")
    (folder / "closed.md").chmod(0o444)
    (folder / "link.md").symlink_to("letter.pdf")
    os.link(folder / "closed.md", folder / "twin.md")
    os.utime(folder / "empty.md", (0, 0))
    (folder / ".kbignore").write_text("drafts/\n")
    (folder / "drafts").mkdir()
    (folder / "drafts" / "no.md").write_text("not this one")
    (folder / ".env").write_text("KEY=1")


def change_tree(folder: Path) -> None:
    (folder / "part 0").rename(folder / "moved")
    (folder / "part 1" / "1.md").unlink()
    (folder / "part 2" / "2.md").write_text("# Page\n\nOther words.\n")
    (folder / "new.md").write_text("# New\n\nThe hazel.\n")


@pytest.fixture
def day(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path, bool]]:
    folder, trace, tracer = tmp_path / "documents", tmp_path / "trace", strace()
    make_tree(folder)
    command = [*([*tracer, "-o", str(trace)] if tracer else []), sys.executable, "-m", "tests.faults.day_of_work"]
    with subprocess.Popen(
        [*command, str(tmp_path / "home"), str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    ) as worker:
        try:
            yield worker, folder, trace, bool(tracer)
        finally:
            worker.kill()


def told(worker: subprocess.Popen[str], deed: str) -> str:
    """Have a thing done and return what is said of the end."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{deed}\n")
    worker.stdin.flush()
    while not (line := worker.stdout.readline()).startswith("done"):
        assert line, f"it ended while it was to {deed}"
    return line


def test_i10_a_days_work_leaves_no_trace_in_a_mirror(
    day: tuple[subprocess.Popen[str], Path, Path, bool],
) -> None:
    worker, folder, trace, traced = day
    before = versions(folder)
    for deed in DEEDS:
        said = told(worker, deed)
        assert "watching" in said
    assert versions(folder) == before
    change_tree(folder)
    before = versions(folder)
    for deed in ("settle", "restart", "search"):
        told(worker, deed)
    assert versions(folder) == before
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(60) == 0
    if not traced:
        pytest.skip("nobody may trace here: only bytes, modes and times were compared")
    calls = trace.read_text(errors="replace")
    assert f"{folder}/letter.pdf" in calls or 'letter.pdf"' in calls, "the trace shows what is read"
    assert writes_in(calls, str(folder)) == []


@pytest.mark.parametrize(
    ("line", "is_write"),
    [
        ('12 openat(5</d/part 1>, "1.md", O_RDONLY|O_NOFOLLOW|O_NONBLOCK|O_CLOEXEC) = 6</d/part 1/1.md>', False),
        ('12 openat(AT_FDCWD</>, "/d/x", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 6</d/x>', True),
        ('12 openat(5</d>, "x", O_RDWR <unfinished ...>', True),
        ('12 unlinkat(5</d>, "x", 0) = 0', True),
        ("12 fchmod(5</d/x>, 0644) = 0", True),
        ('12 unlinkat(5</elsewhere>, "x", 0) = 0', False),
        ("12 +++ exited with 0 +++", False),
    ],
)
def test_a_call_that_could_change_something_is_told_from_one_that_reads(line: str, is_write: bool) -> None:
    assert bool(writes_in(line, "/d")) is is_write
