"""Which settings a running daemon follows at once, and which hold from its next start only. Pure."""

from __future__ import annotations

from pydantic import BaseModel

from kbsync.config.settings import Settings

# A section stands for all that is in it.
_AT_ONCE = frozenset({"sources", "rescan_s", "max_missing_share", "keep_versions_days", "log_level", "schedule"})
_IN_PART = {"resources": frozenset({"nice", "io", "on_battery", "quiet_hours"})}


def waiting_for_start(begun: Settings, now: Settings) -> list[str]:
    """Return what is set otherwise than when the daemon began, and holds from its next start on: `models.device`."""
    return [
        name
        for field in Settings.model_fields
        if field not in _AT_ONCE
        for name in _changed(field, getattr(begun, field), getattr(now, field))
    ]


def _changed(field: str, before: object, after: object) -> list[str]:
    if not isinstance(before, BaseModel):
        return [] if before == after else [field]
    followed = _IN_PART.get(field, frozenset())
    return [
        f"{field}.{name}"
        for name in type(before).model_fields
        if name not in followed and getattr(before, name) != getattr(after, name)
    ]
