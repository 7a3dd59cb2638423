"""The engine step by step: its fixtures."""

from tests.fakes.lives import engine, started, world

__all__ = ["engine", "started", "world"]
