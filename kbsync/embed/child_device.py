"""Models in child processes, as the daemon uses them: a `Device` and a `Reranker` whose torch is somewhere else.

A process that dies or hangs costs what it worked on; the next question starts another one. A graphics card that failed
is cured by a new process, if by anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import structlog

from kbsync.clock import Clock
from kbsync.embed.attempts import stopping
from kbsync.embed.embedder import Device, DeviceInfo
from kbsync.embed.lifetimes import Deaths, Idleness
from kbsync.embed.model_child import (
    DeviceState,
    Encode,
    Encoded,
    LoadEmbedder,
    LoadReranker,
    Question,
    Score,
    WhichDevices,
)
from kbsync.embed.model_files import ModelFiles
from kbsync.embed.model_process import ChildTerms, ModelProcess, ProcessDied
from kbsync.errors import KbsyncError, RetryLater, Unready
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

# Importing torch and loading a model takes 5 to 15 s, on a busy machine or a slow disk many times that.
_LOAD_S = 600.0
# A batch takes half a second; the first one on a graphics card may have to translate its programs.
_ENCODE_S = 300.0
_ROW_NUMBER_BYTES = 4
# What is assumed of a device before it says it itself.
_BATCH_TOKENS = 2048
# A device that the CPU stands in for is tried again in a new process after so many seconds, the last again and again.
_AGAIN_S = (60.0, 600.0, 3600.0)


def open_child_devices(
    files: ModelFiles, setting: str | Sequence[str], terms: ChildTerms, clock: Clock
) -> list[Device]:
    """Return the devices that a setting means here, for the model in `files`; a child says which there are (4 s).

    Raises RetryLater(MODEL) where no child can say it.
    """
    if setting == "cpu":
        return [ChildDevice(files, "cpu", None, terms, clock)]
    process = ModelProcess(terms)
    try:
        names, notice = process.ask(WhichDevices(setting), _LOAD_S)
    except ProcessDied as error:
        raise RetryLater(Reason.MODEL, f"The process that looks for devices {error}.") from error
    # What is to be said of all of them one says; and the child that has torch already serves the first.
    first = ChildDevice(files, names[0], notice, terms, clock, process)
    return [first, *(ChildDevice(files, name, None, terms, clock) for name in names[1:])]


class ChildDevice:
    """A `Device` whose model is in a child process of its own."""

    def __init__(
        self,
        files: ModelFiles,
        device: str,
        notice: str | None,
        terms: ChildTerms,
        clock: Clock,
        process: ModelProcess | None = None,
    ) -> None:
        self._files = files
        self._device = device
        self._notice = notice
        self._terms = terms
        self._clock = clock
        self._state: DeviceState | None = None
        self._loading_deaths = Deaths()
        self._falls = 0
        self._again_at: float | None = None
        # Guards the two below: `end` comes from any thread.
        self._changing = threading.Lock()
        self._process = process
        self._ended = False
        self._loaded = False

    @property
    def name(self) -> str:
        return self._device if self._state is None else self._state.name

    @property
    def batch_tokens(self) -> int:
        return _BATCH_TOKENS if self._state is None else self._state.batch_tokens

    @property
    def notice(self) -> str | None:
        return self._notice if self._state is None else self._state.notice

    @property
    def info(self) -> DeviceInfo | None:
        return None if self._state is None else self._state.info

    @property
    def loaded(self) -> bool:
        return self._loaded

    def load(self) -> None:
        """Bring the model in. Where the device takes it not at all, or its process died twice over it, the CPU does.

        Raises Unready(MODEL) where that cannot either, RetryLater(MODEL) where the process died or is ended.
        """
        if self._loaded:
            return
        try:
            if self._device != "cpu" and self._loading_deaths.in_a_row > 1:
                self._bring_in("cpu", self._given_up("its process ended twice while it loaded the model"))
            else:
                self._bring_in(self._device, self._notice)
        except Unready as error:
            self.unload()
            if self._device == "cpu":
                raise
            self._bring_in("cpu", self._given_up(error.message.rstrip(".")))
        self._loading_deaths.lived()

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        if self._again_at is not None and self._clock.monotonic() >= self._again_at:
            self.unload()
        self.load()
        room = len(texts) * self._files.dimension * _ROW_NUMBER_BYTES
        try:
            encoded: Encoded = self._ask(Encode(tuple(texts), query), _ENCODE_S, room)
        except ProcessDied as error:
            log.error("model_process_died", device=self.name, count=len(texts), error=str(error))
            raise RetryLater(Reason.CRASHED, f"The process that embedded on {self.name} {error}.") from error
        self._follow(encoded.state)
        return np.frombuffer(encoded.rows, dtype=np.float32).reshape(-1, encoded.columns)

    def unload(self) -> None:
        with self._changing:
            process, self._process = self._process, None
            self._loaded, self._again_at = False, None
        if process is not None:
            process.end()

    def end(self) -> None:
        with self._changing:
            self._ended = True
        self.unload()

    def _bring_in(self, device: str, notice: str | None) -> None:
        try:
            state = self._ask(LoadEmbedder(self._files, device, notice, self._terms.gpu_memory_share), _LOAD_S)
        except ProcessDied as error:
            self._loading_deaths.died()
            log.error("model_process_died", device=device, error=str(error))
            raise RetryLater(
                Reason.MODEL,
                f"The process that embeds on {device} {error} while it loaded the model.",
                hint="It is tried again; close what takes much memory if it happens often.",
            ) from error
        self._loaded = True
        self._follow(state)

    def _follow(self, state: DeviceState) -> None:
        """Note what the device is now; one that the CPU stands in for is tried again later."""
        self._state = state
        if state.name == self._device:
            self._falls, self._again_at = 0, None
        elif self._again_at is None:
            self._again_at = self._clock.monotonic() + _AGAIN_S[min(self._falls, len(_AGAIN_S) - 1)]
            self._falls += 1
            log.error("device_given_up", device=self._device, error=state.notice)

    def _ask(self, question: Question, limit_s: float, rows_bytes: int = 0) -> Any:
        with self._changing:
            if self._ended:
                raise stopping()
            process = self._process = self._process or ModelProcess(self._terms)
        try:
            return process.ask(question, limit_s, rows_bytes)
        except ProcessDied:
            self.unload()
            if self._ended:
                raise stopping() from None
            raise

    def _given_up(self, why: str) -> str:
        return (
            f"The embedding device {self._device} failed ({why}): the CPU embeds in its place, which is slower. "
            "It is tried again now and then, and when kbsync is restarted."
        )


class ChildReranker:
    """A `model.Reranker` whose cross-encoder is in a child process, from the first question until nobody asks any more.

    Nobody waits while it loads: until then it says so. Any thread may ask.
    """

    def __init__(
        self, folder: str, device: str | Sequence[str], terms: ChildTerms, clock: Clock, idleness: Idleness
    ) -> None:
        self._folder = folder
        self._device = device
        self._terms = terms
        self._clock = clock
        self._idleness = idleness
        self._changing = threading.Lock()
        self._process: ModelProcess | None = None
        self._loaded = False
        self._failed: tuple[float, KbsyncError] | None = None
        self._asked_at = clock.monotonic()

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text, 0 to 1, higher is better.

        Raises FailFile(MODEL) or Unready(MODEL) for a model that is no use, RetryLater(MODEL) while it loads or where
        its process died.
        """
        if (missing := self.missing()) is not None:
            raise Unready(Reason.MODEL, missing, hint="Name a folder with a cross-encoder, or take the setting out.")
        with self._changing:
            self._asked_at = self._clock.monotonic()
            if self._failed is not None and self._asked_at < self._failed[0] + _AGAIN_S[0]:
                raise self._failed[1]
            if self._process is None:
                self._process, self._failed = ModelProcess(self._terms), None
                threading.Thread(target=self._load, args=(self._process,), name="reranker-load", daemon=True).start()
            if not self._loaded:
                raise RetryLater(Reason.MODEL, "It is just being loaded, which takes about 10 seconds.")
            process = self._process
        try:
            found: list[float] = process.ask(Score(query, tuple(texts)), _ENCODE_S)
        except ProcessDied as error:
            self.unload()
            raise RetryLater(Reason.MODEL, f"Its process {error}.") from error
        return found

    def missing(self) -> str | None:
        """Say that no model lies in its folder, None where one does. Imports nothing; it may be back any time."""
        if os.path.isfile(os.path.join(self._folder, "config.json")):
            return None
        return f"models.reranker is {self._folder}, and no model lies there."

    def look(self) -> None:
        """Let the model go where nobody asked for long."""
        if self._loaded and self._idleness.is_over(self._clock.monotonic(), self._asked_at, self._asked_at):
            self.unload()

    def unload(self) -> None:
        """End the process, from any thread; the next question starts another one."""
        with self._changing:
            process, self._process, self._loaded = self._process, None, False
        if process is not None:
            process.end()

    def _load(self, process: ModelProcess) -> None:
        try:
            process.ask(LoadReranker(self._folder, self._device), _LOAD_S)
        except (KbsyncError, ProcessDied) as error:
            told = error if isinstance(error, KbsyncError) else RetryLater(Reason.MODEL, f"Its process {error}.")
            with self._changing:
                if self._process is not process:
                    return  # it was ended meanwhile
                self._process, self._failed = None, (self._clock.monotonic(), told)
            process.end()
            log.error("reranker_not_loaded", error=str(told))
            return
        with self._changing:
            self._loaded = self._process is process
