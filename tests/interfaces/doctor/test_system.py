"""What is judged of the system: limits, file systems, permissions, room, clock. Each line of a table is a decision."""

from __future__ import annotations

import errno
import resource
from dataclasses import replace

import pytest

from kbsync import machine
from kbsync.interfaces.doctor import configuration, folders, room, times, watching
from kbsync.interfaces.doctor.finding import Finding
from kbsync.interfaces.doctor.folders import Place
from kbsync.interfaces.doctor.room import Disk, Memory
from kbsync.interfaces.doctor.times import Times
from kbsync.interfaces.doctor.watching import Limit, Seen, Watches


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.state, finding.remedy) for finding in findings]


WATCHES = Limit("fs.inotify.max_user_watches", 8192)
FILE = "/etc/sysctl.d/60-kbsync.conf"


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (Watches(WATCHES, 0, 8192, at_least=False), None),
        (Watches(WATCHES, 1, 8192, at_least=False), 524_288),
        (Watches(WATCHES, 100, 400_000, at_least=True), 1_048_576),
        (Watches(WATCHES, 8192, 0, at_least=False), None),
    ],
)
def test_watches_of_folders(found: Watches, value: int | None) -> None:
    remedy = f"echo fs.inotify.max_user_watches={value} | sudo tee -a {FILE} && sudo sysctl -p {FILE}"
    assert told(watching.judge_watches(found)) == [("ok", "") if value is None else ("warning", remedy)]


@pytest.mark.parametrize(
    ("used", "is_running", "state"),
    [(126, False, "ok"), (127, False, "warning"), (128, True, "ok"), (129, True, "warning")],
)
def test_watchers(used: int, is_running: bool, state: str) -> None:
    limit = Limit("user.max_inotify_instances", 128)
    (finding,) = watching.judge_watchers(limit, used, is_running=is_running)
    assert finding.state == state
    assert ("echo user.max_inotify_instances=512 |" in finding.remedy) == (state == "warning")


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1024, 4096, ("ok", "")),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ("ok", "")),
        (256, resource.RLIM_INFINITY, ("warning", "ulimit -n 4096")),
        (256, 4096, ("warning", "ulimit -n 4096")),
        (
            256,
            256,
            ("warning", "Raise `nofile` for this user in /etc/security/limits.conf to 4096, and log in again."),
        ),
    ],
)
def test_open_files(soft: int, hard: int, expected: tuple[str, str]) -> None:
    assert told(watching.judge_open_files(soft, hard)) == [expected]


LOCAL = Seen("/notes", "ext4", "auto", None, False)
SHARE = Seen("/share", "nfs4", "auto", "/share is polled: it lies on nfs4.", True)


@pytest.mark.parametrize(
    ("sources", "own", "expected"),
    [
        ([], None, [("ok", "")]),
        ([LOCAL, SHARE], None, [("ok", "")]),
        ([replace(SHARE, watch="polling")], None, [("ok", "")]),
        (
            [LOCAL, replace(SHARE, watch="native", polled=None)],
            None,
            [("warning", 'Set watch = "auto" for /share in config.toml.')],
        ),
        ([LOCAL], "The database lies on a network disk.", [("warning", "Move it.")]),
    ],
)
def test_file_systems(sources: list[Seen], own: str | None, expected: list[tuple[str, str]]) -> None:
    assert told(watching.judge_file_systems(sources, own, "Move it.")) == expected


def test_folder_that_is_polled_is_said_to_be() -> None:
    assert "/share is polled" in watching.judge_file_systems([LOCAL, SHARE], None, "")[0].detail


