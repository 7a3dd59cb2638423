"""Where things lie: one folder for everything where it is asked for, private, and a socket path that always fits."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kbsync.config.locations import SOCKET_PATH_LIMIT, locate
from kbsync.errors import ConfigurationError

NOBODY = 65534


def test_kbsync_home_holds_everything(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    everything = [places.config_file, places.data_dir, places.state_dir, places.log_dir, places.error_log]
    everything += [places.database, places.lock_file, places.documents_dir, places.staging_dir, places.log_file]
    assert all(path.startswith(f"{tmp_path.resolve()}{os.sep}") for path in everything)
    assert len(set(everything)) == len(everything)
    assert os.listdir(tmp_path) == []  # nothing is made by asking


def test_kbsync_home_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = str((tmp_path / "real").resolve() / "data")
    assert locate({"KBSYNC_HOME": "link"}).data_dir == expected
    assert locate({"KBSYNC_HOME": "~/real"}).data_dir == expected


@pytest.mark.parametrize("environ", [{}, {"KBSYNC_HOME": ""}])
def test_without_it_the_platforms_folders_are_used(environ: dict[str, str]) -> None:
    places = locate(environ)
    home = os.path.expanduser("~")
    assert places.error_log == os.path.join(home, ".kb", "ingest-errors.log")
    assert os.path.isabs(places.data_dir)
    assert "kbsync" in places.data_dir
    assert places.config_file.endswith("config.toml")


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o022])
def test_every_folder_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path / "new" / "home")})
    before = os.umask(umask)
    try:
        places.make_folders()
        places.make_folders()
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")) if path.is_dir()]
    assert {folder.name for folder in folders} >= {"home", "data", "state", "logs", "documents", "staging"}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_a_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    locate({"KBSYNC_HOME": str(tmp_path)}).make_folders()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    with pytest.raises(ConfigurationError, match="data"):
        locate({"KBSYNC_HOME": str(tmp_path)}).make_folders()
    assert (tmp_path / "data").read_text() == "mine"


MAKE_AS_NOBODY = f"""
import os, sys
from kbsync.config.locations import locate
from kbsync.errors import ConfigurationError
if os.getuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
assert os.getuid() != 0
try:
    locate({{"KBSYNC_HOME": sys.argv[1]}}).make_folders()
except ConfigurationError as error:
    print(error.message, error.hint)
"""


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    outcome = subprocess.run(
        [sys.executable, "-c", MAKE_AS_NOBODY, str(home)], capture_output=True, text=True, check=True
    )
    assert f"Cannot make the folder {home.resolve()}" in outcome.stdout
    assert "KBSYNC_HOME" in outcome.stdout


def test_a_socket_path_that_would_be_too_long_moves_to_a_private_folder(tmp_path: Path) -> None:
    usual = locate({"KBSYNC_HOME": str(tmp_path)}).socket_path()
    if len(os.fsencode(usual)) <= SOCKET_PATH_LIMIT:
        assert usual == str(tmp_path.resolve() / "state" / "kbsync.sock")
    moved = locate({"KBSYNC_HOME": str(tmp_path / ("long" * 30))}).socket_path()
    try:
        assert len(os.fsencode(moved)) <= SOCKET_PATH_LIMIT
        assert stat.S_IMODE(os.stat(os.path.dirname(moved)).st_mode) == 0o700
    finally:
        os.rmdir(os.path.dirname(moved))


@pytest.mark.parametrize(("characters", "stays"), [(0, True), (1, False)])
def test_the_limit_of_a_socket_path_counts_bytes(characters: int, stays: bool) -> None:
    rest = len("/state/kbsync.sock")
    name = "é" * 20  # two bytes each
    home = "/" + name + "x" * (SOCKET_PATH_LIMIT - rest - 41 + characters)
    path = locate({"KBSYNC_HOME": home}).socket_path()
    assert (path == f"{home}/state/kbsync.sock") is stays
    if not stays:
        os.rmdir(os.path.dirname(path))


def test_asking_where_things_lie_imports_nothing_heavy() -> None:
    code = "import sys; from kbsync.config.locations import locate; locate(dict()); print(*sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = set(outcome.stdout.split())
    assert "kbsync.config.locations" in names
    assert not names & {"pydantic", "pydantic_settings", "tomlkit", "structlog", "apsw", "numpy", "kbsync.model"}
