"""What `kbsync service` asks of a system that runs services, whichever it is; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

# What to do where no service can be had.
WITHOUT_A_SERVICE = (
    "Without a service `nohup kbsync run &` runs kbsync until the machine is switched off, and the line "
    "`@reboot kbsync run` of `crontab -e`, with the whole path of kbsync, from each start of the machine on."
)

# `failed`: it ended with an error and is not started again by itself.
Running = Literal["running", "starting", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Program:
    """What a service runs: an absolute command line, the variables that it needs, and where its log lies."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    log_file: str


@dataclass(frozen=True, slots=True)
class State:
    """What the system says of the service. `is_current`: the file in place is the one that would be rendered now.

    `notices`: what a person should know, a sentence each (stops at logout, ...). `is_answered`: what runs the user's
    services answers; where not, none can be installed or started.
    """

    installed: bool
    is_current: bool
    running: Running
    pid: int | None
    file: str
    notices: tuple[str, ...] = ()
    is_answered: bool = True


class Service(Protocol):
    """The service of this user. Every method may be called in any state, and twice; all raise ServiceFailed.

    What they return is what they did and what a person should know, a sentence each.
    """

    def install(self, *, start: bool) -> list[str]:
        """Put the unit in place, or the new one in place of an older, and have it start at login; `start`: now too."""
        ...

    def uninstall(self) -> list[str]:
        """Stop it and take the unit away. Nothing else goes: neither the index nor the configuration."""
        ...

    def start(self) -> list[str]: ...

    def stop(self) -> list[str]: ...

    def restart(self) -> list[str]: ...

    def state(self) -> State: ...

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str]:
        """Return the command that shows the last lines of what the service said."""
        ...
