"""The age of real files. Nobody can set a ctime, so a test that wants files which are not fresh has to wait."""

from __future__ import annotations

import time
from pathlib import Path

from kbsync.sources.reconcile import SETTLE_S
from tests.fakes.eventually import eventually


def wait_until_old(folder: Path) -> None:
    """Return when a scan takes every file in a folder at its first look."""
    youngest = max(path.stat().st_ctime for path in folder.iterdir())
    eventually(lambda: time.time() - youngest > SETTLE_S + 0.1)
