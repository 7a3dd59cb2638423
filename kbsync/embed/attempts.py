"""One batch on one device: every text its vector or its own error, whatever happens to the texts beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from kbsync.embed.embedder import Device, checked, failed, unready
from kbsync.embed.waiting import Request, Task
from kbsync.errors import KbsyncError, RetryLater, Unready, without_text
from kbsync.model import Priority
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.embed.lifetimes import Deaths
    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

# After so many texts in a row that each killed the device's process alone it is hardly the fault of the next ones.
_DEADLY_TEXTS = 3
# No model dies of it where it is well; about as long as those of which it died, for memory may be what is short.
_HARMLESS = "a "


def results(
    device: Device, batch: Sequence[Task], dimension: int, deaths: Deaths, on_death: Callable[[], None]
) -> Sequence[Vectors | KbsyncError]:
    """Return a vector or an error for each task; after a failure each is tried alone, to harm no other.

    `deaths` counts how often the device's process died over texts; `on_death` hears of each.
    """
    if not batch:
        return []
    try:
        vectors = device.encode([task.window.text for task in batch], batch[0].priority == Priority.QUERY)
        deaths.lived()
        return list(checked(vectors, len(batch), dimension))
    except RetryLater as error:
        died = error.reason is Reason.CRASHED
        if died:
            deaths.died()
            on_death()
        # Where nothing died it is not the texts' fault, so it is no use to try them one by one.
        if len(batch) == 1 or not died:
            return [error] * len(batch)
    except Exception as error:  # noqa: BLE001 - the thread must live; each caller gets its own error
        if len(batch) == 1:
            return [failed(error)]
    return _each_alone(device, batch, dimension, deaths, on_death)


def _each_alone(
    device: Device, batch: Sequence[Task], dimension: int, deaths: Deaths, on_death: Callable[[], None]
) -> list[Vectors | KbsyncError]:
    """Try the tasks one by one. A process that dies takes seconds to come again: so no request kills it twice."""
    found: list[Vectors | KbsyncError] = []
    over: dict[Request, KbsyncError] = {}
    away: KbsyncError | None = None
    deadly = 0
    for task in batch:
        if away is None and deadly >= _DEADLY_TEXTS:
            away = Unready(Reason.MODEL, "The process that embeds died over several texts in a row.")
        if (known := over.get(task.request) or away) is not None:
            found.append(known)
            continue
        (result,) = results(device, [task], dimension, deaths, on_death)
        found.append(result)
        if not isinstance(result, KbsyncError):
            deadly = 0
            continue
        over[task.request] = result
        if isinstance(result, RetryLater):
            if result.reason is Reason.CRASHED:
                deadly += 1
            else:  # there is no device just now: the others need not ask for it
                away = result
    return found


def is_well(device: Device, tokens: int, deaths: Deaths) -> bool:
    """Tell whether a device whose process died over texts embeds one of about `tokens` that does no harm.

    Then those were the fault, `deaths` begins anew, and the device has the model.
    """
    try:
        device.encode([_HARMLESS * max(1, tokens // 2)], query=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
        if not isinstance(error, RetryLater):  # else it died again, which is logged, or it is to end
            log.error("model_not_well", device=device.name, error=without_text(error))
        return False
    deaths.lived()
    return True


def unusable(error: Exception) -> Unready:
    """Return what is told of a model that could not be loaded; what nobody foresaw is logged whole."""
    if not isinstance(error, KbsyncError):
        log.error("model_not_loaded", exc_info=error)
    return unready(error)


def stopping() -> RetryLater:
    """Return the error of who waits for a model that is to serve nobody any more."""
    return RetryLater(Reason.MODEL, "The embedder is stopping.", hint="The work is kept and goes on at the next start.")
