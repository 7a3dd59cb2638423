"""The engine step by step: its fixtures, and those of backups of one over the real disk."""

from tests.fakes.backed_up import backup, disk, folder
from tests.fakes.lives import engine, started, world

__all__ = ["backup", "disk", "engine", "folder", "started", "world"]
