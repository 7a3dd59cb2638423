"""The launchd agent: its property list against Apple's documented keys, its life under a `launchctl` on PATH."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kbsync.config.locations import locate
from kbsync.errors import ServiceFailed
from kbsync.interfaces.service.launchd import LABEL, Launchd, agent_log, properties, rendered
from kbsync.interfaces.service.service import Program, Service
from tests.meta.checkout import ROOT

# launchd.plist(5) of macOS 14, as far as an agent of a user may have them. Inner keys of dictionaries behind a dot.
DOCUMENTED: dict[str, tuple[type, ...]] = {
    "Label": (str,),
    "Disabled": (bool,),
    "EnableGlobbing": (bool,),
    "Program": (str,),
    "BundleProgram": (str,),
    "ProgramArguments": (list,),
    "EnableTransactions": (bool,),
    "EnablePressuredExit": (bool,),
    "OnDemand": (bool,),
    "ServiceIPC": (bool,),
    "KeepAlive": (bool, dict),
    "KeepAlive.SuccessfulExit": (bool,),
    "KeepAlive.NetworkState": (bool,),
    "KeepAlive.PathState": (dict,),
    "KeepAlive.OtherJobEnabled": (dict,),
    "KeepAlive.Crashed": (bool,),
    "KeepAlive.AfterInitialDemand": (bool,),
    "RunAtLoad": (bool,),
    "RootDirectory": (str,),
    "WorkingDirectory": (str,),
    "EnvironmentVariables": (dict,),
    "Umask": (int, str),
    "TimeOut": (int,),
    "ExitTimeOut": (int,),
    "ThrottleInterval": (int,),
    "InitGroups": (bool,),
    "WatchPaths": (list,),
    "QueueDirectories": (list,),
    "StartOnMount": (bool,),
    "StartInterval": (int,),
    "StartCalendarInterval": (dict, list),
    "StandardInPath": (str,),
    "StandardOutPath": (str,),
    "StandardErrorPath": (str,),
    "Debug": (bool,),
    "WaitForDebugger": (bool,),
    "HardResourceLimits": (dict,),
    "SoftResourceLimits": (dict,),
    "SoftResourceLimits.Core": (int,),
    "SoftResourceLimits.CPU": (int,),
    "SoftResourceLimits.Data": (int,),
    "SoftResourceLimits.FileSize": (int,),
    "SoftResourceLimits.MemoryLock": (int,),
    "SoftResourceLimits.NumberOfFiles": (int,),
    "SoftResourceLimits.NumberOfProcesses": (int,),
    "SoftResourceLimits.ResidentSetSize": (int,),
    "SoftResourceLimits.Stack": (int,),
    "Nice": (int,),
    "ProcessType": (str,),
    "AbandonProcessGroup": (bool,),
    "LowPriorityIO": (bool,),
    "LowPriorityBackgroundIO": (bool,),
    "MaterializeDatalessFiles": (bool,),
    "LaunchOnlyOnce": (bool,),
    "MachServices": (dict,),
    "Sockets": (dict,),
    "LaunchEvents": (dict,),
    "SessionCreate": (bool,),
    "LegacyTimers": (bool,),
    "LimitLoadToHosts": (list,),
    "LimitLoadFromHosts": (list,),
    "LimitLoadToSessionType": (str, list),
    "LimitLoadToHardware": (dict,),
    "LimitLoadFromHardware": (dict,),
}
VALUES: dict[str, set[object]] = {
    "ProcessType": {"Background", "Standard", "Adaptive", "Interactive"},
    "LimitLoadToSessionType": {"Aqua", "StandardIO", "Background", "LoginWindow", "System"},
}

COMMAND = ("/Users/ann/my tools/venv/bin/python3", "-P", "-m", "kbsync", "run", "--service")


@dataclass
class Mac:
    """A user's launchd: a folder of agents and the state of the `launchctl` on PATH."""

    home: Path
    state_file: Path
    program: Program
    waited: list[float] = field(default_factory=list)

    @property
    def agent(self) -> Path:
        return self.home / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    @property
    def launchd(self) -> Launchd:
        return Launchd(self.program, str(self.agent.parent), 501, self.waited.append)

    @property
    def state(self) -> dict[str, Any]:
        found = json.loads(self.state_file.read_text())
        assert isinstance(found, dict)
        return found

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        state = self.state
        change(state)
        self.state_file.write_text(json.dumps(state))

    def ends(self, code: str, state: str = "not running") -> None:
        """Have the daemon end."""
        self.change(lambda all_: all_["services"][LABEL].update(pid=None, exit=code, state=state))

    def calls(self, *, of: set[str]) -> list[str]:
        return [call[0] for call in self.state["calls"] if call[0] in of]


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mac:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "launchctl"
    source = Path(__file__).with_name("fake_launchctl.py").read_text()
    fake.write_text(source.replace("#!/usr/bin/env python3", f"#!{sys.executable} -SE", 1))
    fake.chmod(0o755)
    state = tmp_path / "launchd.json"
    domains = ["gui/501"]
    fresh = {"domains": domains, "services": {}, "disabled": [], "says_disabled": "disabled", "busy": 0}
    state.write_text(json.dumps({**fresh, "next_pid": 100, "calls": []}))
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LAUNCHCTL", str(state))
    home = tmp_path / "ann's home"
    log_file = home / "Library" / "Logs" / "kbsync" / "kbsync.log"
    return Mac(home, state, Program(COMMAND, {"KBSYNC_HOME": str(home / "kb & co")}, str(log_file)))


