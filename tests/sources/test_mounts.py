"""How a source is watched follows from the file system it lies on."""

from __future__ import annotations

import sys

import pytest

from kbsync.model import Source, WatchMode
from kbsync.sources.mounts import Mount, lacks_events, mounts, parsed, type_of, watching_of

MOUNTINFO = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
41 27 0:40 / /home/me/My\040Share rw,nosuid shared:5 master:2 - cifs //server/share rw,vers=3.1.1
42 27 0:41 / /mnt/c rw,noatime - 9p drvfs rw,dirsync,aname=drvfs;path=C:\134
43 27 0:42 / /home/me/remote rw,nosuid,nodev - fuse.sshfs me@host:/ rw,user_id=0
44 27 8:17 / /media/stick rw - fuseblk /dev/sdb1 rw
45 27 0:50 / /over rw - tmpfs tmpfs rw
46 45 0:51 / /over rw - nfs4 server:/over rw
"""


def test_what_is_mounted_is_read_with_its_escapes() -> None:
    found = parsed(MOUNTINFO)
    assert Mount("/home/me/My Share", "cifs") in found
    assert [mount.type for mount in found] == ["proc", "ext4", "cifs", "9p", "fuse.sshfs", "fuseblk", "tmpfs", "nfs4"]
    assert parsed(b"\nno such line\n") == ()


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("/", "ext4"),
        ("/home/me/notes", "ext4"),
        ("/home/me/My Share", "cifs"),
        ("/home/me/My Share/deep/er", "cifs"),
        ("/home/me/My Shared", "ext4"),
        ("/over/notes", "nfs4"),
    ],
)
def test_the_innermost_mount_holds_a_path_and_of_two_on_one_folder_the_later(path: str, type_: str) -> None:
    assert type_of(path, parsed(MOUNTINFO)) == type_


def test_where_nothing_is_known_of_a_path_no_type_is_made_up() -> None:
    assert type_of("/notes", ()) is None
    assert watching_of(Source(1, "/notes"), ()).mode == "native"


@pytest.mark.parametrize("type_", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "fuse.rclone", "vboxsf", "drvfs"])
def test_file_systems_that_others_change_lack_events(type_: str) -> None:
    assert lacks_events(type_)


@pytest.mark.parametrize("type_", ["ext4", "btrfs", "xfs", "zfs", "tmpfs", "apfs", "fuseblk", "overlay", "vfat"])
def test_local_file_systems_tell_everything(type_: str) -> None:
    assert not lacks_events(type_)


@pytest.mark.parametrize(
    ("path", "watch", "mode", "polled_too"),
    [
        ("/home/me/notes", "auto", "native", False),
        ("/home/me/My Share/notes", "auto", "polling", False),
        ("/home/me/My Share/notes", "native", "native", False),
        ("/home/me/notes", "polling", "polling", False),
        ("/home/me", "auto", "native", True),
        ("/home/me", "native", "native", False),
        ("/media/stick", "auto", "native", False),
    ],
)
def test_w20_auto_follows_the_type_and_the_setting_has_the_last_word(
    path: str, watch: WatchMode, mode: str, polled_too: bool
) -> None:
    """W20: a share is polled, and a local folder in which a share is mounted is watched and polled."""
    watching = watching_of(Source(1, path, watch=watch), parsed(MOUNTINFO))
    assert (watching.mode, watching.polled_too) == (mode, polled_too)
    assert (watching.why is not None) == (watch == "auto" and (mode == "polling" or polled_too))


def test_a_share_below_a_source_that_takes_no_folders_does_not_matter() -> None:
    assert not watching_of(Source(1, "/home/me", recursive=False), parsed(MOUNTINFO)).polled_too


@pytest.mark.skipif(sys.platform != "linux", reason="every Linux mounts its /proc")
def test_this_machine_tells_its_mounts() -> None:
    assert type_of("/proc/self", mounts()) == "proc"
