"""Where a database may lie: says why a folder is no good place for one. Pure, but for `marks_in`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

# Write-ahead logging keeps its index in memory that processes share, and needs locks that hold: none of these file
# systems gives both (https://sqlite.org/wal.html, https://sqlite.org/howtocorrupt.html, section 2.1).
_NETWORKS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "davfs", "ceph", "lustre"),
        *("gpfs", "beegfs", "ocfs2", "gfs2", "orangefs", "pvfs2", "glusterfs", "coda"),
        *(
            "fuse.sshfs",
            "fuse.rclone",
            "fuse.s3fs",
            "fuse.davfs2",
            "fuse.glusterfs",
            "fuse.curlftpfs",
            "fuse.gvfsd-fuse",
        ),
    }
)
# A folder of the host of a virtual machine or container: its locks are the guest's alone.
_SHARED = frozenset({"9p", "drvfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "hgfs", "fakeowner", "osxfs", "grpcfuse"})
# Without permissions, hard links and a journal: what kbsync keeps is readable for all, and copies cannot be stored.
_LINKLESS = frozenset({"vfat", "msdos", "exfat", "fuse.exfat", "fat"})

# Folders that a program copies to other machines file by file, while they are written: by a name on the way...
_SYNCED_NAMES = (
    ("dropbox", "Dropbox"),
    ("onedrive", "OneDrive"),
    ("google drive", "Google Drive"),
    ("googledrive", "Google Drive"),
    ("icloud drive", "iCloud"),
    ("iclouddrive", "iCloud"),
    ("mobile documents", "iCloud"),
    ("cloudstorage", "a cloud's folder"),
    ("nextcloud", "Nextcloud"),
    ("owncloud", "ownCloud"),
    ("pcloud drive", "pCloud"),
    ("pclouddrive", "pCloud"),
)
# ... or by what lies in it.
_MARKS = (
    (".stfolder", "Syncthing"),
    (".dropbox.cache", "Dropbox"),
    (".nextcloudsync.log", "Nextcloud"),
    (".owncloudsync.log", "ownCloud"),
)

REMEDY = (
    "Set KBSYNC_HOME to a folder on a disk of this machine, or move the data folder there; the folders that it follows "
    "may stay where they are."
)


def warning(folder: str, type_: str | None, marked: Collection[tuple[str, str]] = ()) -> str | None:
    """Say why a database should not lie in this folder and what to do, None where it may.

    `type_` is its file system's type as mount tables have it, None where that is not known; `marked` are (folder on the
    way, mark) pairs as `marks_in` returns them.
    """
    why = _of_file_system(type_) or _of_syncing(folder, marked)
    if why is None:
        return None
    return f"kbsync's database lies in {folder}, {why} {REMEDY}"


def marks_in(folder: str, exists: Callable[[str], bool] = os.path.lexists) -> list[tuple[str, str]]:
    """Return (folder on the way, mark) for each folder from this one upwards that a syncing program has marked."""
    found = []
    while True:
        found += [(folder, mark) for mark, _ in _MARKS if exists(os.path.join(folder, mark))]
        above = os.path.dirname(folder)
        if above == folder:
            return found
        folder = above


def _of_file_system(type_: str | None) -> str | None:
    if type_ in _NETWORKS:
        return f"on a network disk ({type_}): SQLite cannot keep it whole there."
    if type_ in _SHARED:
        return f"in a folder of another system ({type_}): SQLite's locks do not hold there."
    if type_ in _LINKLESS:
        return f"on a disk without permissions and hard links ({type_}): others read it, and copies cannot be stored."
    return None


def _of_syncing(folder: str, marked: Collection[tuple[str, str]]) -> str | None:
    program = next((told for mark, told in _MARKS if any(mark == found for _, found in marked)), None)
    for part in folder.split(os.sep) if program is None else ():
        name = part.casefold()
        # "Dropbox (Company)", "OneDrive - Company"
        program = next(
            (told for known, told in _SYNCED_NAMES if name == known or name.startswith((f"{known} ", f"{known}-"))),
            None,
        )
        if program is not None:
            break
    if program is None:
        return None
    return f"which {program} copies elsewhere while it is written: copies are damaged, and may come back as conflicts."
