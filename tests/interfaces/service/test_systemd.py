"""What `kbsync service` says and leaves alone under systemd, where `systemctl` and `loginctl` answer as we want."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kbsync.errors import ServiceFailed
from kbsync.interfaces.service import systemd
from kbsync.interfaces.service.service import Program
from kbsync.interfaces.service.systemd import Outcome, Systemd
from kbsync.interfaces.service.systemd_unit import MARK, render

PROGRAM = Program(("/opt/kb/bin/python", "-P", "-m", "kbsync", "run", "--service"), {}, "/home/me/kbsync.log")
STOPS = (
    "It stops when you log out and starts at the next login: `sudo loginctl enable-linger me` has it run all the time."
)


class Machine:
    """Answers as a machine does, and remembers what it was asked. `linger`: yes, no, or refused."""

    def __init__(self, home: Path, *, version: str = "257.7-1", linger: str = "yes") -> None:
        self.version = version
        self.linger = linger
        self.asked: list[str] = []
        self.is_limited = False
        self.looks_in = f"/run/user/1000/systemd/user {home}/systemd/user"
        self.unit = {"LoadState": "not-found", "ActiveState": "inactive", "MainPID": "0", "UnitFileState": ""}
        self.environ = {"XDG_CONFIG_HOME": str(home), "USER": "me"}
        self.file = home / "systemd" / "user" / "kbsync.service"

    def service(self, program: Program = PROGRAM) -> Systemd:
        return Systemd(program, self.environ, self.run, lambda _seconds: None)

    def run(self, command: Sequence[str], _environ: Mapping[str, str]) -> Outcome:
        words = [word for word in command if not word.startswith("--no-")]
        if words[0] == "loginctl":
            return self._loginctl(words[1])
        assert words[:2] == ["systemctl", "--user"]
        if not self.version:
            return Outcome(1, "", "Failed to connect to bus: No medium found\n")
        verb = words[2]
        if verb != "show":
            self.asked.append(verb)
        elif "--property=UnitPath" in words:
            return Outcome(0, f"{self.looks_in}\n", "")
        elif "--property=Version" in words:
            return Outcome(0, f"{self.version}\n", "")
        if verb == "enable":
            self.unit["UnitFileState"] = "enabled"
        if verb == "daemon-reload":
            self.unit |= {"LoadState": "loaded", "FragmentPath": str(self.file)}
        if verb == "reset-failed" and self.is_limited:
            self.is_limited, self.unit["ActiveState"] = False, "inactive"
        if verb in ("start", "restart") and self.unit["ActiveState"] != "failed":
            self.unit |= {"ActiveState": "active", "MainPID": str(int(self.unit["MainPID"]) + 1)}
        return Outcome(0, "".join(f"{name}={value}\n" for name, value in self.unit.items()), "")

    def _loginctl(self, verb: str) -> Outcome:
        if verb == "enable-linger":
            self.asked.append(verb)
            self.linger = "yes" if self.linger == "no" else self.linger
            return Outcome(self.linger != "yes", "", "")
        return Outcome(0, f"{'yes' if self.linger == 'yes' else 'no'}\n", "")


def test_installed_it_is_enabled_runs_and_goes_on_after_the_logout(tmp_path: Path) -> None:
    """S01: lingering is asked for."""
    machine = Machine(tmp_path, linger="no")
    assert machine.service().install(start=True) == [
        f"Wrote {machine.file}.",
        "It starts at login.",
        "The service runs (process 1).",
        "Lingering is enabled: it goes on when you log out.",
    ]
    assert machine.file.read_text() == render(PROGRAM)
    assert machine.asked == ["daemon-reload", "enable", "restart", "enable-linger"]
    machine.asked.clear()
    machine.service().install(start=True)
    assert machine.asked == ["start"], "there is nothing more to do"
    assert machine.service().state().notices == ()


def test_where_lingering_is_refused_the_end_at_logout_is_told_with_its_cure(tmp_path: Path) -> None:
    """S01: at the installation and whenever it is asked."""
    machine = Machine(tmp_path, linger="refused")
    assert machine.service().install(start=False)[-1] == STOPS
    assert machine.service().state().notices == (STOPS,)
    assert "start" not in machine.asked


def test_a_systemd_that_ends_lingering_services_is_named(tmp_path: Path) -> None:
    """S01: version 255 does."""
    machine = Machine(tmp_path, version="255.4-1ubuntu8")
    machine.service().install(start=True)
    (notice,) = machine.service().state().notices
    assert "systemd 255 may end it all the same" in notice


def test_without_a_manager_nothing_is_written_and_what_to_do_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version="")
    with pytest.raises(
        ServiceFailed, match=r"Failed to connect to bus: No medium found\. .*`nohup kbsync run &`.*enable-linger me"
    ):
        machine.service().install(start=True)
    assert os.listdir(tmp_path) == []
    with pytest.raises(ServiceFailed, match="does not answer"):
        machine.service().start()
    state = machine.service().state()
    assert (state.installed, state.running) == (False, "stopped")
    assert "does not answer" in state.notices[0]


def test_without_a_manager_the_unit_can_be_taken_away(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.service().install(start=False)
    wants = machine.file.parent / "default.target.wants" / "kbsync.service"
    wants.parent.mkdir()
    wants.symlink_to(machine.file)
    machine.version = ""
    said = machine.service().uninstall()
    assert said[0] == f"Removed {machine.file}."
    assert not machine.file.exists()
    assert not os.path.lexists(wants), "else it would be told at every login"


def test_without_systemctl_that_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceFailed, match="There is no `systemctl` on this machine"):
        Systemd(PROGRAM, {"XDG_CONFIG_HOME": str(tmp_path), "PATH": str(tmp_path)}, systemd.run).install(start=True)


@pytest.mark.parametrize("kind", ["another's", "masked"])
def test_a_unit_that_is_not_ours_stays(tmp_path: Path, kind: str) -> None:
    machine = Machine(tmp_path)
    machine.file.parent.mkdir(parents=True)
    if kind == "masked":
        machine.file.symlink_to(os.devnull)
    else:
        machine.file.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(ServiceFailed, match="was not written by kbsync") as refused:
        machine.service().install(start=True)
    assert ("unmask" in str(refused.value)) == (kind == "masked")
    assert "was not written by kbsync" in machine.service().uninstall()[0]
    assert os.path.lexists(machine.file)
    assert machine.asked == []


def test_a_unit_of_a_package_is_named_and_left_to_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.unit |= {"LoadState": "loaded", "FragmentPath": "/usr/lib/systemd/user/kbsync.service"}
    assert machine.service().uninstall() == [
        "/usr/lib/systemd/user/kbsync.service was put there by a package: "
        "`systemctl --user disable --now kbsync` turns it off."
    ]
    state = machine.service().state()
    assert (state.installed, state.is_current, state.file) == (True, True, "/usr/lib/systemd/user/kbsync.service")
    assert "does not start at login" in state.notices[0]


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    kept = tmp_path / "dotfiles" / "kbsync.service"
    kept.parent.mkdir()
    kept.write_text(f"{MARK}\n")
    machine.file.parent.mkdir(parents=True)
    machine.file.symlink_to(kept)
    machine.service().install(start=False)
    assert machine.file.is_symlink()
    assert kept.read_text() == render(PROGRAM)


def test_an_upgrade_is_told_and_put_in_place(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.service().install(start=True)
    newer = machine.service(Program(("/opt/newer/bin/python", "-m", "kbsync", "run", "--service"), {}, ""))
    assert not newer.state().is_current
    assert newer.state().notices == ("The unit is out of date: `kbsync service install` writes it anew.",)
    machine.asked.clear()
    assert newer.install(start=True) == [f"Wrote {machine.file} anew.", "The service runs (process 2)."]
    assert machine.asked == ["daemon-reload", "restart"]


def test_a_service_that_ends_at_once_says_how(tmp_path: Path) -> None:
    """S03: what is not started again by itself is told so."""
    machine = Machine(tmp_path)
    machine.service().install(start=False)
    machine.unit |= {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "78"}
    how = "It ended with exit code 78 and is not started again by itself. `kbsync config check` names the mistakes."
    with pytest.raises(ServiceFailed, match=how):
        machine.service().start()
    state = machine.service().state()
    assert (state.running, state.notices[0]) == ("failed", how)
    machine.unit |= {"ActiveState": "activating", "SubState": "auto-restart", "Result": "signal"}
    assert machine.service().state().notices[0] == "It ended (signal) and is tried again."


def test_a_long_start_is_not_waited_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.service().install(start=False)
    slow = {"ActiveState": "activating", "SubState": "start", "StatusText": "filling the full-text index anew"}

    def run(command: Sequence[str], environ: Mapping[str, str]) -> Outcome:
        outcome = machine.run(command, environ)
        machine.unit |= slow
        return outcome

    said = Systemd(PROGRAM, machine.environ, run, lambda _seconds: None).start()
    assert said == ["The service is starting: filling the full-text index anew."]


def test_nothing_is_started_that_is_not_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for deed in (machine.service().start, machine.service().stop, machine.service().restart):
        with pytest.raises(ServiceFailed, match="`kbsync service install`"):
            deed()
    assert machine.asked == []


def test_lines_come_from_the_log_file_where_no_journal_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Machine(tmp_path).service()
    monkeypatch.setattr(systemd, "_JOURNAL", str(tmp_path / "no journal"))
    assert service.log_command(20, follow=True) == ["tail", "-n", "20", "-F", "/home/me/kbsync.log"]
    (tmp_path / "journalctl").touch(mode=0o700)
    monkeypatch.setattr(systemd, "_JOURNAL", str(tmp_path))
    monkeypatch.setattr(systemd, "_JOURNAL_SOCKET", str(tmp_path))
    service = Systemd(PROGRAM, {"PATH": str(tmp_path)})
    assert service.log_command(20, follow=False) == [
        *("journalctl", "--user", "--unit=kbsync.service", "--lines=20", "--no-pager")
    ]


def test_a_manager_that_began_without_the_variable_finds_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XDG_CONFIG_HOME is set in the shell only: a unit that is written there would never be read."""
    home = tmp_path / "my $HOME"
    monkeypatch.setenv("HOME", str(home))
    machine = Machine(tmp_path / "settings")
    machine.looks_in = f'/etc/systemd/user "{tmp_path}/my \\$HOME/.config/systemd/user"'
    machine.service().install(start=True)
    assert (home / ".config" / "systemd" / "user" / "kbsync.service").read_text() == render(PROGRAM)
    assert not machine.file.exists()


@pytest.mark.parametrize("verb", ["start", "restart", "install"])
def test_a_unit_that_failed_too_often_is_tried_when_somebody_asks_for_it(tmp_path: Path, verb: str) -> None:
    """S03: its Python was away for minutes; systemd itself would refuse it until the half hour is over."""
    machine = Machine(tmp_path)
    machine.service().install(start=False)
    machine.unit["ActiveState"], machine.is_limited = "failed", True
    service = machine.service()
    said = service.install(start=True) if verb == "install" else getattr(service, verb)()
    assert any(line.startswith("The service runs") for line in said)
