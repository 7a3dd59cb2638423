"""The embedding models that are at hand: the configured one and, while its vectors are still made, the one before.

The database says whose vectors are live; here is said which model embeds a query, and which what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync.clock import Clock
from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.embed.lifetimes import Idleness
from kbsync.embed.model_files import ModelFiles
from kbsync.errors import Unready
from kbsync.model import Embedder, Priority, TokenCounter
from kbsync.reasons import Reason
from kbsync.search.hybrid import QueryEmbedder
from kbsync.store import reindexes
from kbsync.store.connection import Connection
from kbsync.store.reindexes import VectorTable
from kbsync.store.writer import Readers

if TYPE_CHECKING:
    from kbsync.model import Vectors


@dataclass(frozen=True, slots=True)
class ModelAtHand:
    """A model that can be used here. `languages` as its card says, None where it names none or many."""

    batcher: Batcher
    folder: str
    languages: frozenset[str] | None


def model_at_hand(
    model: ModelFiles,
    counter: TokenCounter,
    open_devices: Callable[[], Sequence[Device]],
    clock: Clock | None = None,
    idleness: Idleness | None = None,
) -> ModelAtHand:
    """Return a model with a batcher of its own, nothing loaded yet."""
    batcher = Batcher(
        open_devices,
        counter,
        model.max_tokens,
        fingerprint=model.fingerprint,
        model_name=model.name,
        dimension=model.dimension,
        clock=clock,
        idleness=idleness,
    )
    return ModelAtHand(batcher, model.folder, model.languages or None)


@dataclass(frozen=True, slots=True)
class Embedding:
    """An embedder and the row id under which its vectors are kept."""

    embedder: Embedder
    embedder_id: int


class Embedders:
    """`configured` is the model that the settings name; `earlier` the one whose vectors are live, where it is another.

    `missing` says why there is no model where the settings name one: `configured` then only stands in its place, and
    nothing is written. Any thread may ask.
    """

    def __init__(
        self, readers: Readers, configured: ModelAtHand, earlier: ModelAtHand | None, missing: str | None = None
    ) -> None:
        self._readers = readers
        self.configured = configured
        self.earlier = earlier
        self.missing = missing

    def problem(self) -> str | None:
        """Return why nothing can be embedded for the index, None where it can, or where that is not known yet."""
        earlier = self.earlier
        errors = [self.missing, self.configured.batcher.error, None if earlier is None else earlier.batcher.error]
        if self.missing is not None or not any(errors):
            return self.missing
        live, _building = self._readers.read(_tables)
        at_hand = None if live is None else self._at_hand(live)
        return (at_hand or self.configured).batcher.error

    def for_writing(self) -> Embedding:
        """Return the embedder for new documents: the live one, so that search finds them by meaning at once.

        Where the live one is not at hand it is the configured one, in whose table they are found after the switch.
        """
        live, building = self._readers.read(_tables)
        at_hand = None if live is None else self._at_hand(live)
        if live is not None and at_hand is not None:
            return Embedding(at_hand.batcher, live.id)
        if building is None:
            raise Unready(
                Reason.MODEL,
                f"There is no table for the vectors of {self.configured.batcher.model_name}.",
                hint="Restart kbsync.",
            )
        return Embedding(self.configured.batcher, building.id)

    def for_queries(self) -> QueryEmbedder:
        """Return what embeds queries: the model whose vectors are live, or what says why these cannot be searched."""
        live, _building = self._readers.read(_tables)
        at_hand = None if live is None else self._at_hand(live)
        if live is None or at_hand is None:
            absent = _Absent(live, self.configured.batcher, self.missing)
            return QueryEmbedder(absent, 0 if live is None else live.id, lambda: True, frozenset())
        batcher = at_hand.batcher
        # One that failed is asked all the same: it says why.
        return QueryEmbedder(
            batcher,
            live.id,
            lambda: batcher.ready or batcher.error is not None,
            at_hand.languages,
            self.problem,
            batcher.wake,
        )

    def load_for_queries(self, timeout: float) -> None:
        """Load the model of the live vectors, for a command that searches; wait up to `timeout` seconds for it."""
        live, _building = self._readers.read(_tables)
        at_hand = None if live is None else self._at_hand(live)
        if at_hand is not None:
            at_hand.batcher.start()
            at_hand.batcher.wait_ready(timeout)

    def start(self) -> None:
        """Serve from threads; a model is loaded when it is first needed."""
        self.configured.batcher.start()
        if self.earlier is not None:
            self.earlier.batcher.start()

    def look(self) -> bool:
        """Let go what nobody needed for long; return whether that begins now. To be called often."""
        earlier = self.earlier
        rests = [batcher.look() for batcher in (self.configured.batcher, earlier and earlier.batcher) if batcher]
        return any(rests)

    def died(self) -> BaseException | None:
        """Return what ended a thread that serves a model, None where none died: no text is ever answered then."""
        earlier = self.earlier
        return self.configured.batcher.died or (None if earlier is None else earlier.batcher.died)

    def stop(self) -> None:
        """End the threads. Twice does no harm."""
        self.let_go_of_earlier()
        self.configured.batcher.stop()

    def let_go_of_earlier(self) -> None:
        """End the earlier model, whose vectors nobody searches any more."""
        earlier, self.earlier = self.earlier, None
        if earlier is not None:
            earlier.batcher.stop()

    def _at_hand(self, table: VectorTable) -> ModelAtHand | None:
        earlier = self.earlier
        if table.fingerprint == self.configured.batcher.fingerprint:
            return self.configured
        if earlier is not None and table.fingerprint == earlier.batcher.fingerprint and earlier.batcher.error is None:
            return earlier
        return None


class _Absent:
    """Stands for the model of the live vectors where it is not on this machine any more: it embeds nothing."""

    fingerprint = ""

    def __init__(self, table: VectorTable | None, configured: Batcher, missing: str | None) -> None:
        self.model_name = "another model" if table is None else table.model_name
        self.dimension = configured.dimension
        self._configured = configured.model_name
        self._missing = missing

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        if self._missing is not None:
            raise Unready(Reason.MODEL, self._missing)
        raise Unready(
            Reason.MODEL,
            f"The index was made with {self.model_name}, which is not on this machine any more;"
            f" the vectors of {self._configured} are still being made.",
            hint="`kbsync reindex` shows how far they are.",
        )


def _tables(connection: Connection) -> tuple[VectorTable | None, VectorTable | None]:
    return reindexes.live(connection), reindexes.building(connection)
