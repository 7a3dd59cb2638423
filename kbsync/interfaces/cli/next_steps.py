"""What `kbsync` alone says: what to do next, in three lines, by the state that it finds. Imports nothing heavy."""

from __future__ import annotations

import os
import tomllib

from kbsync.config.locations import Locations
from kbsync.config.variables import SOURCES_VARIABLE
from kbsync.daemon.lock import owner_of
from kbsync.errors import KbsyncError, ServiceFailed
from kbsync.interfaces.cli.client import Client, starting
from kbsync.interfaces.cli.output import counted

_ALL = "All commands:                     kbsync --help"
_INIT = "Choose folders and begin:         kbsync init"


def next_steps(places: Locations) -> tuple[str, str, str]:
    """Return how things are, what to do, and where there is more."""
    owner = owner_of(places.lock_file)
    if owner is not None and owner.role == "daemon" and owner.socket is not None:
        return _of_running(Client(owner.socket))
    if (begun := starting(places)) is not None:
        doing = f": {begun.doing}" if begun.doing else ""
        return f"kbsync is starting{doing}.", "How far it is:                    kbsync status", _ALL
    folders = _folders(places.config_file)
    if folders is None:
        return f"{places.config_file} cannot be read.", "Find its mistakes:                kbsync config check", _ALL
    if not folders and not _has_configuration(places.config_file):
        return "kbsync is not set up yet.", _INIT, _ALL
    if not folders:
        return "No folder is followed yet.", _INIT, _ALL
    told = f"kbsync does not run; {counted(folders, 'folder is', 'folders are')} configured."
    here = "kbsync run"
    if _has_service(places):
        return (
            told,
            "Run from now on and at login:     kbsync service install",
            f"Run in this terminal:             {here}",
        )
    return told, f"Run in this terminal:             {here}", _ALL


def _of_running(client: Client) -> tuple[str, str, str]:
    try:
        status = client.get("status")
    except KbsyncError as error:
        return f"kbsync runs, but does not answer: {error.message}", "What it says of itself: kbsync service logs", _ALL
    documents = sum(status["database"]["documents_by_type"].values())
    waiting = status["queue"]["queued"] + status["queue"]["processing"]
    folders = len(status["sources"])
    more = f"; {counted(waiting, 'file waits', 'files wait')} to be read" if waiting else ""
    if not folders and not documents:
        return "kbsync runs, but no folder is followed yet.", _INIT, _ALL
    told = f"kbsync runs: {counted(documents, 'document')} from {counted(folders, 'folder')}{more}."
    search = 'Find something:                   kbsync search "words"'
    if status["notices"]:
        return told, search, f"{counted(len(status['notices']), 'notice')} for you:                 kbsync status"
    return told, search, "How it is doing:                  kbsync status (all commands: kbsync --help)"


def _folders(config_file: str) -> int | None:
    """Return how many folders are configured; None where the file cannot be read. Nothing else of it is checked."""
    if any(name.upper().split("__")[0] == SOURCES_VARIABLE for name in os.environ):
        return 1
    try:
        with open(config_file, "rb") as file:
            sources = tomllib.load(file).get("sources", [])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return None
    return len(sources) if isinstance(sources, list) else None


def _has_configuration(config_file: str) -> bool:
    return os.path.exists(config_file) and os.path.getsize(config_file) > 0


def _has_service(places: Locations) -> bool:
    from kbsync.interfaces.service.here import service_here

    try:
        service_here(places, os.environ)
    except ServiceFailed:
        return False
    return True
