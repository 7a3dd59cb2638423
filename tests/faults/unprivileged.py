"""A program that leaves root for good and then lets the engine look at files that it may not read; it prints what came.

`python -m tests.faults.unprivileged FOLDER`, as root; FOLDER is empty and can be written to by anyone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import cast

from kbsync.errors import KbsyncError
from kbsync.filesystem import RealFileSystem
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

NOBODY = 65534
NAMES = ("open.md", "closed.md", "locked/inside.md", "passless/inside.md")


def leave_root() -> None:
    """Become nobody, with no way back."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        os.setuid(0)
    except PermissionError:
        return
    raise AssertionError("this process is still root")


def import_everything(folder: Path) -> None:
    """Work once: what is imported late may lie where nobody may read."""
    world = World.new(folder)
    world.configure("/simulated/notes")
    world.fs.write("/simulated/notes/a.md", b"# A\n\nthe larch")
    engine = SimulatedEngine(world)
    engine.rescan()
    assert engine.found("larch")
    engine.close()


def must_fail(path: Path) -> None:
    """Prove that what the engine is about to look at is really closed."""
    try:
        path.read_bytes()
    except PermissionError:
        return
    raise AssertionError(f"{path} can be read: the test proves nothing")


def told(engine: SimulatedEngine, notes: Path) -> dict[str, object]:
    found = {name: engine.found(name.replace("/", " ").removesuffix(".md")) != [] for name in NAMES}
    states = {
        os.path.relpath(os.fsdecode(path), notes): f"{state} {reason}"
        for path, state, reason in engine.read("SELECT path, state, reason FROM files")
    }
    return {
        "found": found,
        "states": states,
        "source": engine.source_state(str(notes)),
        "current": len(engine.documents("current")),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    import_everything(folder / "warm")
    leave_root()
    assert os.getuid() != 0
    assert os.geteuid() != 0
    notes, home = folder / "notes", folder / "home"
    for name in NAMES:
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(f"# Page\n\nThe words {name.replace('/', ' ').removesuffix('.md')} stand here.\n")
    world = World(home, ManualClock(), cast("SimulatedFileSystem", RealFileSystem()), HashDevice())
    # All files are old for it.
    world.clock.advance(max(0.0, os.stat(notes).st_ctime + 1000 - world.clock.now()))
    world.configure(str(notes))
    engine = SimulatedEngine(world)
    engine.rescan()
    before = told(engine, notes)
    (notes / "closed.md").write_text("# Page\n\nOther words.\n")
    modes = {"closed.md": 0o000, "locked": 0o000, "passless": 0o644}
    for name, mode in modes.items():
        (notes / name).chmod(mode)
    for name in ("closed.md", "locked/inside.md", "passless/inside.md"):
        must_fail(notes / name)
    for _ in range(3):
        engine.rescan()
    closed = told(engine, notes)
    for name, mode in zip(modes, (0o644, 0o755, 0o755), strict=True):
        (notes / name).chmod(mode)
    (notes / "closed.md").write_text("# Page\n\nThe words closed are open.\n")
    engine.rescan()
    opened = told(engine, notes)
    engine.close()
    data = Path(world.locations.database)
    data.chmod(0o444)
    data.parent.chmod(0o555)
    try:
        SimulatedEngine(world).close()
        refused = "it started"
    except KbsyncError as error:
        refused = f"{type(error).__name__}: {error}"
    data.parent.chmod(0o700)
    data.chmod(0o600)
    again = SimulatedEngine(world)
    after = told(again, notes)
    again.close()
    print(json.dumps({"before": before, "closed": closed, "opened": opened, "refused": refused, "after": after}))


if __name__ == "__main__":
    main()