DATA = Place("/home/ann/kb", "folder", 0o700, 1000, True)
TOKEN = Place("/home/ann/kb/token", "file", 0o600, 1000, True)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], [("ok", "")]),
        ([DATA, TOKEN], [("ok", "")]),
        ([replace(DATA, owner=0), TOKEN], [("problem", "sudo chown -R ann /home/ann/kb")]),
        # What lies in a folder that is set right as a whole is not told too.
        ([replace(DATA, owner=0), replace(TOKEN, owner=0)], [("problem", "sudo chown -R ann /home/ann/kb")]),
        ([replace(DATA, mode=0o500, is_open=False)], [("problem", "chmod u+rwx /home/ann/kb")]),
        ([DATA, replace(TOKEN, mode=0o200, is_open=False)], [("problem", "chmod u+rw /home/ann/kb/token")]),
        ([replace(DATA, mode=0o755)], [("warning", "chmod 700 /home/ann/kb")]),
        ([DATA, replace(TOKEN, mode=0o640)], [("warning", "chmod 600 /home/ann/kb/token")]),
        ([replace(DATA, path="/a b", mode=0o750)], [("warning", "chmod 700 '/a b'")]),
        ([replace(TOKEN, kind="other", mode=0o777)], [("ok", "")]),
        (
            [replace(DATA, mode=0o777), replace(TOKEN, mode=0o666), replace(TOKEN, path="/a b", mode=0o644)],
            [("warning", "chmod -R go-rwx /home/ann/kb '/a b'")],
        ),
    ],
)
def test_own_folders_and_files(seen: list[Place], expected: list[tuple[str, str]]) -> None:
    assert told(folders.judge_own(seen, [], 1000, "ann")) == expected


@pytest.mark.parametrize(("mode", "can"), [(0o755, "look into /"), (0o777, "look into and change /")])
def test_what_others_can_do_is_told(mode: int, can: str) -> None:
    (finding,) = folders.judge_own([replace(DATA, mode=mode)], [], 1000, "ann")
    assert f"Others can {can}" in finding.detail


def test_one_closed_folder_of_ours_above_all_is_told_once_and_opened_without_root() -> None:
    absent = [(f"/home/ann/kb/{name}", "/home/ann/kb", 1000) for name in ("data", "state", "log")]
    assert told(folders.judge_own([], absent, 1000, "ann")) == [("problem", "chmod u+rwx /home/ann/kb")]


@pytest.mark.parametrize(
    ("shut", "is_ours", "remedy"),
    [
        ("/kb/config.toml", True, "chmod u+rw /kb/config.toml"),
        ("/kb", True, "chmod u+rwx /kb"),
        ("/kb", False, f"sudo chown {machine.user_name()} /kb"),
    ],
)
def test_configuration_that_is_closed_is_opened(shut: str, is_ours: bool, remedy: str) -> None:
    finding = configuration.judge_closed("/kb/config.toml", shut, is_ours)
    assert (finding.state, finding.remedy) == ("problem", remedy)


def test_folders_that_cannot_be_made_are_told_once() -> None:
    found = folders.judge_own([], [("/srv/kb/data", "/srv", 0), ("/srv/kb/state", "/srv", 0)], 1000, "ann")
    assert told(found) == [
        ("problem", "sudo mkdir -p /srv/kb/data /srv/kb/state && sudo chown -R ann /srv/kb/data /srv/kb/state"),
    ]


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        (None, ("ok", "")),
        ("folder", ("warning", "rmdir '/a b.log'")),
        ("/a b.log", ("warning", "chmod u+rwX '/a b.log'")),
        ("/above", ("warning", "chmod u+rwX /above")),
    ],
)
def test_logs(why: str | None, expected: tuple[str, str]) -> None:
    assert told(folders.judge_logs([("/a b.log", why), ("/c.log", None)])) == [expected]


