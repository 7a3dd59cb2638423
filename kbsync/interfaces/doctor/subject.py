"""What every examination may ask for: the surroundings, where things lie, the settings, the daemon's answer."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kbsync.clock import Clock
from kbsync.config.locations import Locations
from kbsync.daemon.lock import Owner, named_in, owner_of
from kbsync.errors import ConfigurationError, KbsyncError
from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.doctor.finding import Unclear
from kbsync.interfaces.doctor.patience import within
from kbsync.interfaces.service.service import Service

if TYPE_CHECKING:
    from kbsync.config.settings import Settings

T = TypeVar("T")
Record = dict[str, Any]

# A path of a network's disk that is gone may never answer, and settings resolve paths.
_SETTINGS_S, _DAEMON_S = 5.0, 4.0


@dataclass(frozen=True, slots=True)
class DaemonSeen:
    """The daemon as a command meets it. `owner` holds the lock; `named` is who the lock's file speaks of.

    `status` is its answer, None where it gave none: then `silence` says why. `hangs`: what was asked it never answered.
    """

    owner: Owner | None
    named: Owner | None
    status: Record | None = None
    silence: str = ""
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined. What could not be found out at the beginning raises Unclear where it is asked for."""

    platform: str
    executable: str
    environ: Mapping[str, str]
    clock: Clock
    find_service: Callable[[], Service]
    locations: Locations | None
    nowhere: str
    configured: Settings | ConfigurationError | str
    met: DaemonSeen | str

    @property
    def places(self) -> Locations:
        """Return where kbsync's things lie. Raises Unclear."""
        if self.locations is None:
            raise Unclear(f"Where kbsync keeps its things is not known: {self.nowhere}.")
        return self.locations

    @property
    def settings(self) -> Settings:
        """Return the settings. Raises Unclear."""
        if isinstance(self.configured, (ConfigurationError, str)):
            raise Unclear("It is told when the configuration can be read.")
        return self.configured

    @property
    def daemon(self) -> DaemonSeen:
        """Return the daemon. Raises Unclear."""
        if isinstance(self.met, str):
            raise Unclear(f"Whether a daemon runs could not be found out: {self.met}.")
        return self.met

    @property
    def status(self) -> Record | None:
        """Return what the running daemon says; None where none answers."""
        return None if isinstance(self.met, str) else self.met.status

    def pip(self, *arguments: str) -> str:
        """Return the command by which this environment's packages are installed, for a shell."""
        return shlex.join([self.executable, "-m", "pip", *arguments])


def subject_here(environ: Mapping[str, str], clock: Clock, find_service: Callable[[], Service]) -> Subject:
    """Find out what examinations ask for. Never raises; what hangs is given up after seconds."""
    places, nowhere = _tried(lambda: _located(environ), _DAEMON_S)
    configured: Settings | ConfigurationError | str = nowhere
    met: DaemonSeen | str = nowhere
    if places is not None:
        settings, why = _tried(lambda: _loaded(places.config_file), _SETTINGS_S)
        configured = settings or why
        seen, why = _tried(lambda: _daemon(places), 2 * _DAEMON_S)
        met = seen or why
    return Subject(sys.platform, sys.executable, environ, clock, find_service, places, nowhere, configured, met)


def _tried(work: Callable[[], T], seconds: float) -> tuple[T | None, str]:
    try:
        return within(seconds, work), ""
    except Exception as error:  # noqa: BLE001 (whatever it is: it is told, and the other examinations go on)
        told = error.message if isinstance(error, KbsyncError) else str(error)
        return None, told.rstrip(".") or type(error).__name__


def _located(environ: Mapping[str, str]) -> Locations:
    from kbsync.config.locations import locate

    return locate(environ)


def _loaded(config_file: str) -> Settings | ConfigurationError:
    from kbsync.config.settings import load_settings

    try:
        return load_settings(config_file)
    except ConfigurationError as error:
        return error


def _daemon(places: Locations) -> DaemonSeen:
    owner = owner_of(places.lock_file)
    named = named_in(places.lock_file)
    if owner is None or owner.role != "daemon":
        return DaemonSeen(owner, named)
    address = owner.socket
    if address is None:
        return DaemonSeen(owner, named, None, "it has not opened its socket yet")
    if not os.path.exists(address):
        return DaemonSeen(owner, named, None, f"its socket {address} is gone")
    try:
        status = within(_DAEMON_S, lambda: Client(address).status())
    except TimeoutError:
        return DaemonSeen(
            owner, named, None, f"it hangs, there was no answer within {_DAEMON_S:.0f} seconds", hangs=True
        )
    except Exception as error:  # noqa: BLE001 (as above)
        return DaemonSeen(owner, named, None, str(error).rstrip("."))
    return DaemonSeen(owner, named, status)