def program(log_file: str = "/Users/ann/Library/Logs/kbsync/kbsync.log") -> Program:
    return Program(COMMAND, {"KBSYNC_HOME": "/Users/ann/kb & co"}, log_file)


def test_every_key_is_one_of_apples_and_has_its_type() -> None:
    """S06: launchd passes over what it does not know: a misspelt key would do nothing, without a word."""
    read = plistlib.loads(rendered(program()))
    inner = {f"{key}.{name}": value for key in ("KeepAlive", "SoftResourceLimits") for name, value in read[key].items()}
    for key, value in {**read, **inner}.items():
        assert type(value) in DOCUMENTED[key], key
    for key, known in VALUES.items():
        assert read[key] in known
    assert all(type(word) is str for word in [*read["ProgramArguments"], *read["EnvironmentVariables"].values()])


def test_the_agent_works_in_the_background_and_is_started_again_after_a_crash_only() -> None:
    """S06: Background, low priority for CPU and disk, absolute paths, nothing from a login shell, a log that exists."""
    read = plistlib.loads(rendered(program()))
    assert (read["ProcessType"], read["LowPriorityIO"], read["LowPriorityBackgroundIO"]) == ("Background", True, True)
    assert read["ProgramArguments"] == [*COMMAND, "--launchd"]
    assert read["EnvironmentVariables"] == {"KBSYNC_HOME": "/Users/ann/kb & co"}
    assert (read["RunAtLoad"], read["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert read["ExitTimeOut"] > 9.5, "what the daemon needs to end by itself"
    assert read["ThrottleInterval"] >= 10
    assert read["Umask"] == 0o077
    assert read["SoftResourceLimits"]["NumberOfFiles"] > 256
    paths = [read["ProgramArguments"][0], read["WorkingDirectory"], read["StandardErrorPath"], read["StandardOutPath"]]
    assert all(os.path.isabs(path) for path in paths)
    assert read["StandardErrorPath"] == "/Users/ann/Library/Logs/kbsync/service.log"


def test_a_path_that_no_property_list_can_hold_is_refused() -> None:
    with pytest.raises(ServiceFailed, match="property list"):
        rendered(replace(program(), command=("/Users/ann/a\x01b/python", "-m", "kbsync")))


def test_the_file_for_packagers_is_what_is_rendered() -> None:
    """The same keys and values, with @NAMES@ for what a package puts in their place."""
    written = (ROOT / "launchd" / f"{LABEL}.plist").read_bytes()
    packaged = Program(("@PYTHON@", "-P", "-m", "kbsync", "run", "--service"), {}, "@LOG_DIR@/kbsync.log")
    assert plistlib.loads(written) == plistlib.loads(rendered(packaged))
    assert b"@PYTHON@" in written[: written.index(b"<plist")], "a comment says what the names stand for"


def test_install_writes_the_agent_and_starts_it(mac: Mac) -> None:
    service: Service = mac.launchd
    said = service.install(start=True)
    assert plistlib.loads(mac.agent.read_bytes()) == properties(mac.program)
    assert mac.agent.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in mac.agent.parent.iterdir()] == [mac.agent.name]
    log = Path(agent_log(mac.program))
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert str(mac.agent) in said[0]
    state = service.state()
    assert (state.installed, state.is_current, state.running, state.pid) == (True, True, "running", 101)
    assert state.file == str(mac.agent)
    assert not state.notices


def test_install_twice_leaves_the_daemon_alone(mac: Mac) -> None:
    mac.launchd.install(start=True)
    mac.launchd.install(start=True)
    assert mac.calls(of={"bootstrap", "bootout", "kickstart"}) == ["bootstrap"]
    assert mac.launchd.state().pid == 101


def test_an_upgrade_replaces_the_agent_and_starts_the_new_one_when_the_old_one_is_gone(mac: Mac) -> None:
    mac.launchd.install(start=True)
    mac.program = replace(mac.program, command=("/Users/ann/new/bin/python3", *COMMAND[1:]))
    assert not mac.launchd.state().is_current
    mac.launchd.install(start=True)
    state = mac.launchd.state()
    assert (state.is_current, state.running, state.pid) == (True, "running", 102)
    assert mac.state["services"][LABEL]["properties"]["ProgramArguments"][0] == "/Users/ann/new/bin/python3"
    assert mac.waited, "bootout ends before the process does"


def test_a_file_that_others_may_write_is_out_of_date_and_written_anew(mac: Mac) -> None:
    """launchd refuses it, at the next login too."""
    mac.launchd.install(start=True)
    mac.agent.chmod(0o666)
    assert not mac.launchd.state().is_current
    mac.launchd.install(start=True)
    assert mac.launchd.state().is_current
    assert mac.launchd.restart() == ["The service is started."]


def test_install_without_start_begins_at_the_next_login(mac: Mac) -> None:
    mac.launchd.install(start=False)
    assert mac.agent.exists()
    assert not mac.calls(of={"bootstrap"})
    assert mac.launchd.state().running == "stopped"


def test_uninstall_stops_it_and_takes_the_file_away_and_may_be_repeated(mac: Mac) -> None:
    assert mac.launchd.uninstall() == ["There was no service to take away."]
    mac.launchd.install(start=True)
    mac.launchd.uninstall()
    assert not mac.agent.exists()
    assert not mac.state["services"]
    assert Path(agent_log(mac.program)).exists(), "only the agent goes"
    mac.launchd.uninstall()
    state = mac.launchd.state()
    assert (state.installed, state.is_current, state.running) == (False, False, "stopped")


def test_an_agent_whose_file_somebody_removed_is_unloaded_all_the_same(mac: Mac) -> None:
    mac.launchd.install(start=True)
    mac.agent.unlink()
    mac.launchd.uninstall()
    assert not mac.state["services"]


def test_it_is_stopped_started_and_restarted_in_any_state(mac: Mac) -> None:
    for act in (mac.launchd.start, mac.launchd.restart):
        with pytest.raises(ServiceFailed, match="not installed"):
            act()
    mac.launchd.install(start=True)
    mac.launchd.restart()
    assert mac.launchd.state().pid == 102
    mac.launchd.stop()
    mac.launchd.stop()
    assert mac.launchd.state().running == "stopped"
    mac.launchd.start()
    mac.launchd.start()
    assert mac.launchd.state().pid == 103
    mac.launchd.stop()
    mac.launchd.restart()
    assert mac.launchd.state().pid == 104


def test_what_ended_by_itself_is_told_and_started_by_hand(mac: Mac) -> None:
    """A configuration that cannot be used ends the daemon with 0 under launchd, which then leaves it alone."""
    mac.launchd.install(start=True)
    mac.ends("0")
    state = mac.launchd.state()
    assert state.running == "failed"
    assert "config check" in state.notices[0]
    mac.launchd.start()
    assert mac.launchd.state().running == "running"
    mac.ends("1", state="spawn scheduled")
    state = mac.launchd.state()
    assert state.running == "starting"
    assert "again" in state.notices[0]


def test_launchd_that_is_not_done_with_the_old_one_is_asked_again(mac: Mac) -> None:
    """The real one refuses for a moment with 5, also when `print` does not know the old one any more."""
    mac.launchd.install(start=True)
    mac.change(lambda state: state.update(busy=2))
    mac.launchd.restart()
    assert mac.launchd.state().running == "running"
    mac.change(lambda state: state.update(busy=1000))
    with pytest.raises(ServiceFailed, match="5: Input/output error"):
        mac.launchd.restart()
    assert 5 < sum(mac.waited) < 10


@pytest.mark.parametrize("word", ["disabled", "true"])
def test_an_agent_that_was_switched_off_is_told_and_switched_on_by_install(mac: Mac, word: str) -> None:
    mac.launchd.install(start=False)
    mac.change(lambda state: state.update(disabled=[LABEL], says_disabled=word))
    assert "Login Items" in mac.launchd.state().notices[0]
    mac.launchd.install(start=False)
    assert not mac.launchd.state().notices
    mac.change(lambda state: state.update(disabled=[LABEL]))
    mac.launchd.start()
    state = mac.launchd.state()
    assert (state.running, state.notices) == ("running", ())


def test_without_a_session_at_the_screen_it_starts_at_the_next_login(mac: Mac) -> None:
    mac.change(lambda state: state.update(domains=[]))
    said = mac.launchd.install(start=True)
    assert "when you log in" in said[-1]
    assert mac.launchd.state().running == "stopped"
    with pytest.raises(ServiceFailed, match="not logged in"):
        mac.launchd.start()


def test_a_refusal_is_told_with_the_words_of_launchctl(mac: Mac) -> None:
    mac.launchd.install(start=False)
    mac.agent.chmod(0o666)
    with pytest.raises(ServiceFailed, match="122: Path had bad ownership"):
        mac.launchd.start()


def test_without_launchctl_there_is_no_service(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("launchctl", path="/bin:/usr/bin"):
        pytest.skip("this system has one")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServiceFailed, match="no launchctl"):
        mac.launchd.state()


def test_a_folder_that_cannot_be_written_is_told(mac: Mac) -> None:
    mac.agent.parent.parent.mkdir(parents=True)
    mac.agent.parent.write_text("no folder")
    with pytest.raises(ServiceFailed, match="LaunchAgents cannot be written"):
        mac.launchd.install(start=True)


def test_the_log_is_the_one_that_the_daemon_keeps_short(tmp_path: Path) -> None:
    """S06: launchd rotates nothing."""
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    assert agent_log(replace(program(), log_file=places.log_file)) == places.service_log


def test_under_launchd_a_configuration_that_cannot_be_used_is_no_error_to_start_again_for(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("workers = 0\n")
    log = tmp_path / "logs" / "service.log"
    log.parent.mkdir()
    log.write_text("one line\n" * 200_000)
    ended = {
        arguments: subprocess.run(
            [sys.executable, "-P", "-m", "kbsync", "run", "--service", *arguments],
            env={"KBSYNC_HOME": str(tmp_path)},
            capture_output=True,
            timeout=60,
        )
        for arguments in ((), ("--launchd",))
    }
    assert {arguments: done.returncode for arguments, done in ended.items()} == {(): 78, ("--launchd",): 0}
    assert b"line 1: workers: must be 1 or more" in ended["--launchd",].stderr
    assert log.stat().st_size < 1 << 20, "S06: what earlier starts said is kept short"


def test_the_log_is_shown_by_tail(mac: Mac) -> None:
    log = agent_log(mac.program)
    assert mac.launchd.log_command(50, follow=False) == ["tail", "-n", "50", log]
    assert mac.launchd.log_command(50, follow=True) == ["tail", "-n", "50", "-F", log]
