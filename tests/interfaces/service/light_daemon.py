"""`kbsync run`, with a hash of words for the model and a cheap converter in a real child: starts in a second.

`python -P -m tests.interfaces.service.light_daemon run --service`, as a unit of the tests' own runs it.
"""

from __future__ import annotations

from typing import Any

from kbsync import compose
from kbsync.__main__ import main
from kbsync.compose import Engine
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings
from tests.faults.forked_daemon import seams

_open_engine = compose.open_engine


def _opened(places: Locations, settings: Settings, **options: Any) -> Engine:
    return _open_engine(places, settings, seams(), **options)


if __name__ == "__main__":
    vars(compose)["open_engine"] = _opened
    main()
