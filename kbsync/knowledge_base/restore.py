"""Restores a backup: looks whether it is whole, prepares it beside what is there, and puts it in its place at the end.

Nothing of what is there is touched before the last step, which is carried through by renames (`exchange`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from kbsync.clock import Clock
from kbsync.config import relocated
from kbsync.config.file import text_of
from kbsync.config.locations import Locations
from kbsync.config.settings import is_written, load_settings
from kbsync.errors import ConfigurationError, KbsyncError, RetryLater, StorageUnavailable, UsageError
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, as_text
from kbsync.knowledge_base import exchange, manifest
from kbsync.knowledge_base.manifest import CONFIG, CONVERSIONS, DATABASE, DOCUMENTS, STAGING, Manifest
from kbsync.knowledge_base.path_map import PathMap, Rule, rules_of
from kbsync.model import RootIdentity
from kbsync.reasons import Reason
from kbsync.sources import guard
from kbsync.store import copies, events, relocation, sources
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

# What became of the backup's config.toml.
ConfigOutcome = Literal["placed", "mapped", "kept", "unusable", "none"]


@dataclass(frozen=True, slots=True)
class Root:
    """A source of the backup: where it lay, where it is looked for from now on, and what is there.

    `there`: `here`, `absent` (no folder), `other` (a folder that does not look like it).
    """

    was: str
    path: str
    there: Literal["here", "absent", "other"]


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was found whole, and what restoring it here would mean.

    `left_behind`: how many stored copies are here that it does not have.
    """

    folder: str
    manifest: Manifest
    map: PathMap
    roots: tuple[Root, ...]
    replaces: bool
    left_behind: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """What becomes of the backup's config.toml.

    `placed` (it is the one here now), `mapped` (the one here said the same, and names its folders where they lie now),
    `kept` (the one here was left; `differences` names the settings in which the two differ, `lacks` is TOML with the
    sources that it does not name), `unusable` (`error` says why) or `none`. `over`: the text whose place is taken.
    """

    outcome: ConfigOutcome
    differences: tuple[str, ...] = ()
    lacks: str = ""
    error: str | None = None
    over: str | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. `set_aside`: the folder with what was there before, None where nothing was.

    `moved`: how many files of sources lie elsewhere now.
    """

    backup: Backup
    set_aside: str | None
    configuration: Configuration
    moved: int
    seconds: float


def look(locations: Locations, folder: str, maps: Sequence[str], fs: FileSystem) -> Backup:
    """Look whether a folder is a whole backup, and what its folders are on this machine. Changes nothing.

    `maps`: `OLD=NEW` each. Raises UsageError for what is no whole backup, and for maps that mean nothing.
    """
    folder = os.path.realpath(folder)
    manifest.refuse_odd(folder)
    if not os.path.isdir(folder):
        raise UsageError(f"There is no folder {as_text(folder)}.", hint="Name the folder that `kbsync backup` wrote.")
    found = manifest.read(folder)
    manifest.verify(folder, found)
    reader = Readers(os.path.join(folder, DATABASE))
    try:
        known, rows = reader.read(lambda connection: (relocation.known_paths(connection), _roots(connection)))
    finally:
        reader.close()
    listed = ", ".join(as_text(path) for path in rows) or "none"
    old_home, new_home = found.home, os.path.expanduser("~")
    rules = rules_of(maps, known, old_home, new_home, hint=f"Its sources are: {listed}.")
    for rule in rules:
        if not os.path.exists(rule.new):
            new = as_text(os.fsdecode(rule.new))
            raise UsageError(
                f"There is no {new} here, which --map names for {as_text(os.fsdecode(rule.old))}.",
                hint="Look how it is spelt; or make that folder, or plug its disk in, first. Nothing was changed.",
            )
    # What is followed has its real path, whatever links lead to it.
    path_map = PathMap(Rule(rule.old, os.fsencode(os.path.realpath(os.fsdecode(rule.new)))) for rule in rules)
    roots = tuple(_root(fs, path, path_map, identity) for path, identity in rows.items())
    stored = _names(locations.documents_dir)
    replaces = os.path.exists(locations.database) or bool(stored or _names(locations.staging_dir))
    left_behind = sum(f"{DOCUMENTS}/{name}" not in found.files for name in stored)
    return Backup(folder, found, path_map, roots, replaces, left_behind)


def restore(locations: Locations, backup: Backup, clock: Clock) -> Restored:
    """Put a backup in the place of what is there. The caller holds the lock, and has nothing open.

    Raises UsageError where its files changed since `look`, RetryLater for a full disk: then nothing has changed.
    """
    begun = clock.monotonic()
    try:
        new = exchange.begin(locations)
        failpoint("restore.begun")
        try:
            _copy(backup, new)
            failpoint("restore.copied")
            moved = _prepare(locations, backup, os.path.join(new, DATABASE), clock.now())
            failpoint("restore.prepared")
            configuration = _configuration(locations, backup, new)
            exchange.decide(locations, time.strftime("%Y%m%d-%H%M%S", time.localtime(clock.now())), configuration.over)
        except BaseException:
            exchange.abandon(locations)
            raise
        aside = exchange.finish(locations)
    except OSError as error:
        raise _failed(locations, error) from error
    return Restored(backup, aside, configuration, moved, clock.monotonic() - begun)


def carry_through(locations: Locations) -> str | None:
    """Finish what an interrupted restore began; return a sentence about it, None where there was nothing to finish.

    For whoever holds the lock, before anything is read of the configuration or the database. Raises StorageUnavailable
    where the disk does not let it go on.
    """
    pending = exchange.is_pending(locations)
    try:
        aside = exchange.finish(locations)
    except OSError as error:
        raise StorageUnavailable(
            Reason.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Reason.IO,
            f"A restore was interrupted and cannot go on: {error.strerror} ({locations.data_dir}).",
            hint="See that its disk has room and can be written.",
        ) from error
    if not pending:
        return None
    log.info("restore_finished", aside=aside)
    return (
        f"A restore that was interrupted is finished now{f'; what was there before lies in {aside}' if aside else ''}."
    )


def hint_to_map(backup: Backup) -> str:
    """Return what to say to `--map` for the sources that are not where they were.

    A folder is proposed only where all that it would be said for is there.
    """
    home, here = backup.manifest.home, os.path.expanduser("~")
    missing = [root.was for root in backup.roots if root.there == "absent"]
    homes = PathMap([Rule(os.fsencode(home), os.fsencode(here))])
    if home != here and missing and all((new := homes.text(path)) and os.path.isdir(new) for path in missing):
        return f"--map {as_text(home)}={as_text(here)}"
    return f"--map {as_text(missing[0])}=NEW" if missing else ""


def _roots(connection: Connection) -> dict[str, RootIdentity | None]:
    """Return the followed folders with what they are known by, of any schema that has sources."""
    columns = {str(row[1]) for row in connection.execute("PRAGMA table_info(sources)")}
    if "identity" not in columns:
        return {os.fsdecode(path): None for (path,) in connection.execute("SELECT path FROM sources ORDER BY path")}
    return {row.path: row.identity for row in sources.listed(connection)}


def _root(fs: FileSystem, was: str, path_map: PathMap, identity: RootIdentity | None) -> Root:
    mapped = path_map.text(was)
    path = mapped or was
    try:
        if fs.lstat(path).kind != "directory":
            return Root(was, path, "absent")
        same, _ = guard.look_at_root(fs, path, identity if mapped is None else None)
    except OSError:
        return Root(was, path, "absent")
    return Root(was, path, "other" if same == "other" else "here")


def _copy(backup: Backup, new: str) -> None:
    for part in (DOCUMENTS, STAGING, CONVERSIONS):
        os.mkdir(os.path.join(new, part), 0o700)
    for name, expected in backup.manifest.files.items():
        if copies.copy_file(os.path.join(backup.folder, name), os.path.join(new, name)) != expected:
            raise manifest.damaged(backup.folder, name)
        failpoint("restore.file_copied")


def _prepare(locations: Locations, backup: Backup, database: str, now: float) -> int:
    """Bring the copied database to today's schema and to this machine; return how many files of sources moved."""
    writer = Writer(database)
    writer.open()

    def write(connection: Connection) -> int:
        moved = relocation.relocate(connection, backup.map) if backup.map.rules else 0
        relocation.place_copies(connection, locations.documents_dir, locations.staging_dir)
        told = time.strftime("%Y-%m-%d %H:%M", time.localtime(backup.manifest.made_at))
        events.record(connection, "restored", now, detail=f"from a backup of {told}")
        return moved

    try:
        moved = writer.run(write)
    finally:
        writer.close()
    # Its log goes with the last connection; what is put in place is one file.
    if os.path.exists(f"{database}-wal"):
        raise RetryLater(Reason.IO, f"The restored database {database} could not be closed.", hint="Try again.")
    return moved


