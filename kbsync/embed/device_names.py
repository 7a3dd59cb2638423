"""Which devices a setting means on a machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.errors import ConfigurationError


def those_there(setting: str | Sequence[str], cuda_count: int, has_mps: bool) -> tuple[list[str], str | None]:
    """Return what `resolve_devices` would without those that are missing, and a sentence about these, None for none."""
    try:
        return resolve_devices(setting, cuda_count, has_mps), None
    except ConfigurationError as error:
        wanted = [setting] if isinstance(setting, str) else setting
        there = [f"cuda:{number}" for number in range(cuda_count)] + ["mps"] * has_mps
        names = [name for name in wanted if name in there] or ["cpu"]
        return names, f"{error.message} Until kbsync is restarted with it, {', '.join(names)} embeds. {error.hint}"


def resolve_devices(setting: str | Sequence[str], cuda_count: int, has_mps: bool) -> list[str]:
    """Return the device names that a setting means on a machine with these accelerators.

    `auto` and `cuda` are all CUDA devices; `auto` goes on to mps and cpu where there is none.
    Raises ConfigurationError for a device that is not there.
    """
    cuda = [f"cuda:{number}" for number in range(cuda_count)]
    there = [*cuda, *(["mps"] if has_mps else []), "cpu"]
    if setting == "auto":
        return cuda or there[:1]
    if setting == "cuda" and cuda:
        return cuda
    wanted = [setting] if isinstance(setting, str) else list(setting)
    missing = [name for name in wanted if name not in there]
    if missing or not wanted:
        raise ConfigurationError(
            f"The embedding device {missing[0]!r} is not on this machine."
            if missing
            else "No embedding device is set.",
            hint=f"Set `device` to auto or to one of: {', '.join(there)}.",
        )
    return wanted
