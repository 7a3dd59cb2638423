"""Asking what may never answer: a call in a thread of its own, a program with a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_NAME = "kbsync-doctor"

# Where programs of the system lie, for a service that was started without a PATH.
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. `code` is None where it did not end in time, or could not be started."""

    code: int | None
    output: str
    errors: str


class Ask(Generic[T]):
    """Work that has begun in a thread of its own. One that never ends keeps no process from ending."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,), name=_NAME, daemon=True)
        self._thread.start()

    def answer(self, seconds: float) -> T:
        """Return what the work returned. Raises what it raised, and TimeoutError where it takes longer from now."""
        self._thread.join(max(0.0, seconds))
        if self._errors:
            raise self._errors[0]
        if not self._answers:
            raise TimeoutError(f"no answer within {seconds:.0f} s")
        return self._answers[0]

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._answers.append(work())
        except BaseException as error:  # noqa: BLE001 (raised by whoever waits)
            self._errors.append(error)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises what it raises, and TimeoutError where it takes longer.

    Then its thread goes on waiting, such as for a disk of the network that is gone, until the process ends.
    """
    return Ask(work).answer(seconds)


def is_left_waiting() -> bool:
    """Return whether work goes on that nobody waits for any more.

    An interpreter that ends in order would then be aborted by some libraries, in whose code the work is.
    """
    return any(thread.name == _NAME for thread in threading.enumerate())


def ran(command: Sequence[str], seconds: float, environ: Mapping[str, str]) -> Ran:
    """Run a program with nothing to read, away from any folder of the user's. Never raises."""
    path = environ.get("PATH") or _USUAL_PATH
    program = shutil.which(command[0], path=path)
    if program is None:
        return Ran(None, "", f"there is no program {command[0]}")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=seconds,
            env={**environ, "PATH": path},
            cwd=os.sep,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, "", f"it did not end within {seconds:.0f} s")
    except OSError as error:
        return Ran(None, "", error.strerror or str(error))
    return Ran(done.returncode, done.stdout, done.stderr)


def is_there(program: str, environ: Mapping[str, str]) -> bool:
    """Return whether a program can be started by its name."""
    return shutil.which(program, path=environ.get("PATH") or _USUAL_PATH) is not None
