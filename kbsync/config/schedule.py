"""The section `[schedule]` of the settings: how often the daemon looks after what it keeps."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kbsync.config.times import At, When, parse, written

_DAY_S = 86_400.0


class ScheduleSettings(BaseModel):
    """When what nobody asks for is done: "6h", "03:30" or "sun 04:00" in local time, "off". Missed, it is made up for.

    `rescan_s` says how often the folders are looked through.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    logs: str = Field(default="24h", description="long logs go on in a new file")
    retry: str = Field(default="6h", description="what failed for a reason that may be over is read again")
    reindex: str = Field(default="24h", description="documents that older rules or settings made are made anew")
    retention: str = Field(default="24h", description="what is over its time goes (keep_versions_days)")
    compact: str = Field(default="24h", description="the words are merged, and room that nothing uses is given back")
    check: str = Field(default="24h", description="all is checked, and what can be is mended")

    @field_validator("*", mode="before")
    @classmethod
    def _when(cls, value: object) -> str:
        return written(value)

    @field_validator("logs", "retention")
    @classmethod
    def _never_off(cls, text: str) -> str:
        if parse(text) is None:
            raise ValueError('cannot be off; keep_versions_days = "forever" keeps every version')
        return text

    @field_validator("retention")
    @classmethod
    def _daily(cls, text: str) -> str:
        # A longer step of the clock counts as a leap, after which nothing goes.
        when = parse(text)
        is_daily = when.weekday is None if isinstance(when, At) else when is not None and when.seconds <= _DAY_S
        if not is_daily:
            raise ValueError("must be once a day or more often: by it kbsync sees whether the clock is right")
        return text

    def times(self) -> dict[str, tuple[str, When | None]]:
        """Return each job with its time as it is written, and as it is meant."""
        return {name: (text, parse(text)) for name, text in self.model_dump().items()}
