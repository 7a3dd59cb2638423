"""Which devices have the model, which cannot be used, and whether the model is needed. The batcher's lock guards it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kbsync.clock import Clock
from kbsync.embed.embedder import Device
from kbsync.embed.lifetimes import Idleness
from kbsync.errors import Unready

# resting: loads when it is needed, which takes about 10 seconds; unusable: `error` says why.
ModelState = Literal["ready", "loading", "resting", "unusable"]


class Roster:
    """The devices of one model. `devices` are all there are; `used` those that have it, or had when it went to rest."""

    def __init__(self, clock: Clock, idleness: Idleness) -> None:
        self._clock = clock
        self._idleness = idleness
        self._worked_at = clock.monotonic()
        self._asked_at: float | None = None
        self._out: list[Device] = []
        self.devices: Sequence[Device] = ()
        self.loaded: list[Device] = []
        self.used: list[Device] = []
        self.wanted = False
        self.error: str | None = None

    @property
    def state(self) -> ModelState:
        """Return whether a query is answered at once, and if not, why."""
        if self.loaded:
            return "ready"
        return "unusable" if self.error is not None else "loading" if self.wanted else "resting"

    @property
    def is_waited_for(self) -> bool:
        """Tell whether something is left alone for a while, or for ever."""
        return bool(self._out) or self.error is not None

    def want(self, *, asked: bool) -> None:
        """Note that the model is needed; `asked`: for a person's search."""
        self.wanted = True
        if asked:
            self._asked_at = self._clock.monotonic()

    def rest(self) -> bool:
        """Note that the model is to go, where nothing needed it for long; return whether that is so."""
        now = self._clock.monotonic()
        if not self.loaded or not self._idleness.is_over(now, self._worked_at, self._asked_at):
            return False
        self.wanted = False
        self.loaded.clear()
        return True

    def worked(self, device: Device) -> None:
        """Note that a device loaded the model, or used it; its process may have died over it."""
        self._worked_at = self._clock.monotonic()
        self.note(device)

    def note(self, device: Device) -> None:
        """Note whether a device has the model."""
        if not device.loaded:
            self.loaded = [one for one in self.loaded if one is not device]
        elif self.wanted and device not in self.loaded:
            self.loaded.append(device)
            self.used = [*(one for one in self.used if one is not device), device]

    def back(self, device: Device) -> None:
        """Note that a device can be used: it has the model now."""
        self._out = [one for one in self._out if one is not device]
        self.error = None
        self.worked(device)

    def lose(self, device: Device, why: Unready) -> bool:
        """Note that a device cannot be used; return whether it was the last that could."""
        self._out = [*(one for one in self._out if one is not device), device]
        self.used = [one for one in self.used if one is not device]
        is_last = len(self._out) == len(self.devices)
        if is_last:
            self.error = str(why)
        return is_last
