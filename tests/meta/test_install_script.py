"""packaging/install.sh and uninstall.sh, by a user without root in an odd home; kbsync and its libraries are played."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from kbsync.interfaces.cli.app import app
from tests.fakes.eventually import eventually
from tests.meta.checkout import ROOT
from tests.meta.install_stage import SHARED, USER, Stage, interpreter


@pytest.fixture(scope="module")
def ground() -> Iterator[Stage]:
    python = interpreter()
    if python is None:
        reason = "no Python 3.11 with venv that a user without root may run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="kbsync-install-")).resolve()
    folder.chmod(0o755)
    yield Stage(folder, python)
    shutil.rmtree(folder)


@pytest.fixture
def stage(ground: Stage) -> Iterator[Stage]:
    """Yield a stage with a version installed, without a service. Which one it is says nothing: either is an upgrade."""
    ground.service = "none"
    ground.was, ground.new = ground.installed_and_other()
    if not ground.venv.exists():
        ground.install(ground.wheels[ground.was])
    ground.calls()
    yield ground
    for left in ("by-hand", "held", "hold-torch"):
        (ground.folder / left).unlink(missing_ok=True)


def links(stage: Stage) -> list[str]:
    """Return the links that lead into the environment, relative to the home."""
    found = [
        path for path in stage.home.rglob("*") if path.is_symlink() and os.readlink(path).startswith(f"{stage.venv}/")
    ]
    return sorted(str(path.relative_to(stage.home)) for path in found)


def environments(stage: Stage) -> list[str]:
    """Return the names of what lies where the environment does."""
    return sorted(path.name for path in stage.venv.parent.iterdir()) if stage.venv.parent.exists() else []


def test_the_user_is_not_root_and_everything_made_is_theirs(stage: Stage) -> None:
    assert stage.run("/usr/bin/id", "-u").strip() != "0"
    owner = os.getuid() if USER is None else USER
    made = [*stage.venv.resolve().rglob("*"), *(stage.home / ".local" / "bin").iterdir()]
    assert {path.lstat().st_uid for path in made} == {owner}


def test_both_commands_the_man_page_and_completions_are_linked_and_work(stage: Stage) -> None:
    assert stage.version() == stage.version("kb") == stage.was
    short = [re.sub(r"/kbsync\b", "/kb", name) for name in SHARED if "zsh" not in name]
    shared = [f".local/share/{name}" for name in (*SHARED, *short)]
    assert links(stage) == sorted([".local/bin/kb", ".local/bin/kbsync", *shared])
    assert (stage.home / ".local/share/man/man1/kbsync.1").read_text() == f"man/man1/kbsync.1 of {stage.was}\n"


def test_a_second_run_does_nothing_and_says_so(stage: Stage) -> None:
    before = os.readlink(stage.venv)
    assert f"kbsync {stage.was} is installed already" in stage.install(stage.wheels[stage.was])
    assert (os.readlink(stage.venv), stage.calls()) == (before, [])


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/bash", 'export PATH="$HOME/.local/bin:$PATH"'),
        ("/usr/bin/zsh", 'export PATH="$HOME/.local/bin:$PATH"'),
        ("/usr/bin/fish", "fish_add_path ~/.local/bin"),
    ],
)
def test_a_folder_that_is_not_on_the_path_is_told_with_the_line_for_the_shell(
    stage: Stage, shell: str, line: str
) -> None:
    said = stage.install(stage.wheels[stage.was], SHELL=shell)
    assert f"\n  {line}\n" in said
    assert {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "config.fish"}[Path(shell).name] in said
    path = f"{stage.home}/.local/bin:{stage.environment['PATH']}"
    assert line not in stage.install(stage.wheels[stage.was], SHELL=shell, PATH=path)


def test_an_upgrade_stops_the_running_service_switches_and_starts_the_new_version(stage: Stage) -> None:
    data = stage.venv.parent / "kb.sqlite3"
    data.write_text("the index")
    stage.service = "running"
    said = stage.install(stage.wheels[stage.new])
    assert stage.calls() == [f"{stage.was} service stop", f"{stage.new} service install"]
    assert (stage.version(), stage.service, data.read_text()) == (stage.new, "running", "the index")
    assert "libraries that are here" in said
    assert environments(stage) == ["kb.sqlite3", "venv", os.readlink(stage.venv)]
    assert (stage.home / ".local/share/man/man1/kbsync.1").read_text() == f"man/man1/kbsync.1 of {stage.new}\n"
    data.unlink()


def test_a_checkout_is_built_installed_and_not_needed_any_more(stage: Stage) -> None:
    said = stage.install(WHEEL=str(stage.wheels[stage.new]))
    assert f"Building kbsync of the checkout from {stage.scripts.parent}" in said
    assert stage.version() == stage.new
    used = [path.read_text() for path in stage.venv.glob("lib/python*/site-packages/**/*.pth")]
    assert not any("check out" in text for text in used)
    assert "is installed already" in stage.install(WHEEL=str(stage.wheels[stage.new]))


def test_what_the_scripts_ask_of_the_program_is_there_to_be_asked(ground: Stage) -> None:
    text = "".join((ground.scripts / f"{name}.sh").read_text() for name in ("install", "installation", "uninstall"))
    asked = set(re.findall(r'kbsync"? service (\w+)((?: --[\w-]+)?)', text))
    assert len(asked) > 5
    group = get_command(app).commands["service"]  # type: ignore[attr-defined]  # a group of commands
    for command, option in asked:
        known = [name for one in group.commands[command].params for name in (*one.opts, *one.secondary_opts)]
        assert not option or option.strip() in known, (command, option)


def test_a_stopped_service_is_brought_up_to_date_and_stays_stopped(stage: Stage) -> None:
    stage.service = "stopped"
    stage.install(stage.wheels[stage.new])
    assert (stage.calls(), stage.service) == ([f"{stage.new} service install --no-start"], "stopped")


@pytest.mark.parametrize(
    ("before", "option", "calls"),
    [
        ("none", "--service", ["service install"]),
        ("none", "--no-service", []),
        ("running", "--no-service", ["service uninstall"]),
        ("stopped", "--service", ["service install"]),
    ],
)
def test_the_service_is_as_the_option_says(stage: Stage, before: str, option: str, calls: list[str]) -> None:
    stage.service = before
    stage.install(stage.wheels[stage.was], option)
    assert stage.calls() == [f"{stage.was} {call}" for call in calls]


def test_libraries_that_do_not_load_leave_the_old_version_running(stage: Stage) -> None:
    stage.service = "running"
    said = stage.install(stage.wheels[stage.new], code=1, BROKEN="docling")
    assert "this library is broken" in said
    assert "Nothing was changed" in said
    assert (stage.calls(), stage.version(), stage.service) == ([], stage.was, "running")
    assert environments(stage) == ["venv", os.readlink(stage.venv)]


def test_a_service_that_does_not_start_is_told_and_the_next_run_tries_again(stage: Stage) -> None:
    stage.service = "running"
    said = stage.install(stage.wheels[stage.new], code=1, FAILS="service install")
    assert "kbsync service logs" in said
    assert stage.calls() == [f"{stage.was} service stop", f"{stage.new} service install", f"{stage.new} service start"]
    stage.service = "stopped"
    stage.install(stage.wheels[stage.new], "--service")
    assert stage.service == "running"


def test_an_upgrade_that_is_killed_leaves_the_old_version_working_and_the_next_one_ends_it(stage: Stage) -> None:
    stage.service = "running"
    (stage.folder / "hold-torch").touch()
    process = stage.start(stage.scripts / "install.sh", stage.wheels[stage.new])
    eventually((stage.folder / "held").exists, within_s=60)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert (stage.version(), stage.service, stage.calls()) == (stage.was, "running", [])
    (stage.folder / "hold-torch").unlink()
    stage.install(stage.wheels[stage.new])
    assert stage.version() == stage.new
    assert environments(stage) == ["venv", os.readlink(stage.venv)]


def test_what_a_loss_of_power_left_between_the_steps_of_a_switch_is_ended_by_the_next_run(stage: Stage) -> None:
    stage.venv.unlink()
    stage.service = "stopped"
    stage.run("touch", f"{stage.venv}.stopped")
    assert "is installed already" in stage.install(stage.wheels[stage.was])
    assert (stage.version(), stage.service) == (stage.was, "running")
    assert environments(stage) == ["venv", os.readlink(stage.venv)]


def test_two_installations_at_once_are_one(stage: Stage) -> None:
    (stage.folder / "hold-torch").touch()
    process = stage.start(stage.scripts / "install.sh", stage.wheels[stage.new])
    eventually((stage.folder / "held").exists, within_s=60)
    assert f"under way (process {process.pid})" in stage.install(stage.wheels[stage.new], code=1)
    (stage.folder / "hold-torch").unlink()
    said = "".join(process.communicate(timeout=100))
    assert process.returncode == 0, said


@pytest.mark.parametrize("state", ["running", "starting"])
def test_a_daemon_that_was_started_by_hand_is_not_taken_from_under_its_feet(stage: Stage, state: str) -> None:
    (stage.folder / "by-hand").write_text(state)
    assert "started by hand" in stage.install(stage.wheels[stage.new], code=1)
    assert "started by hand" in stage.uninstall(code=1)
    assert stage.version() == stage.was
    (stage.folder / "by-hand").unlink()


def test_a_command_of_another_make_is_left_alone(stage: Stage) -> None:
    other = stage.home / ".local" / "bin" / "kb"
    other.unlink()
    other.write_text("#!/bin/sh\necho another\n")
    said = stage.install(stage.wheels[stage.new])
    assert f"{other} is there and is not ours" in said
    assert other.read_text() == "#!/bin/sh\necho another\n"
    other.unlink()


def test_uninstalling_removes_the_service_the_links_and_the_program_and_keeps_the_data(stage: Stage) -> None:
    data, settings = stage.venv.parent / "kb.sqlite3", stage.home / ".config" / "kbsync" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    data.write_text("the index")
    settings.write_text("workers = 2\n")
    foreign = stage.home / ".local" / "bin" / "other"
    foreign.symlink_to("/bin/true")
    stage.service = "running"
    # The copy that the installation brought: the checkout may have gone.
    said = stage.run(stage.venv / "packaging" / "uninstall.sh")
    assert f"the data in {data.parent}" in said
    assert (stage.calls(), stage.service) == ([f"{stage.was} service uninstall"], "none")
    assert (environments(stage), links(stage)) == (["kb.sqlite3"], [])
    assert (data.read_text(), settings.read_text()) == ("the index", "workers = 2\n")
    assert [path.name for path in (stage.home / ".local" / "bin").iterdir()] == ["other"]
    assert "no program to remove" in stage.uninstall()
    foreign.unlink()
    data.unlink()
    shutil.rmtree(settings.parent)


def test_an_environment_of_the_quick_start_becomes_the_installation(stage: Stage) -> None:
    made = stage.venv.resolve()
    stage.venv.unlink()
    (made / "kbsync-slot").unlink()
    (made / "kbsync-installed").write_text("checkout somewhere\n")
    made.rename(stage.venv)
    stage.install(stage.wheels[stage.new])
    assert (stage.version(), environments(stage)) == (stage.new, ["venv", "venv.a"])


def test_a_folder_that_is_not_ours_is_never_replaced_or_removed(stage: Stage) -> None:
    precious = stage.folder / "precious"
    stage.run("mkdir", precious)
    stage.run("touch", precious / "pyvenv.cfg")
    given = str(precious)
    assert "nothing that kbsync made" in stage.install(stage.wheels[stage.was], code=1, KBSYNC_VENV=given)
    stage.uninstall(KBSYNC_VENV=given)
    assert (precious / "pyvenv.cfg").exists()
    precious.rename(stage.folder / "precious.a")
    assert "nothing that kbsync made" in stage.install(stage.wheels[stage.was], code=1, KBSYNC_VENV=given)
    assert (stage.folder / "precious.a" / "pyvenv.cfg").exists()


@pytest.mark.parametrize("argument", ["--twice", "no/such/kbsync-1.0-py3-none-any.whl", "other.whl"])
def test_wrong_usage_is_told_before_anything_is_done(stage: Stage, argument: str) -> None:
    assert stage.install(argument, code=2)


@pytest.mark.parametrize("script", ["install.sh", "uninstall.sh", "quickstart.sh"])
def test_scripts_find_their_own_folder_where_cd_looks_elsewhere(script: str) -> None:
    """CDPATH is set: `cd packaging` says where it went, or goes to another folder of that name."""
    command = ["bash", f"packaging/{script}", "--help"]
    environment = {**os.environ, "CDPATH": f".:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "No such file" not in done.stderr


def test_nothing_is_installed_for_another_user_by_sudo(ground: Stage) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can run sudo's part")
    outcome = subprocess.run(
        [ground.scripts / "install.sh", ground.wheels["1.0"]],
        env=ground.environment | {"SUDO_USER": "ann"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "Run this as ann, without sudo" in outcome.stderr
