"""The wheel holds what a test run from the checkout would never miss."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.meta.checkout import ROOT, project_files, version


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_every_file_of_the_program_and_nothing_else(wheel: Path) -> None:
    ours = {str(path.relative_to(ROOT)) for path in project_files() if path.is_relative_to(ROOT / "kbsync")}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == ours
    assert "kbsync/py.typed" in packed
    assert any(name.endswith(".sql") for name in packed)


def test_wheel_has_the_version_of_the_file_and_both_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"kbsync-{version()}.dist-info/METADATA").decode()
        commands = archive.read(f"kbsync-{version()}.dist-info/entry_points.txt").decode()
    assert f"\nVersion: {version()}\n" in metadata
    assert "kbsync = kbsync.__main__:main" in commands
    assert "kb = kbsync.__main__:main" in commands
    assert "[docling]\nkbsync = kbsync.pipelines.packaged_models" in commands, "Docling would not find the models"


MAKE_DATABASE = """
import kbsync, sys
from kbsync.store.writer import Writer
print(kbsync.__file__, *Writer(sys.argv[1]).open())
"""


def test_program_unpacked_elsewhere_finds_its_schema(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    outcome = subprocess.run(
        [sys.executable, "-c", MAKE_DATABASE, str(tmp_path / "kb.sqlite3")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    used, first, *_ = outcome.stdout.split()
    assert used == str(tmp_path / "site" / "kbsync" / "__init__.py")
    assert first == "initial"
