"""Which service manager this machine has, and what a service of this kbsync runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from kbsync.config.locations import Locations
from kbsync.errors import ServiceFailed
from kbsync.interfaces.service.service import WITHOUT_A_SERVICE, Program, Service

# Where everything lies and how it is computed, as in the shell that installs it; a service manager hands on neither.
# A folder that is relative means another one there.
_FOLDERS = ("KBSYNC_HOME", "TMPDIR", "HF_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
_OTHERS = ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_SETTINGS = "KBSYNC_"
# The scripts' own and the tests'.
_NOT_OURS = ("KBSYNC_VENV", "KBSYNC_TEST_CORPUS")


def service_here(places: Locations, environ: Mapping[str, str]) -> Service:
    """Return the service of this user, whether installed or not. Raises ServiceFailed where nothing runs services."""
    program = program_here(places, environ)
    if sys.platform == "darwin":
        from kbsync.interfaces.service.launchd import Launchd

        return Launchd(program)
    if shutil.which("systemctl", path=environ.get("PATH")) is None:
        raise ServiceFailed(
            "There is neither systemd nor launchd on this machine.",
            hint=WITHOUT_A_SERVICE,
        )
    from kbsync.interfaces.service.systemd import Systemd

    return Systemd(program, environ)


def program_here(places: Locations, environ: Mapping[str, str]) -> Program:
    """Return the daemon as this very interpreter runs it. Raises ServiceFailed where that is not known."""
    if not os.path.isabs(sys.executable or ""):
        raise ServiceFailed("Where this Python lies is not known.", hint="Start kbsync by its whole path.")
    # -P: nothing is imported from the folder that it is started in.
    command = (sys.executable, "-P", "-m", "kbsync", "run", "--service")
    return Program(command, needed(environ), places.log_file)


def needed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a service must be given to find and do the same as a command of this shell."""
    found = {name: value for name in _OTHERS if (value := environ.get(name))}
    for name, value in environ.items():
        if name.startswith(_SETTINGS) and name not in _NOT_OURS:
            found[name] = value
    for name in _FOLDERS:
        folder = environ.get(name)
        if folder and name.startswith("XDG_") and not os.path.isabs(folder):
            continue  # means nothing, by its own rules
        if folder:
            found[name] = os.path.abspath(os.path.expanduser(folder))
    return found
