"""A small stock list, as a sample of Python with classes."""

from __future__ import annotations

LOW_STOCK = 3


class Shelf:
    """Holds how many pieces of each article are there."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}

    def put(self, article: str, pieces: int = 1) -> None:
        """Add pieces of an article."""
        self._pieces[article] = self._pieces.get(article, 0) + pieces

    # Taking more than there is would hide a counting error.
    def take(self, article: str, pieces: int = 1) -> None:
        """Remove pieces; raises ValueError where there are too few."""
        if self._pieces.get(article, 0) < pieces:
            raise ValueError(f"fewer than {pieces} of {article}")
        self._pieces[article] -= pieces

    @property
    def running_out(self) -> list[str]:
        """Return the articles that have to be ordered again."""
        return sorted(article for article, pieces in self._pieces.items() if pieces < LOW_STOCK)


async def count_remote(shelves: list[Shelf]) -> int:
    """Return how many articles are running out on all shelves together."""
    return sum(len(shelf.running_out) for shelf in shelves)
