"""The release version: VERSION beside pyproject.toml in a checkout, else what was installed."""

from __future__ import annotations

import os


def version() -> str:
    """Return the version, the contract by which clients check compatibility."""
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.exists(os.path.join(checkout, "pyproject.toml")):
        try:
            with open(os.path.join(checkout, "VERSION"), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            pass  # somebody else's pyproject.toml beside an installed package
    import importlib.metadata

    return importlib.metadata.version("kbsync")
