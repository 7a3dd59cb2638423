"""What runs in the child process that holds models: torch is imported here and nowhere in the daemon.

The parent's side is `model_process`. Light to import: the libraries come in once the process is shut in.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from kbsync.confinement import Confinement, confine
from kbsync.errors import KbsyncError

if TYPE_CHECKING:
    from kbsync.embed.embedder import DeviceInfo
    from kbsync.embed.model_files import ModelFiles
    from kbsync.embed.sentence_transformer import CrossEncoderReranker, SentenceTransformerDevice


@dataclass(frozen=True, slots=True)
class WhichDevices:
    """Asks for what `sentence_transformer.devices_there` returns."""

    setting: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class LoadEmbedder:
    """Asks for the model on a device, in place of one that is there; the answer is a `DeviceState`."""

    files: ModelFiles
    device: str
    notice: str | None
    memory_share: float


@dataclass(frozen=True, slots=True)
class Encode:
    """Asks for `Encoded` texts."""

    texts: tuple[str, ...]
    query: bool


@dataclass(frozen=True, slots=True)
class LoadReranker:
    """Asks for a cross-encoder; the answer is None."""

    folder: str
    device: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Score:
    """Asks for one score a text."""

    query: str
    texts: tuple[str, ...]


Question = WhichDevices | LoadEmbedder | Encode | LoadReranker | Score


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What the device is after a question: it may have fallen back to another one."""

    name: str
    batch_tokens: int
    notice: str | None
    info: DeviceInfo


@dataclass(frozen=True, slots=True)
class Encoded:
    """Float32 rows of the machine's byte order, one a text."""

    state: DeviceState
    columns: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back of a question: a result, or the error that it raised."""

    result: Any = None
    error: KbsyncError | None = None


class _Models:
    """What is loaded in this process."""

    def __init__(self) -> None:
        self._embedder: SentenceTransformerDevice | None = None
        self._reranker: CrossEncoderReranker | None = None
        self._info: DeviceInfo | None = None

    def answer(self, question: Question) -> Any:
        """Return the answer's result. Raises KbsyncError."""
        from kbsync.embed import sentence_transformer

        match question:
            case WhichDevices(setting):
                return sentence_transformer.devices_there(setting)
            case LoadEmbedder(files, device, notice, memory_share):
                self._embedder = sentence_transformer.SentenceTransformerDevice(files, device, notice, memory_share)
                self._embedder.load()
                return self._state(self._embedder)
            case Encode(texts, query):
                assert self._embedder is not None
                rows = self._embedder.encode(texts, query)
                return Encoded(self._state(self._embedder), rows.shape[1], rows.tobytes())
            case LoadReranker(folder, device):
                self._reranker = sentence_transformer.CrossEncoderReranker(folder, device)
                return self._reranker.load()
            case Score(query, texts):
                assert self._reranker is not None
                return self._reranker.scores(query, texts)

    def _state(self, device: SentenceTransformerDevice) -> DeviceState:
        info = device.info
        assert info is not None  # it is loaded
        return DeviceState(device.name, device.batch_tokens, device.notice, info)


def serve(link: Connection, confinement: Confinement) -> None:
    """Answer questions, one after the other, until the parent is gone or does not want any more."""
    confine(confinement)
    models = _Models()
    while True:
        try:
            question: Question = pickle.loads(link.recv_bytes())
        except (EOFError, OSError):
            return
        link.send_bytes(pickle.dumps(_answered(models, question), protocol=pickle.HIGHEST_PROTOCOL))


def _answered(models: _Models, question: Question) -> Answer:
    from kbsync.embed.embedder import failed, unready

    try:
        return Answer(models.answer(question))
    except KbsyncError as error:
        return Answer(error=error)
    except Exception as error:  # noqa: BLE001 - the parent is told what it means for what it asked
        return Answer(error=failed(error) if isinstance(question, Encode | Score) else unready(error))
