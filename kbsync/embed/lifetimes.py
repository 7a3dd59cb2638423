"""When a model that nobody needs goes, and how long one is left alone whose process dies again and again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Who searched will search again, and is not to wait for the model each time: so many times as long as after other work,
# an hour with the default.
_AFTER_SEARCH = 12
# So often in a row a process may die and is started again at once; then with pauses (seconds).
_AT_ONCE = 2
_FIRST_PAUSE_S, _FACTOR, _LONGEST_PAUSE_S = 60.0, 4.0, 3600.0


@dataclass(frozen=True, slots=True)
class Idleness:
    """How long a model stays in memory without work. `idle_s` in seconds, None for as long as the process lives."""

    idle_s: float | None = None

    def is_over(self, now: float, worked_at: float, asked_at: float | None) -> bool:
        """Tell whether a model is to go that last worked at `worked_at`, and last for a person's search at `asked_at`.

        Monotonic seconds; None for a search that never was.
        """
        if self.idle_s is None or now - worked_at < self.idle_s:
            return False
        return asked_at is None or now - asked_at >= self.idle_s * _AFTER_SEARCH


class Deaths:
    """How often in a row something failed, and for how many seconds it is left alone after that."""

    def __init__(self) -> None:
        self.in_a_row = 0

    def died(self) -> None:
        """Count one more."""
        self.in_a_row += 1

    def lived(self) -> None:
        """Begin anew."""
        self.in_a_row = 0

    @property
    def pause_s(self) -> float:
        """Return the seconds until the next try; 0: at once."""
        beyond = self.in_a_row - _AT_ONCE - 1
        return 0.0 if beyond < 0 else min(_FIRST_PAUSE_S * _FACTOR ** min(beyond, 9), _LONGEST_PAUSE_S)
