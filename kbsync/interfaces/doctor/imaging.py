"""OpenCV, which reads pictures for the models: two packages write the same folder, and one wants more of the system."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from kbsync.interfaces.doctor.finding import Finding, fine, problem
from kbsync.interfaces.doctor.libraries import installed
from kbsync.interfaces.doctor.subject import Subject
from kbsync.interfaces.doctor.trial import tried

HEADLESS, WINDOWED = "opencv-python-headless", "opencv-python"
# What a display needs; the package without windows needs none of it.
_OF_WINDOWS = re.compile(r"lib(GL|xcb|X11|SM|ICE|Xext|Qt|EGL)")
_LIBRARY = re.compile(r"(lib[^\s:]+\.so[.\d]*)")
# Debian's package of what the package without windows may still want.
_PACKAGES = {"libglib": "libglib2.0-0", "libgthread": "libglib2.0-0", "libgomp": "libgomp1", "libstdc": "libstdc++6"}


@dataclass(frozen=True, slots=True)
class Imported:
    """How the import went. `origin`: the file that is imported; `expected`: the folder where it should lie.

    `version` is what the module says of itself, None where it says nothing or `error` tells why it cannot be imported;
    `headless` and `windowed` are the versions of the two packages, None where one is not installed.
    """

    origin: str | None
    expected: str | None
    version: str | None
    error: str | None
    headless: str | None
    windowed: str | None


def look(subject: Subject) -> list[Finding]:
    """Import it in another process."""
    answer = tried("opencv", subject)
    headless, windowed = installed(HEADLESS), installed(WINDOWED)
    there = next((name for name, version in ((HEADLESS, headless), (WINDOWED, windowed)) if version), None)
    expected = None if there is None else str(importlib.metadata.distribution(there).locate_file("cv2"))
    return judge(
        Imported(answer["origin"], expected, answer.get("version"), answer.get("error"), headless, windowed),
        subject.pip,
    )


def judge(found: Imported, pip: Callable[..., str]) -> list[Finding]:
    """Say what stands in the way of the import."""
    wanted = HEADLESS if found.headless is None else f"{HEADLESS}=={found.headless}"
    again = pip("install", "--force-reinstall", "--no-deps", wanted)
    folder = None if found.origin is None else os.path.dirname(found.origin)
    if folder is not None and found.expected is not None and not _is_within(folder, found.expected):
        place = os.path.dirname(folder) if os.path.basename(folder) == "cv2" else folder
        return [
            problem(
                f"cv2 is imported from {found.origin}, not from OpenCV in {found.expected}.",
                f"Take {place} out of PYTHONPATH, or rename {found.origin}.",
            )
        ]
    if found.error is None and found.version is not None:
        return [fine(f"OpenCV {found.version} can be imported.")]
    if found.error is None:
        return [problem("The folder cv2 is there, and nothing of OpenCV in it.", again)]
    if _OF_WINDOWS.search(found.error):
        both = " Two packages of it are installed, and the one with windows was the last." if found.windowed else ""
        return [problem(f"OpenCV wants libraries of a display ({found.error}).{both}", again)]
    library = _LIBRARY.search(found.error)
    if library is not None:
        package = next((held for name, held in _PACKAGES.items() if library[1].startswith(name)), None)
        remedy = f"sudo apt-get install -y {package}" if package else f"Install the package that holds {library[1]}."
        return [problem(f"OpenCV wants {library[1]}, which is not on this system.", remedy)]
    return [problem(f"OpenCV cannot be imported: {found.error}.", again)]


def _is_within(folder: str, expected: str) -> bool:
    inside, outside = os.path.realpath(folder), os.path.realpath(expected)
    return inside == outside or inside.startswith(outside + os.sep)