def _configuration(locations: Locations, backup: Backup, new: str) -> Configuration:
    """Make the backup's config.toml fit this machine; leave it to be placed where there is none, or none but its own.

    One that says what the backup's says is no other one: a restore placed it, or it has not been changed since.
    """
    path = os.path.join(new, CONFIG)
    if not os.path.exists(path):
        return Configuration("none")
    led_to, mistake, own, text = backup.manifest.sources, None, "", ""
    try:
        with open(path, encoding="utf-8") as file:
            own = file.read()
        text = relocated.relocated(own, backup.map.text, led_to)
    except ValueError as error:
        mistake = f"{backup.folder}/{CONFIG} is no TOML: {error}."
    os.unlink(path)
    over = text_of(locations.config_file) if is_written(locations.config_file) else None
    if over is not None:
        if mistake is not None or not _says_the_same(over, own, led_to):
            return Configuration("kept", _differences(over, text), relocated.lacking(over, text), mistake)
        text = relocated.relocated(over, backup.map.text, led_to)
        if text == over:
            return Configuration("kept")
    if mistake is None:
        copies.write_file(path, text.encode())
        try:
            load_settings(path)
        except ConfigurationError as error:
            mistake = error.message.replace(path, f"{backup.folder}/{CONFIG}")
            os.unlink(path)
    if mistake is not None:
        return Configuration("unusable", error=mistake)
    return Configuration("placed" if over is None else "mapped", over=over)


def _says_the_same(here: str, own: str, led_to: Mapping[str, str]) -> bool:
    """Return whether a configuration says what the backup's says: as it was written, or as one is placed unmapped."""
    placed = relocated.relocated(own, lambda _path: None, led_to)
    return here == own or any(not _differences(here, there) for there in (own, placed))


def _differences(here: str, there: str) -> tuple[str, ...]:
    try:
        return tuple(relocated.differences(here, there))
    except ValueError:
        return ("everything: it cannot be read",)


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return ()


def _failed(locations: Locations, error: OSError) -> KbsyncError:
    pending = exchange.is_pending(locations)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and not pending:
        return RetryLater(
            Reason.NO_SPACE,
            f"The disk that holds {locations.data_dir} is full.",
            hint="A restore needs room for the backup beside what is there. Nothing was changed.",
        )
    at = f" ({as_text(os.fsdecode(error.filename))})" if error.filename else ""
    what = "was interrupted: the next command goes on with it" if pending else "changed nothing"
    return KbsyncError(f"The restore failed: {error.strerror}{at}. It {what}.")
