"""`kbsync init`: the first run. Which folders, the configuration with everything explained, the service."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import ServiceFailed, Unconfirmed, UsageError
from kbsync.filesystem import as_text
from kbsync.interfaces.cli.estimate import estimate_line, rough_seconds
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told, one_line
from kbsync.interfaces.cli.output import Record, counted, line, print_json
from kbsync.interfaces.cli.session import locations, session
from kbsync.interfaces.cli.sources import is_asked

if TYPE_CHECKING:
    from kbsync.config.locations import Locations
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations

# Where people keep what they write; offered where they are there.
_OFFERED = ("~/Documents", "~/notes")


def init(
    folders: Annotated[
        list[str] | None, typer.Argument(metavar="[FOLDER]...", help="The folders to follow; without any it asks.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask: install and start the background service too.")
    ] = False,
    no_service: Annotated[bool, typer.Option("--no-service", help="Leave the background service alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Begin: choose folders, write the configuration, have kbsync run in the background.

    A configuration that is there is kept; the folders are added to it. Nothing is written before all is answered.
    Exit code 1 where the service was wanted and could not be installed.
    """
    with errors_told():
        from kbsync.config.file import add_sources, listed
        from kbsync.config.settings import is_written
        from kbsync.config.written import template

        places = locations()
        named = [os.path.abspath(os.path.expanduser(folder)) for folder in folders or ()]
        if not named and (yes or not is_asked()):
            raise Unconfirmed("Which folders?", hint="Name them: `kbsync init FOLDER...`.")
        there = listed(places.config_file)
        already = list(dict.fromkeys(path for path in map(os.path.realpath, named) if path in there))
        fresh = [folder for folder in named if os.path.realpath(folder) not in there]
        for path in already:
            complain(f"{as_text(path)} is a source already.")
        _refuse_together(fresh, places)
        if not yes:
            for folder in fresh:
                _confirm_home(folder)
        with session() as operations:
            surveys = {folder: _surveyed(operations, folder) for folder in fresh}
            if not named:
                surveys = _asked_for(operations, places)
        if not surveys and not there:
            raise Unconfirmed("No folder was chosen; nothing was written.", hint="`kbsync init` asks again.")
        if not surveys and not named:
            complain("Followed already:")
            for path in there:
                complain(f"  {as_text(path)}")
        wants_service = not no_service and (yes or (is_asked() and _is_wanted(places)))
        is_new = not is_written(places.config_file)
        added = add_sources(places.config_file, list(surveys), template()) if surveys else []
        said, service = _installed(places) if wants_service else ([], None)
    if as_json:
        print_json(
            {
                "config": places.config_file,
                "created": is_new and bool(added),
                "added": [as_text(path) for path in added],
                "already": [as_text(path) for path in already],
                "estimates": [{"path": as_text(path), **survey} for path, survey in surveys.items()],
                "service": service,
            }
        )
    else:
        if added:
            line(f"{'Wrote' if is_new else 'Added to'} {places.config_file}: {counted(len(added), 'folder')}.")
        else:
            line(f"{places.config_file} stays as it is: no folder is new.")
        for sentence in said or _how_to_run(places):
            line(sentence)
    if service == "failed":
        raise typer.Exit(FAILED)


def _refuse_together(folders: list[str], places: Locations) -> None:
    """Raise UsageError for a folder that cannot be followed, by itself or beside the others."""
    from kbsync.config.file import followable
    from kbsync.interfaces.folders import refuse_own, refuse_system

    own = frozenset(
        (stat.st_dev, stat.st_ino)
        for folder in (places.data_dir, places.state_dir, places.log_dir)
        if os.path.isdir(folder)
        for stat in [os.stat(folder)]
    )
    resolved = [followable(places.config_file, folder) for folder in folders]
    for index, path in enumerate(resolved):
        refuse_own(path, own)
        refuse_system(path, places)
        for other in resolved[:index]:
            outer, inner = sorted((path, other), key=len)
            if inner == outer:
                raise UsageError(f"{as_text(path)} is named twice.")
            if inner.startswith(outer.rstrip(os.sep) + os.sep):
                raise UsageError(f"{as_text(inner)} lies inside {as_text(outer)}, which covers it.", hint="Name one.")


