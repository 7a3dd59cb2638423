"""Where kbsync keeps its things. Imports nothing heavy: `status` and `search` start here."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kbsync.errors import ConfigurationError, StorageUnavailable, disk_full
from kbsync.filesystem import stat_of, sync_folder

# macOS allows 104 bytes for a Unix socket's path, the closing NUL included; Linux 108.
SOCKET_PATH_LIMIT = 103


@dataclass(frozen=True, slots=True)
class Locations:
    """Absolute paths. Folders are made (0700) by `make_folders`, not before."""

    config_file: str
    data_dir: str
    state_dir: str
    log_dir: str
    error_log: str

    @property
    def database(self) -> str:
        return os.path.join(self.data_dir, "kb.sqlite3")

    def own_paths(self) -> frozenset[tuple[int, int]]:
        """Return (device, inode) of kbsync's own folders and of the database's files, whatever name they are met by.

        The database must be open: then its -wal and -shm are there and stay the same files. Raises OSError.
        """
        files = (self.database + ending for ending in ("", "-wal", "-shm"))
        paths = [self.data_dir, self.state_dir, *files, *([self.log_dir] if os.path.isdir(self.log_dir) else [])]
        stats = [stat_of(os.stat(path)) for path in paths]
        return frozenset((stat.device, stat.inode) for stat in stats)

    @property
    def lock_file(self) -> str:
        return os.path.join(self.data_dir, "kb.lock")

    @property
    def documents_dir(self) -> str:
        """Stored copies: `{content_hash}.{ext}`."""
        return os.path.join(self.data_dir, "documents")

    @property
    def staging_dir(self) -> str:
        """Copies on their way in. Beside `documents_dir`, so that a hard link between them works."""
        return os.path.join(self.data_dir, "staging")

    @property
    def conversions_dir(self) -> str:
        """What converters made of documents, so that nothing is converted twice."""
        return os.path.join(self.data_dir, "conversions")

    @property
    def restoring_dir(self) -> str:
        """What is restored from a backup, until it takes the place of what is there. Not made before there is any."""
        return os.path.join(self.data_dir, "restoring")

    @property
    def models_dir(self) -> str:
        """Models that the user had fetched. Not made before there are any."""
        return os.path.join(self.data_dir, "models")

    @property
    def token_file(self) -> str:
        """What a program must say to be answered over TCP."""
        return os.path.join(self.state_dir, "token")

    @property
    def early_ends_file(self) -> str:
        """How many starts under a service manager soon ended, one after another. Not made before one begins."""
        return os.path.join(self.state_dir, "early-ends.json")

    @property
    def heartbeat_dir(self) -> str:
        """A folder that is written to now and then and watched like the sources: so events are known to arrive."""
        return os.path.join(self.state_dir, "heartbeat")

    @property
    def opened_dir(self) -> str:
        """Copies of documents that were opened with a program of the desktop. Not made before there are any."""
        return os.path.join(self.state_dir, "opened")

    @property
    def log_file(self) -> str:
        return os.path.join(self.log_dir, "kbsync.log")

    @property
    def service_log(self) -> str:
        """What launchd writes of what the daemon says before its own log is there, and of how it dies."""
        return os.path.join(self.log_dir, "service.log")

    def make_folders(self) -> None:
        """Create every folder, private to the user. Raises ConfigurationError where that is impossible.

        Without the folder of the log everything goes on: what cannot be logged is told in `status`.
        """
        with making_private():
            try:
                _make_private(self.log_dir)
            except (ConfigurationError, StorageUnavailable):
                pass
            for folder in (
                self.data_dir,
                self.state_dir,
                self.documents_dir,
                self.staging_dir,
                self.conversions_dir,
            ):
                _make_private(folder)

    def make_config_folder(self) -> None:
        """Create the folder of config.toml where there is none, private to the user. Raises ConfigurationError."""
        folder = os.path.dirname(os.path.realpath(self.config_file))
        if not os.path.isdir(folder):
            with making_private():
                _make_private(folder)

    def socket_path(self) -> str:
        """Return a path for the Unix socket; a private temporary folder is made where the usual one is too long."""
        usual = os.path.join(self.state_dir, "kbsync.sock")
        if len(os.fsencode(usual)) <= SOCKET_PATH_LIMIT:
            return usual
        temporary = tempfile.gettempdir()
        # TMPDIR may be long as well; every Unix has /tmp.
        short = temporary if len(os.fsencode(temporary)) <= SOCKET_PATH_LIMIT // 2 else "/tmp"
        return os.path.join(tempfile.mkdtemp(prefix="kbsync-", dir=short), "kbsync.sock")

    def forget_opened(self) -> None:
        """Remove the copies of documents that were opened: for a start, when their programs have long read them."""
        shutil.rmtree(self.opened_dir, ignore_errors=True)

    def forget_socket(self, path: str) -> None:
        """Remove the temporary folder that `socket_path` made, if it made one."""
        folder = os.path.dirname(path)
        if folder != self.state_dir:
            try:
                os.rmdir(folder)
            except OSError:
                pass  # something else is in it, or it is gone


@contextmanager
def making_private() -> Iterator[None]:
    """Have new folders be private: those on the way are new ones too, and `makedirs` has no mode for them."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _make_private(folder: str) -> None:
    above, new = folder, []
    while not os.path.isdir(above):
        above, _name = os.path.split(above)
        new.append(above)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.chmod(folder, 0o700)
        for parent in reversed(new):
            sync_names(parent)  # all that is synced within a new folder later would go with its name
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder) from error
        raise ConfigurationError(
            f"Cannot make the folder {folder}: {error.strerror}.",
            hint="Make it writable, or set KBSYNC_HOME to a folder that is.",
        ) from error


def sync_names(folder: str) -> None:
    """Have what was just made or renamed in a folder outlive a loss of power; its content was synced by itself."""
    try:
        sync_folder(folder)
    except OSError:
        pass  # a folder above ours may be closed to us: no reason to go without


def locate(environ: Mapping[str, str]) -> Locations:
    """Return the locations: below KBSYNC_HOME where it is set, else in the platform's usual folders."""
    home = environ.get("KBSYNC_HOME")
    if home:
        home = os.path.realpath(os.path.expanduser(home))
        return Locations(
            config_file=os.path.join(home, "config.toml"),
            data_dir=os.path.join(home, "data"),
            state_dir=os.path.join(home, "state"),
            log_dir=os.path.join(home, "logs"),
            error_log=os.path.join(home, "ingest-errors.log"),
        )
    import platformdirs

    return Locations(
        config_file=os.path.join(platformdirs.user_config_dir("kbsync", appauthor=False), "config.toml"),
        data_dir=os.path.realpath(platformdirs.user_data_dir("kbsync", appauthor=False)),
        state_dir=os.path.realpath(platformdirs.user_state_dir("kbsync", appauthor=False)),
        log_dir=platformdirs.user_log_dir("kbsync", appauthor=False),
        error_log=os.path.join(os.path.expanduser("~"), ".kb", "ingest-errors.log"),
    )
