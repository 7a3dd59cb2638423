"""Which folders are followed, and a person's word about them, in JSON values."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kbsync.compose import Engine
from kbsync.config import file as config_file
from kbsync.config.locations import Locations
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.errors import Unconfirmed, UsageError
from kbsync.filesystem import as_text
from kbsync.interfaces.ledger import Ledger
from kbsync.interfaces.paths import absolute_path
from kbsync.interfaces.records import Record, shown_path, source_record, time_of
from kbsync.model import Source, SourceMode
from kbsync.projects.project import is_project
from kbsync.sources.ignore import rules_for

# What the system is made of or makes up; of the second, folders in which people's disks and files lie all the same.
_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/bin", "/sbin", "/lib", "/lib64", "/System")
_PEOPLES = ("/run/media", "/run/user", "/dev/shm")
# A folder in one of these may be a person's, these themselves are not.
_ROOTS = (
    "/",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/var",
    "/Library",
    "/private",
    "/private/etc",
)
# A folder is counted for so many seconds at most: whoever asks waits.
_SURVEY_S = 5.0


class Folders(Ledger):
    """The configured folders, with the daemon or without. Any thread may ask. Paths as in `Ledger`."""

    def __init__(self, engine: Engine, daemon: Daemon | None) -> None:
        super().__init__(engine)
        self._daemon = daemon

    def survey(self, path: str, *, recursive: bool = True, ignore: Sequence[str] = ()) -> Record:
        """Return what a folder holds, within seconds.

        `{files, size_bytes, complete, by_type: {type: {files, size_bytes}}, left_out: {reason: count}, unreadable}`
        """
        found = self._engine.kb.adding.survey(
            os.path.realpath(absolute_path(path)), recursive=recursive, ignore=tuple(ignore), within_s=_SURVEY_S
        )
        by_type = {kind: {"files": count, "size_bytes": found.sizes[kind]} for kind, count in found.files.items()}
        return {
            "files": sum(found.files.values()),
            "size_bytes": sum(found.sizes.values()),
            "complete": found.complete,
            "by_type": by_type,
            "left_out": {str(reason): count for reason, count in found.left_out.items()},
            "unreadable": found.unreadable,
        }

    def sources(self) -> Record:
        """Return `{sources, total, projects}`: the configured folders and how they are doing, projects apart."""
        rows, counts = self._engine.kb.sources()
        records = [source_record(row, counts.get(row.id, {}), running=self._daemon is not None) for row in rows]
        modes = {
            **{entry.path: entry.mode for entry in self._engine.settings.sources},
            **{source.path: source.mode for source in self._engine.sources.all()},
        }
        for row, record in zip(rows, records, strict=True):
            record["mode"] = modes.get(row.path, "mirror")
        if self._daemon is not None:
            # A walk that finds nothing new writes nothing: only the running daemon knows when it was.
            for row, record in zip(rows, records, strict=True):
                if (scan := self._daemon.loops.rescans.last.get(row.id)) is not None:
                    record["last_scan_at"] = time_of(scan.begun_at)
        return {"sources": records, "total": len(records), "projects": self._projects()}

    def _projects(self) -> list[Record]:
        if self._daemon is not None:
            return [{**one, "path": shown_path(str(one["path"]))} for one in self._daemon.loops.intake.status()]
        folders = load_settings(self._engine.locations.config_file).project_folders
        return [{"path": shown_path(path), "waiting": [], "refused": [], "problem": None} for path in folders]

    def add_source(
        self,
        path: str,
        *,
        recursive: bool = True,
        ignore: Sequence[str] = (),
        mode: SourceMode = "mirror",
        confirmed: bool = False,
    ) -> Record:
        """Write a folder into the configuration and begin to follow it: `{added}`.

        Raises UsageError for one that cannot be followed, and Unconfirmed for the whole home folder, and for an inbox
        that holds files already, which would leave it: `confirmed` says that they may.
        """
        path, config = absolute_path(path), self._engine.locations.config_file
        # A pattern that cannot be used is refused first.
        rules_for(Source(0, path, ignore=tuple(ignore)))
        resolved = config_file.followable(config, path, mode)
        refuse_own(resolved, self._engine.own)
        if mode == "project" and not is_project(resolved):
            raise UsageError(f"{as_text(resolved)} is no project.", hint="`kbsync project init NAME` makes one.")
        refuse_system(resolved, self._engine.locations)
        if not confirmed:
            refuse_home(resolved)
        if mode == "inbox" and not confirmed:
            self._refuse_filled(resolved, recursive, ignore)
        added = config_file.add_source(config, resolved, recursive=recursive, ignore=tuple(ignore), mode=mode)
        self._follow()
        return {"added": shown_path(added)}

    def _refuse_filled(self, path: str, recursive: bool, ignore: Sequence[str]) -> None:
        found = self.survey(path, recursive=recursive, ignore=ignore)
        if not found["files"] and found["complete"]:
            return
        least = "" if found["complete"] else "At least "
        files = "1 file moves" if found["files"] == 1 else f"{found['files']} files move"
        raise Unconfirmed(
            f"{least}{files} out of {as_text(path)} into kbsync's own store as soon as they are indexed.",
            hint="Say yes to that (`--yes`, over HTTP `confirmed`), or follow the folder as a mirror.",
        )

    def remove_source(self, path: str) -> Record:
        """Take a folder out of the configuration: `{removed, mode}`.

        What a mirror held is hidden from search; what an inbox took in stays.
        """
        config, wanted = self._engine.locations.config_file, os.path.realpath(absolute_path(path))
        modes = {source.path: source.mode for source in load_settings(config).sources}
        mode = modes.get(wanted, "mirror")
        removed = config_file.remove_source(config, absolute_path(path))
        self._follow()
        return {"removed": shown_path(removed), "mode": mode}

    def pause_source(self, path: str) -> Record:
        """Have a source left alone until it is resumed: `{source}`. Raises NotFound."""
        return self._controlled(self._engine.source_control.pause(absolute_path(path)).path)

    def resume_source(self, path: str) -> Record:
        """Go on with a source that was paused: `{source}`. Raises NotFound and UsageError."""
        return self._controlled(self._engine.source_control.resume(absolute_path(path)).path)

    def confirm_source(self, path: str) -> Record:
        """Say that what a source misses is gone on purpose: `{source}`. Raises NotFound and UsageError."""
        return self._controlled(self._engine.source_control.confirm(absolute_path(path)).path)

    def _controlled(self, path: str) -> Record:
        shown = shown_path(path)
        return {"source": next(source for source in self.sources()["sources"] if source["path"] == shown)}

    def _follow(self) -> None:
        if self._daemon is not None:
            self._daemon.reload()
        else:
            settings = load_settings(self._engine.locations.config_file)
            self._engine.kb.checkup.in_spite_of_full_text(lambda: self._engine.sources.follow(settings))


def refuse_own(path: str, own: frozenset[tuple[int, int]]) -> None:
    """Raise UsageError for a folder in which kbsync keeps its things, by whatever name it is met, and for any below."""
    above = path
    while True:
        try:
            stat = os.stat(above)
        except OSError as error:
            raise UsageError(f"{as_text(path)} cannot be looked at: {error.strerror}.") from error
        if (stat.st_dev, stat.st_ino) in own:
            raise UsageError(f"{as_text(path)} is kbsync's own: its data lies there.", hint="Give a folder of yours.")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def refuse_system(path: str, places: Locations) -> None:
    """Raise UsageError for a folder of the system's, and for one around kbsync's own that holds programs' data."""
    shown = as_text(path)
    is_systems = any(_is_in(path, one) for one in _SYSTEM) and not any(_is_in(path, one) for one in _PEOPLES)
    if path in _ROOTS or is_systems:
        raise UsageError(f"{shown} belongs to the system: nobody wrote it to be found.", hint="Give a folder of yours.")
    home = os.path.realpath(os.path.expanduser("~"))
    config = os.path.realpath(os.path.dirname(places.config_file))
    own = (config, *map(os.path.realpath, (places.data_dir, places.state_dir, places.log_dir)))
    # Such as ~/.config. Of a larger folder kbsync's own is left out.
    is_programs = path.startswith(home + os.sep) and path[len(home) + 1 :].startswith((".", "Library"))
    if path == config or (is_programs and any(_is_in(one, path) for one in own)):
        raise UsageError(f"{shown} holds kbsync's own configuration or data.", hint="Give a folder of yours.")


def refuse_home(path: str) -> None:
    """Raise Unconfirmed for the home folder itself."""
    if path == os.path.realpath(os.path.expanduser("~")):
        raise Unconfirmed(
            f"{as_text(path)} is your whole home folder: everything in it would be read.",
            hint="Say yes to that (`--yes`, over HTTP `confirmed`), or give the folders in it that you mean.",
        )


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
