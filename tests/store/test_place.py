"""Where a database may lie: the file systems and folders in which it would not stay whole are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.store.place import marks_in, warning

HOME = "/home/me/.local/share/kbsync"


@pytest.mark.parametrize("type_", ["nfs4", "cifs", "smbfs", "fuse.sshfs", "9p", "virtiofs", "exfat", "vfat"])
def test_a_disk_on_which_sqlite_is_not_safe_is_warned_of(type_: str) -> None:
    """D17: with the reason and the remedy."""
    told = warning(HOME, type_)
    assert told is not None
    assert HOME in told
    assert f"({type_})" in told
    assert "Set KBSYNC_HOME" in told


@pytest.mark.parametrize("type_", ["ext4", "btrfs", "xfs", "zfs", "apfs", "tmpfs", "overlay", "fuseblk", "hfs", None])
def test_a_disk_of_this_machine_is_fine(type_: str | None) -> None:
    """D17: nobody is warned in vain."""
    assert warning(HOME, type_) is None


@pytest.mark.parametrize(
    ("folder", "program"),
    [
        ("/home/me/Dropbox/kb", "Dropbox"),
        ("/home/me/Dropbox (Ada Ltd)/kb", "Dropbox"),
        ("/Users/me/OneDrive - Ada Ltd/kb", "OneDrive"),
        ("/Users/me/Library/Mobile Documents/com~apple~CloudDocs/kb", "iCloud"),
        ("/Users/me/Library/CloudStorage/GoogleDrive-me/kb", "a cloud's folder"),
        ("/home/me/Nextcloud/kb", "Nextcloud"),
        ("/home/me/Google Drive/kb", "Google Drive"),
    ],
)
def test_a_folder_that_another_program_copies_is_warned_of_by_its_name(folder: str, program: str) -> None:
    """D17: such copies are damaged."""
    told = warning(folder, "ext4")
    assert told is not None
    assert f"which {program} copies elsewhere" in told


@pytest.mark.parametrize("folder", [HOME, "/home/me/dropboxes/kb", "/home/me/my-onedrive/kb", "/srv/clouds"])
def test_names_that_only_resemble_are_fine(folder: str) -> None:
    """D17: nobody is warned in vain."""
    assert warning(folder, "ext4") is None


@pytest.mark.parametrize(
    ("mark", "program"),
    [(".stfolder", "Syncthing"), (".dropbox.cache", "Dropbox"), (".nextcloudsync.log", "Nextcloud")],
)
def test_a_folder_that_another_program_copies_is_warned_of_by_its_mark(tmp_path: Path, mark: str, program: str) -> None:
    """D17: wherever on the way it lies."""
    (tmp_path / "synced" / "deep" / "kb").mkdir(parents=True)
    folder = str(tmp_path / "synced" / "deep" / "kb")
    assert marks_in(folder) == []
    (tmp_path / "synced" / mark).mkdir()
    told = warning(folder, "ext4", marks_in(folder))
    assert told is not None
    assert f"which {program} copies" in told
