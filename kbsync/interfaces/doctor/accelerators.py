"""The graphics card: whether there is one, and whether torch was made for it. Imports no torch."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kbsync.interfaces.doctor.finding import Finding, fine, unknown, warning
from kbsync.interfaces.doctor.patience import Ran, is_there, ran
from kbsync.interfaces.doctor.subject import Subject

_DRIVER = "/proc/driver/nvidia/version"
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
_QUERY_S = 5.0
# Less free memory than this on a card is used up by the model and one batch (bytes).
_LEAST_FREE = 1 << 30
_AUTO = 'Set device = "auto" under [models] in config.toml.'


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card; `total` and `free` memory in bytes."""

    name: str
    total: int
    free: int
    driver: str


@dataclass(frozen=True, slots=True)
class Torch:
    """An installed torch: its version, and for which CUDA or ROCm it was made; None for none."""

    version: str
    cuda: str | None
    hip: str | None


@dataclass(frozen=True, slots=True)
class Accelerators:
    """`has_driver`: NVIDIA's driver is loaded. `silence`: why its tool names no card. `hidden`: by a variable."""

    has_driver: bool
    cards: tuple[Card, ...]
    silence: str
    torch: Torch | None
    device: str | tuple[str, ...]
    hidden: str | None
    is_apple: bool


def look(subject: Subject) -> list[Finding]:
    """Examine the accelerators."""
    cards: tuple[Card, ...] = ()
    silence = ""
    has_driver = os.path.exists(_DRIVER)
    if is_there(_QUERY[0], subject.environ):
        cards, silence = cards_in(ran(_QUERY, _QUERY_S, subject.environ))
    return judge(
        Accelerators(
            has_driver or bool(cards),
            cards,
            silence,
            installed_torch(),
            subject.settings.models.device,
            hidden_by(subject.environ),
            subject.platform == "darwin" and platform.machine() == "arm64",
        ),
        subject.pip,
    )


def judge(found: Accelerators, pip: Callable[..., str]) -> list[Finding]:
    """Say whether the model can run where it is meant to."""
    torch = found.torch
    if torch is None:
        return [unknown("torch is not installed.", pip("install", "torch", "torchvision"))]
    wanted = [found.device] if isinstance(found.device, str) else list(found.device)
    wants_cuda = any(name.startswith("cuda") for name in wanted)
    names = ", ".join(dict.fromkeys(card.name for card in found.cards)) or "A card of NVIDIA's"
    is_visible = found.has_driver and found.hidden is None
    if is_visible and torch.cuda is None and torch.hip is None and "cpu" not in wanted:
        again = pip("install", "--force-reinstall", "torch", "torchvision")
        return [warning(f"{names} is here, but torch {torch.version} was made for the CPU alone.", again)]
    if is_visible and not found.cards and found.silence:
        remedy = "Restart the machine, or install NVIDIA's driver again."
        return [warning(f"NVIDIA's driver is loaded, but names no card: {found.silence}.", remedy)]
    if wants_cuda and not found.has_driver and torch.hip is None:
        return [warning(f"The setting models.device is {', '.join(wanted)}, but no card of NVIDIA's is here.", _AUTO)]
    if wants_cuda and found.hidden is not None:
        return [
            warning(
                f"The setting models.device is {', '.join(wanted)}, but {found.hidden} hides every card.",
                f"Unset {found.hidden.partition('=')[0]} where kbsync is started.",
            )
        ]
    if "mps" in wanted and not found.is_apple:
        return [warning("The setting models.device is mps, which only Apple's processors have.", _AUTO)]
    numbers = [int(name[5:]) for name in wanted if name.startswith("cuda:") and name[5:].isdigit()]
    if found.cards and any(number >= len(found.cards) for number in numbers):
        has = f"{len(found.cards)} card{'s' if len(found.cards) > 1 else ''}"
        return [warning(f"The setting models.device is {', '.join(wanted)}, but there is only {has}.", _AUTO)]
    full = [card for card in found.cards if card.free < _LEAST_FREE]
    if full and is_visible and wanted != ["cpu"] and len(full) == len(found.cards):
        free = f"{full[0].free / 1e9:.1f} GB"
        return [warning(f"{full[0].name} has only {free} of memory free.", "Close other programs that use it.")]
    return [fine(_told(found, torch))]


def _told(found: Accelerators, torch: Torch) -> str:
    if found.cards and found.hidden is None:
        cards = ", ".join(f"{card.name} ({card.total / 1e9:.0f} GB)" for card in found.cards)
        made = f"CUDA {torch.cuda}" if torch.cuda else "the CPU"
        return f"{cards}, driver {found.cards[0].driver}; torch {torch.version} for {made}."
    if found.is_apple:
        return f"Apple's graphics (mps); torch {torch.version}."
    return f"No graphics card is used: the CPU embeds (torch {torch.version})."


def cards_in(answer: Ran) -> tuple[tuple[Card, ...], str]:
    """Return the cards that nvidia-smi names; without any why."""
    found = []
    for line in answer.output.splitlines() if answer.code == 0 else ():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 4 and fields[1].isdigit() and fields[2].isdigit():
            found.append(Card(fields[0], int(fields[1]) << 20, int(fields[2]) << 20, fields[3]))
    if found:
        return tuple(found), ""
    said = (answer.errors.strip() or answer.output.strip()).splitlines()
    return (), said[0].rstrip(".") if said else "nvidia-smi says nothing"


def hidden_by(environ: Mapping[str, str]) -> str | None:
    """Return the variable, with its value, that hides every card; None where none does."""
    value = environ.get("CUDA_VISIBLE_DEVICES")
    return f"CUDA_VISIBLE_DEVICES={value}" if value is not None and value.strip() in ("", "-1") else None


def installed_torch() -> Torch | None:
    """Return what the file says that torch's makers put beside it; to import torch takes four seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8") as file:
            return torch_of(file.read())
    except OSError:
        return None


def torch_of(text: str) -> Torch | None:
    """Return what torch/version.py says; None where it says no version."""
    said: dict[str, str] = dict(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=\s*'([^']*)'", text, re.MULTILINE))
    if "__version__" not in said:
        return None
    return Torch(said["__version__"], said.get("cuda"), said.get("hip"))
