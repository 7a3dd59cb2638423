"""What runs in a child in place of the model: hashed words, and a planted mishap for some texts. Light to import."""

from __future__ import annotations

import os
import pickle
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kbsync.confinement import Confinement, confine
from kbsync.embed.embedder import DeviceInfo
from kbsync.embed.model_child import Answer, DeviceState, Encode, Encoded, LoadEmbedder, LoadReranker, Score
from kbsync.errors import FailFile, KbsyncError, Unready
from kbsync.reasons import Reason
from tests.fakes.hash_embedder import hash_vectors

DIMENSION = 16


def serve(link: Connection, confinement: Confinement) -> None:
    """Answer as `model_child.serve` does. The model's folder may hold orders, files whose names say what goes wrong."""
    confine(confinement)
    state = DeviceState("?", 0, None, DeviceInfo("?", "", 1, None))
    while True:
        try:
            question = pickle.loads(link.recv_bytes())
        except EOFError:
            return
        result: Any = None
        error: KbsyncError | None = None
        match question:
            case LoadEmbedder(files, device, notice, _):
                _obey(Path(files.folder), device)
                state = DeviceState(device, 64, notice, DeviceInfo(device.partition(":")[0], "a chip", 1, 1 << 30))
                if (Path(files.folder) / f"unready-{device}").exists():
                    error = Unready(Reason.MODEL, f"It cannot be loaded on {device}.")
                result = state
            case Encode(texts, _):
                for text in texts:
                    _meet(text)
                if "fall" in texts:
                    state = DeviceState("cpu", 64, f"The embedding device {state.name} failed.", state.info)
                if "bad" in texts:
                    error = FailFile(Reason.MODEL, "A bad text.")
                result = Encoded(state, DIMENSION, hash_vectors(texts, DIMENSION).tobytes())
                if "much" in texts:
                    result = Encoded(state, DIMENSION, b"\0" * (8 << 20))
                if "pid" in texts:
                    rows = hash_vectors(texts, DIMENSION)
                    rows[texts.index("pid"), 0] = os.getpid()
                    result = Encoded(state, DIMENSION, rows.tobytes())
            case LoadReranker(folder, _):
                _obey(Path(folder), "reranker")
                if (Path(folder) / "unready-reranker").exists():
                    error = FailFile(Reason.MODEL, "It is no reranker.")
            case Score(_, texts):
                for text in texts:
                    _meet(text)
                result = [1 / (1 + len(text)) for text in texts]
        link.send_bytes(pickle.dumps(Answer(result, error)))


def _obey(folder: Path, device: str) -> None:
    """Die at loading as often as the file `die-DEVICE` has bytes."""
    order = folder / f"die-{device}"
    if order.exists() and (times := order.stat().st_size):
        os.truncate(order, times - 1)
        os.kill(os.getpid(), signal.SIGKILL)


def _meet(text: str) -> None:
    if text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "leave":
        os._exit(0)
    if text == "hang":
        time.sleep(600)
