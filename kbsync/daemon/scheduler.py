"""The timetable, on APScheduler. Its jobs only set flags; the loops do the work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.schedulers.background import BackgroundScheduler

_DAY_S = 86400.0


class Scheduler:
    """Rings for a rescan every `rescan_s` seconds and for the upkeep once a day."""

    def __init__(self, rescan_s: float, rescan: Callable[[], object], upkeep: Callable[[], object]) -> None:
        # A late run is made up for once, however long the machine slept (defaults would drop it after one second).
        self._scheduler = BackgroundScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}
        )
        self._scheduler.add_job(rescan, "interval", seconds=rescan_s, id="rescan")
        self._scheduler.add_job(upkeep, "interval", seconds=_DAY_S, id="upkeep")

    def start(self) -> None:
        self._scheduler.start()

    def set_rescan(self, rescan_s: float) -> None:
        """Follow a changed setting."""
        self._scheduler.reschedule_job("rescan", trigger="interval", seconds=rescan_s)

    def status(self) -> dict[str, object]:
        """Return when each job runs next, as seconds since 1970."""
        times: dict[str, object] = {}
        for job in self._scheduler.get_jobs():
            at: datetime | None = getattr(job, "next_run_time", None)
            times[job.id] = None if at is None else at.timestamp()
        return times

    def stop(self) -> None:
        """End without waiting for a job: none takes long. Twice does no harm."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
