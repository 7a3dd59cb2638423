"""What `launchctl print` says of an agent, in the words of several versions of macOS."""

from __future__ import annotations

import pytest

from kbsync.interfaces.service.launchd import Loaded, parsed


@pytest.mark.parametrize(
    ("lines", "running", "code"),
    [
        ("\tstate = running\n\tpid = 7\n\tlast exit code = (never exited)\n", "running", None),
        ("\tstate = running\n\tpid = 7\n\tlast exit code = 1\n", "running", 1),
        ("\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG\n", "starting", 78),
        ("\tstate = not running\n\tlast terminating signal = Killed: 9\n", "starting", None),
        ("\tstate = not running\n\tlast exit code = 0\n", "failed", 0),
        ("\tstate = not running\n\tlast exit code = (never exited)\n", "stopped", None),
        ("\tstate = xpcproxy\n\tlast exit code = (never exited)\n", "starting", None),
        ("\tevents = {\n\t\tpid = 9\n\t}\n\tstate = waiting\n", "stopped", None),
    ],
)
def test_what_launchd_prints_is_understood(lines: str, running: str, code: int | None) -> None:
    found: Loaded = parsed("gui/501/local.kbsync = {\n" + lines + "}\n")
    assert (found.running, found.exit_code) == (running, code)
