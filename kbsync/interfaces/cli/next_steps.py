"""What `kbsync` alone says: what to do next, in three lines, by the state that it finds.

Imports nothing heavy, but for the settings where a configuration is to be used and no daemon has read it.
"""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING

from kbsync.config.locations import Locations
from kbsync.config.variables import SOURCES_VARIABLE
from kbsync.daemon.lock import owner_of
from kbsync.errors import ConfigurationError, KbsyncError, ServiceFailed
from kbsync.interfaces.cli.client import Client, starting
from kbsync.interfaces.cli.output import counted

if TYPE_CHECKING:
    from kbsync.interfaces.service.service import State

_ALL = "All commands:                     kbsync --help"
_INIT = "Choose folders and begin:         kbsync init"
_CHECK = "Find its mistakes:                kbsync config check"
_RUN = "Run in this terminal:             kbsync run"
_START = "Start it:                         kbsync service start"
_DOCTOR = "What is wrong, and what helps:    kbsync doctor"
# Nobody waits long to be told what to do next.
_STATUS_S = _SERVICE_S = _SETTINGS_S = 3.0


def next_steps(places: Locations) -> tuple[str, str, str]:
    """Return how things are, what to do, and where there is more."""
    owner = owner_of(places.lock_file)
    if owner is not None and owner.role == "daemon" and owner.socket is not None:
        return _of_running(Client(owner.socket), places)
    if (begun := starting(places)) is not None:
        doing = f": {begun.doing}" if begun.doing else ""
        return f"kbsync is starting{doing}.", "How far it is:                    kbsync status", _ALL
    folders = _folders(places.config_file)
    if folders is None:
        return f"{places.config_file} cannot be read.", _CHECK, _ALL
    if folders or _has_configuration(places.config_file):
        refused = _refused(places.config_file)
        if refused is not None:
            return refused, _CHECK, _ALL
    if not folders and not _has_configuration(places.config_file):
        return "kbsync is not set up yet.", _INIT, _ALL
    if not folders:
        return "No folder is followed yet.", _INIT, _ALL
    told = f"kbsync does not run; {counted(folders, 'folder is', 'folders are')} configured."
    state = _service(places)
    if state is None:
        return told, _RUN, _ALL
    if not state.installed:
        return told, "Run from now on and at login:     kbsync service install", _RUN
    if state.running == "failed":
        return f"{told} The service has failed.", _START, "Why it failed:                    kbsync service logs"
    return told, _START, "How the service is doing:         kbsync service status"


def _of_running(client: Client, places: Locations) -> tuple[str, str, str]:
    try:
        status = client.status(_STATUS_S)
    except KbsyncError as error:
        told = f"kbsync runs, but does not answer: {error.message}"
        state = _service(places)
        if state is not None and state.installed:
            return told, "End it and start it anew:         kbsync service restart", _DOCTOR
        return told, _DOCTOR, _ALL
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
    if os.path.exists(config_file) and not os.path.isfile(config_file):
        return None  # such as a named pipe, into which nobody may ever write
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


def _refused(config_file: str) -> str | None:
    """Say that the configuration cannot be used; None where it can, or where that cannot be told soon."""
    from kbsync.config.settings import load_settings
    from kbsync.interfaces.doctor.patience import within

    try:
        within(_SETTINGS_S, lambda: load_settings(config_file))
    except ConfigurationError:
        return f"kbsync cannot run: {config_file}, or a KBSYNC_ variable, has a mistake."
    except TimeoutError:
        return None  # a folder that it names lies on a disk that is gone
    return None


def _service(places: Locations) -> State | None:
    """Return how the service is doing; None where none can be had, or where that cannot be told soon."""
    from kbsync.interfaces.doctor.patience import within
    from kbsync.interfaces.service.here import service_here

    try:
        state = within(_SERVICE_S, lambda: service_here(places, os.environ).state())
    except (ServiceFailed, TimeoutError):
        return None
    return state if state.is_answered else None