@pytest.mark.parametrize(
    ("why", "platform", "expected"),
    [
        (None, "linux", ("ok", "")),
        ("silent", "linux", ("problem", "sudo umount -l '/n x', then mount it again.")),
        ("file", "linux", ("problem", "kbsync sources remove '/n x'")),
        ("full", "linux", ("problem", "chmod u+rwx '/n x'")),
        (
            errno.ENOENT,
            "linux",
            ("warning", "Mount its disk; if it is gone for good: kbsync sources remove '/n x'"),
        ),
        (errno.EACCES, "linux", ("problem", "chmod u+rwx '/n x'")),
        (errno.EPERM, "linux", ("problem", "chmod u+rwx '/n x'")),
        (
            errno.EPERM,
            "darwin",
            (
                "problem",
                "Add /no/bin/python in System Settings > Privacy & Security > Full Disk Access, "
                "then: kbsync service restart",
            ),
        ),
        (errno.EIO, "linux", ("problem", "Have its disk checked, and mount it again.")),
    ],
)
def test_sources(why: folders.Why | None, platform: str, expected: tuple[str, str]) -> None:
    looked = [("/fine", "mirror", None), ("/n x", "mirror", why)]
    assert told(folders.judge_sources(looked, platform, "/no/bin/python", "ann")) == [expected]


MB = 1_000_000
DISK = Disk("/kb", 10_000 * MB, 1_000_000, 100 * MB, "/tmp", 10_000 * MB, False)


@pytest.mark.parametrize(
    ("disk", "state", "remedy"),
    [
        (DISK, "ok", ""),
        (replace(DISK, free=100 * MB), "problem", "Free at least 34 MB on the disk that holds /kb."),
        (replace(DISK, files=10), "problem", "Delete files that you do not need on the disk that holds /kb."),
        (replace(DISK, files=None), "ok", ""),
        (replace(DISK, free=200 * MB), "warning", "Free 34 MB on the disk that holds /kb."),
        (replace(DISK, free=300 * MB, is_shared=True), "warning", "Free 34 MB on the disk that holds /kb."),
        (replace(DISK, free=200 * MB, database=0), "ok", ""),
        (
            replace(DISK, temporary=50 * MB),
            "warning",
            "Set TMPDIR to a folder on a larger disk where kbsync is started.",
        ),
    ],
)
def test_disk(disk: Disk, state: str, remedy: str) -> None:
    assert told(room.judge_disk(disk)) == [(state, remedy)]


GB = 1 << 30
MEMORY = Memory(16 * GB, 8 * GB, 4, 2, 5 * GB // 2)


@pytest.mark.parametrize(
    ("memory", "is_running", "state"),
    [
        (MEMORY, False, "ok"),
        (replace(MEMORY, total=3 * GB), False, "warning"),
        (replace(MEMORY, free=1 * GB), False, "warning"),
        (replace(MEMORY, free=1 * GB), True, "ok"),
    ],
)
def test_memory(memory: Memory, is_running: bool, state: str) -> None:
    (finding,) = room.judge_memory(memory, is_running=is_running)
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")
    if state == "ok":
        assert "up to 2 documents at once (workers = 4)" in finding.detail


NOW = 1_800_000_000.0
TIMES = Times(NOW, NOW - 86_400, (), 0.0, True)
SET = "sudo timedatectl set-ntp true"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (TIMES, ("ok", "")),
        (replace(TIMES, is_synchronised=None), ("ok", "")),
        (replace(TIMES, now=0.0), ("problem", SET)),
        (replace(TIMES, built=NOW + 60), ("ok", "")),
        (
            replace(TIMES, ahead=(("/a b.log", NOW + 9e6),)),
            ("warning", f"{SET}; if the clock is right: touch '/a b.log'"),
        ),
        (replace(TIMES, ahead=(("the last check", NOW + 9e6),)), ("warning", f"{SET}, then kbsync check")),
        (replace(TIMES, drift=-3.0), ("warning", SET)),
        (replace(TIMES, is_synchronised=False), ("warning", SET)),
    ],
)
def test_clock(found: Times, expected: tuple[str, str]) -> None:
    assert told(times.judge(found)) == [expected]


def test_what_the_daemon_did_last_is_read_from_its_answer() -> None:
    status = {
        "last_check": {"at": "2027-01-15T08:00:00+00:00"},
        "schedule": [{"name": "rescan", "last": None}, {"name": "compact", "last": "2027-01-15T09:00:00+00:00"}],
    }
    assert times.runs_in(status) == [("the last check", NOW), ("the last run of compact", NOW + 3600)]
    assert times.runs_in({}) == []
