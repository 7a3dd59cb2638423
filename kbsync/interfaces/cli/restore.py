"""`kbsync restore`: what a backup holds in the place of what is there, which is set aside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.config.locations import Locations
from kbsync.daemon.lock import DataLock, owner_of
from kbsync.errors import EngineBusy
from kbsync.interfaces.cli.backup import contents, named_folder
from kbsync.interfaces.cli.exits import UNANSWERED, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, print_json
from kbsync.interfaces.cli.session import locations

if TYPE_CHECKING:
    from kbsync.knowledge_base.restore import Backup

# A command that has the data folder is waited for this long.
_LOCK_WAIT_S = 60.0


def restore(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder that `kbsync backup` wrote.")],
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OLD=NEW", help="A folder lies elsewhere now, with all in it; repeat for more."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put a backup in the place of the data that are here; these are set aside, nothing is deleted.

    Stop the daemon first. On another machine, or where folders have moved, --map says where they lie now: files are
    compared, and nothing is converted or embedded anew. --map DIR=DIR says that a folder is the right one although its
    disk is another. A config.toml that is here stays as it is, unless it says what the backup's says: then it names the
    folders where they lie now.
    """
    with errors_told():
        answer = _restored(locations(), folder, maps or [], yes=yes)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _restored(places: Locations, folder: str, maps: list[str], *, yes: bool) -> Record:
    from kbsync import log
    from kbsync.clock import SystemClock
    from kbsync.filesystem import RealFileSystem
    from kbsync.interfaces.backups import restored_record
    from kbsync.knowledge_base import restore as restoring

    owner = owner_of(places.lock_file)
    if owner is not None and owner.role == "daemon":
        raise EngineBusy(f"The daemon (process {owner.pid}) is running.", hint="Stop it; a restore replaces its data.")
    backup = restoring.look(places, named_folder(folder), maps, RealFileSystem())
    _tell_roots(backup, restoring.hint_to_map(backup))
    if backup.replaces and not yes and not _confirmed(places):
        raise typer.Exit(UNANSWERED)
    places.make_folders()
    lock = DataLock(places.lock_file)
    lock.acquire("command", _LOCK_WAIT_S)
    try:
        log.configure(places.log_file, "info", terminal=False)
        if (said := restoring.carry_through(places)) is not None:
            complain(said)
        return restored_record(restoring.restore(places, backup, SystemClock()))
    finally:
        lock.release()


def _confirmed(places: Locations) -> bool:
    question = f"The data in {places.data_dir} will be set aside and replaced by the backup"
    if not sys.stdin.isatty():
        complain(f"{question}. Say --yes to do it.")
        return False
    return typer.confirm(f"{question}. Go on?")


def _tell_roots(backup: Backup, hint: str) -> None:
    """Say which sources are not where they are looked for: what was in them stays searchable all the same."""
    for root in backup.roots:
        if root.there == "absent":
            complain(f"There is no folder {root.path} here; what was in it stays searchable until it is.")
        elif root.there == "other":
            complain(
                f"{root.path} does not look like the folder of the backup, and would be paused; "
                f"if it is the right one, say --map {root.path}={root.path}"
            )
    if hint:
        complain(f"Where folders lie elsewhere now, say so: {hint}")


def _print(answer: Record) -> None:
    line(f"Restored {answer['path']}: {contents(answer)}, {answer['seconds']:.1f} s.")
    if answer["moved"]:
        line(
            f"{counted(answer['moved'], 'file')} of sources lie elsewhere now; the first look compares what they hold."
        )
    if answer["set_aside"]:
        line(f"What was here before lies in {answer['set_aside']}; delete it when you need it no more.")
    if answer["left_behind"]:
        complain(
            f"{counted(answer['left_behind'], 'stored file')} of before are not in the backup; "
            f"`kbsync add {answer['set_aside']}/documents` takes in what lies there."
        )
    if answer["config"] == "placed":
        line("config.toml comes from the backup.")
    elif answer["config"] == "mapped":
        line("config.toml, which said what the backup's says, names the folders now where they lie.")
    elif answer["config_error"]:
        complain(f"The backup's config.toml was not taken over: {answer['config_error']}")
    elif answer["config_differs"]:
        complain(
            f"The config.toml here was left as it is; the backup's differs in {', '.join(answer['config_differs'])}. "
            "A source that it does not name is followed no more from the next start on: "
            f"compare it with {answer['path']}/config.toml first."
        )
        if answer["config_lacks"]:
            complain("It does not name these; write them into it to have them followed:")
            for written in answer["config_lacks"].splitlines():
                line(written)
    for problem in answer["problems"]:
        complain(f"When the backup was made: {problem}")
