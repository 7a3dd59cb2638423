"""Variables of the environment that beat config.toml where a command would edit it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

from kbsync.errors import UsageError

SOURCES_VARIABLE = "KBSYNC_SOURCES"
EMBEDDER_VARIABLE = "KBSYNC_MODELS__EMBEDDER"


def refuse_sources_fixed(environ: Mapping[str, str]) -> None:
    """Raise UsageError where a variable says which the sources are: what is written would change nothing."""
    fixed = next((name for name in sorted(environ) if name.upper().split("__")[0] == SOURCES_VARIABLE), None)
    _refuse("The sources come", fixed)


def refuse_embedder_fixed(environ: Mapping[str, str]) -> None:
    """Raise UsageError where a variable says which the embedding model is."""
    fixed = next((name for name in sorted(environ) if name.upper() == EMBEDDER_VARIABLE), None)
    _refuse("The embedding model comes", fixed)


def _refuse(what: str, fixed: str | None) -> None:
    if fixed is not None:
        raise UsageError(
            f"{what} from the variable {fixed}, which beats config.toml.",
            hint=f"Change or unset {fixed} (of the daemon, where one runs).",
        )