def _confirm_home(folder: str) -> None:
    """Ask before the whole home folder is followed. Raises Unconfirmed where nobody can be asked or says yes."""
    from kbsync.interfaces.folders import refuse_home

    try:
        refuse_home(os.path.realpath(folder))
    except Unconfirmed as error:
        if not is_asked() or not typer.confirm(f"{one_line(error.message)} Go on?", default=False, err=True):
            raise


def _surveyed(operations: Remote | Operations, folder: str) -> Record:
    """Count what a folder holds, and tell it."""
    found = operations.survey(folder)
    seconds = rough_seconds(found["by_type"])
    complain(f"{folder}: {estimate_line(found, seconds)}")
    return {**found, "seconds": round(seconds)}


def _asked_for(operations: Remote | Operations, places: Locations) -> dict[str, Record]:
    """Ask which folders: first those that most people have, then any others."""
    chosen: dict[str, Record] = {}
    for offered in _OFFERED:
        folder = os.path.realpath(os.path.expanduser(offered))
        if folder not in chosen and _refusal(folder, chosen, places) is None:
            survey = _surveyed(operations, folder)
            if typer.confirm(f"Follow {one_line(folder)}?", default=False, err=True):
                chosen[folder] = survey
    while True:
        answer = typer.prompt("Another folder (Enter: no more)", default="", show_default=False, err=True).strip()
        if not answer:
            return chosen
        folder = os.path.abspath(os.path.expanduser(_unquoted(answer)))
        if (refusal := _refusal(folder, chosen, places)) is not None:
            complain(refusal)
            continue
        try:
            _confirm_home(folder)
        except Unconfirmed:
            continue  # they know what they answered
        chosen[folder] = _surveyed(operations, folder)


def _refusal(folder: str, chosen: dict[str, Record], places: Locations) -> str | None:
    try:
        _refuse_together([*chosen, folder], places)
        return None
    except UsageError as error:
        return str(error)


def _unquoted(answer: str) -> str:
    """Return a path without the quotes that a shell, or a file manager from which it was dragged, puts around it."""
    is_quoted = len(answer) > 1 and answer[0] == answer[-1] and answer[0] in "\"'"
    return answer[1:-1] if is_quoted else answer


def _is_wanted(places: Locations) -> bool:
    """Ask whether kbsync is to run in the background, where something can run it and it does not run already."""
    from kbsync.daemon.lock import owner_of

    owner = owner_of(places.lock_file)
    if owner is not None and owner.role == "daemon":
        return False
    return _can_be_had(places) and typer.confirm(
        "Have kbsync run in the background, now and from every login on?", default=True, err=True
    )


def _can_be_had(places: Locations) -> bool:
    from kbsync.interfaces.service.here import service_here

    try:
        return service_here(places, os.environ).state().is_answered
    except ServiceFailed:
        return False


def _installed(places: Locations) -> tuple[list[str], str]:
    """Install the service; where that cannot be, say so, and how it runs without: the folders are configured anyway."""
    from kbsync.interfaces.service.here import service_here

    try:
        said = service_here(places, os.environ).install(start=True)
    except ServiceFailed as error:
        complain(str(error))
        told = ["kbsync run      starts it in this terminal."]
        return told, "failed" if _can_be_had(places) else "unavailable"
    return [*said, "kbsync status   says how far it is; kbsync search WORDS finds something."], "installed"


def _how_to_run(places: Locations) -> list[str]:
    from kbsync.daemon.lock import owner_of

    owner = owner_of(places.lock_file)
    if owner is not None and owner.role == "daemon":
        return ["kbsync runs already and follows what is new within seconds: kbsync status."]
    if not _can_be_had(places):
        return ["kbsync run      starts it in this terminal."]
    return [
        "kbsync run              starts it in this terminal.",
        "kbsync service install  has it run in the background, now and from every login on.",
    ]
