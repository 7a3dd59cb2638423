"""Tools of the system that a test needs: where one is missing that says so, and in CI it is a failure."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(*tools: str) -> None:
    """Leave the test out where one of the tools is missing; fail it in CI, whose script brings them."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{', '.join(missing)}: not on this machine, and .ci/run brings it")
    if missing:
        pytest.skip(f"{', '.join(missing)}: not on this machine (Debian's package systemd)")
