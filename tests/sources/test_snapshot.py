"""Failures to read become decisions about the file, or about what this process has too little of."""

from __future__ import annotations

import errno
import os

import pytest

from kbsync.errors import Unready
from kbsync.sources.snapshot import reading_failed


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_the_process_is_short_of_is_no_fault_of_the_file(number: int) -> None:
    """P17: its attempt does not count."""
    assert isinstance(reading_failed("/a.md", OSError(number, os.strerror(number))), Unready)
