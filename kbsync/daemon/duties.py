"""What the timetable has done, each in the upkeep's thread: the story of a day in one place."""

from __future__ import annotations

from collections.abc import Callable

from kbsync.daemon.log_rotation import Logs
from kbsync.daemon.wake import Wake
from kbsync.failpoints import failpoint
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.knowledge_base.reindexing import Reindexing
from kbsync.knowledge_base.retrying import Retrying


class Duties:
    """Each method is one duty: it blocks until it is done, and raises RetryLater where it is to be tried again.

    `keep_days` follows the settings; None: for ever. `work` is rung where there is more to be read.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        reindexing: Reindexing,
        retrying: Retrying,
        logs: Logs,
        work: Wake,
        keep_days: float | None,
    ) -> None:
        self._kb = kb
        self._reindexing = reindexing
        self._retrying = retrying
        self._logs = logs
        self._work = work
        self.keep_days = keep_days

    def by_name(self, rest: Callable[[float], None]) -> dict[str, Callable[[], object]]:
        """Return all of them. `rest` is called between the parts of the long one, with the seconds that one took."""
        return {
            "logs": self._logs.rotate,
            "retry": self._retry,
            "reindex": self._reindex,
            "retention": self._expire,
            "compact": self._compact,
            "check": lambda: self._kb.checkup.in_turn(rest),
        }

    def _retry(self) -> None:
        if self._retrying.retry():
            self._work.ring()

    def _reindex(self) -> None:
        if self._reindexing.begin_where_stale():
            self._work.ring()

    def _expire(self) -> None:
        self._kb.prune()
        failpoint("upkeep.pruned")
        self._kb.retention.expire(self.keep_days)

    def _compact(self) -> None:
        self._kb.compaction.sweep_conversions()
        self._kb.compaction.merge()
        self._kb.compaction.compact()
