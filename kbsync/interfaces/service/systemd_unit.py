"""The unit file of systemd's user manager: pure text, the same for systemd 252 to 257.

Nothing in it asks for a namespace: a user manager refuses some of those settings (218/CAPABILITIES), passes others over
without a word, and those that it keeps would hide folders and disks that are to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.errors import ServiceFailed
from kbsync.interfaces.service.service import Program

NAME = "kbsync.service"
# The first line of every unit that `kbsync service install` may replace or remove.
MARK = "# Written by `kbsync service install`; `systemctl --user edit kbsync` keeps your own changes apart from it."
_PACKAGED = "# For packagers: kbsync at /usr/bin/kbsync, with everything else at its defaults."
# In the name of a program, systemd refuses these.
_UNSAFE = "\"'\\"

_TEMPLATE = """\
{mark}

[Unit]
Description=kbsync keeps a searchable knowledge base in step with your folders
# kbsync itself waits longer and longer between starts that soon end, up to 10 minutes. What ends before it can do so,
# such as a Python that is gone, is given up after so many.
StartLimitIntervalSec=30min
StartLimitBurst=30

[Service]
Type=notify
NotifyAccess=main
{environment}ExecStart={command}
# A shell: its own `kill` is there where no other is.
ExecReload=/bin/sh -c "kill -HUP $MAINPID"
Restart=on-failure
RestartSec=5s
# Wrong usage and a bad configuration: another start would end in the same way.
RestartPreventExitStatus=2 78
# Migrations of the database and full-text indexes that are made anew ask for more as long as they go on.
TimeoutStartSec=3min
# kbsync ends by itself within 9.5 seconds.
TimeoutStopSec=20s
KillMode=mixed
# The main loop may have to wait while a large database is written anew.
WatchdogSec=10min

# After the user's own programs; IOWeight where the machine gives users that controller. Nice and the I/O class are set
# by [resources] of config.toml.
CPUWeight=20
IOWeight=20
# kbsync plans with half of the memory; above this share its pages are taken back before others'. Nothing is killed.
MemoryHigh=75%
TasksMax=4096
# A process that reads a document may take too much: its end is one document's, not the daemon's.
OOMPolicy=continue
OOMScoreAdjust=300

UMask=0077
LimitCORE=0
# No setuid program is started either: a machine with NVIDIA cards must make /dev/nvidia-uvm by itself.
NoNewPrivileges=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
# Loopback, and netlink to list the interfaces. IPAddressDeny takes rights that a user manager has not.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# No MemoryDenyWriteExecute: torch compiles its kernels into memory. No ProtectHome, ProtectSystem, PrivateTmp or
# PrivateDevices: folders anywhere are read, graphics cards compute.

[Install]
WantedBy=default.target
"""


def render(program: Program) -> str:
    """Return the unit that runs a program. Raises ServiceFailed where its paths cannot stand in a unit file."""
    return _rendered(program, MARK)


def for_packagers() -> str:
    """Return the unit that `systemd/kbsync.service` holds."""
    return _rendered(Program(("/usr/bin/kbsync", "run", "--service"), {}, ""), _PACKAGED)


def _rendered(program: Program, mark: str) -> str:
    environment = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in _sorted(program))
    return _TEMPLATE.format(mark=mark, environment=environment, command=_command(program.command))


def _command(words: Sequence[str]) -> str:
    """Return a command as ExecStart takes it."""
    program, *_arguments = words
    if any(character in _UNSAFE or ord(character) < 0x20 for character in program):
        # systemd starts no program of such a name; a shell puts it in its own place.
        words = ("/bin/sh", "-c", 'exec "$0" "$@"', *words)
    # The colon: no `$` in it stands for a variable of systemd's.
    colon = ":" if any("$" in word for word in words) else ""
    return colon + " ".join(_quoted(word) for word in words)


def _sorted(program: Program) -> list[tuple[str, str]]:
    return sorted(program.environment.items())


def _quoted(word: str) -> str:
    """Return a word as systemd reads it: quoted where it must be, `%` and `\\` doubled, control characters escaped."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise ServiceFailed(
            f"A unit of systemd holds UTF-8 only, and {word!r} is none.", hint="Rename that folder first."
        ) from error
    escaped = word.replace("\\", "\\\\").replace("%", "%%")
    plain = "".join(_character(character) for character in escaped)
    # An empty word, spaces, quotes; and a lone `;` would end the command.
    needs_quotes = not word or any(character in " '\";" for character in word)
    return '"' + plain.replace('"', '\\"') + '"' if needs_quotes else plain


def _character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else character
