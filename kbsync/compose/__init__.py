"""Builds everything from the settings, once: for the daemon, and for a command that works without it."""

from kbsync.compose.engine import Engine, open_engine
from kbsync.compose.loops import build_daemon
from kbsync.compose.seams import (
    Seams,
    configured_model,
    configured_reranker,
    conversion_cage,
    docling_models_folder,
    real_seams,
    require_reranker,
)

__all__ = [
    "Engine",
    "Seams",
    "build_daemon",
    "configured_model",
    "configured_reranker",
    "conversion_cage",
    "docling_models_folder",
    "open_engine",
    "real_seams",
    "require_reranker",
]
