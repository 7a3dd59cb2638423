"""How much memory reading one large file takes: `python -m tests.pipelines.reading_memory KIND MEGABYTES` prints it.

The whole road of a file's bytes, from the disk to its chunks; only the vectors are zeros.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from kbsync import ingest
from kbsync.filesystem import RealFileSystem
from kbsync.model import ChunkLimits, Conversion, IngestOptions, OcrMode
from kbsync.sources.snapshot import read_snapshot
from tests.fakes.word_counter import WordCounter

# Few enough that the chunks themselves weigh nothing; what is read and decoded is the same.
_LIMITS = ChunkLimits(max_chunks=200)
_MEGABYTE = 1_000_000


def _log(number: int) -> bytes:
    return b"2026-03-01 12:00:00 INFO request %d served in %d ms by worker %d\n" % (number, number % 997, number % 16)


def _one_line(number: int) -> bytes:
    return b"word%d " % number


def _chinese(number: int) -> bytes:
    return f"第{number}行记录：服务器已经处理完毕。\n".encode("gb18030")


def _emoji(number: int) -> bytes:
    return f"{number} 👩\u200d👩\u200d👧\u200d👦\n".encode()


def _notebook(_number: int) -> bytes:
    start = b'{"cells": [{"cell_type": "markdown", "source": ["quince"]}, {"cell_type": "code", "source": ["x = 1"], '
    return start + b'"outputs": [{"data": {"image/png": "' + b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" * 31_250


KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "log": ("server.log", _log),
    "one line": ("line.md", _one_line),
    "gb18030": ("server.txt", _chinese),
    "emoji": ("chat.txt", _emoji),
    "notebook": ("analysis.ipynb", _notebook),
}


class _TextOnly:
    """Stands where documents are read: there is none."""

    encodings: tuple[str, ...] = ()

    def fingerprint(self, ocr: OcrMode) -> str:
        return ocr

    def read(self, content: ingest.Content, kind: ingest.Kind) -> Conversion:
        raise NotImplementedError(content.name)


def _blocks(piece: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """Yield so many bytes: a megabyte of pieces, over and over."""
    block, number = bytearray(), 0
    while len(block) < _MEGABYTE:
        block += piece(number)
        number += 1
    for start in range(0, size, len(block)):
        yield bytes(block[: size - start])


def _peak_bytes() -> int:
    """Return the most memory that this process ever held. Where there is no /proc, a parent's counts too."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(kind: str, megabytes: int) -> dict[str, object]:
    """Read a file of this kind and size; return `{added_bytes, chunks, reason, size}`, memory beyond what was held."""
    name, piece = KINDS[kind]
    counter, reader, options = WordCounter(), _TextOnly(), IngestOptions()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.path.realpath(folder), name)
        with open(path, "wb") as file:
            file.writelines(_blocks(piece, megabytes * _MEGABYTE))
        before = _peak_bytes()
        snapshot = read_snapshot(RealFileSystem(), path, ingest.TEXT_BYTES)
        content = ingest.Content(snapshot.head, snapshot.size, snapshot.content_hash, name, options)
        decided = ingest.kind_of(name, options, _LIMITS, reader, "auto")
        update = ingest.ingest(
            content, decided, _LIMITS, counter, reader, lambda texts: np.zeros((len(texts), 1), dtype=np.float32)
        )
        return {
            "added_bytes": _peak_bytes() - before,
            "chunks": len(update.chunks),
            "reason": update.reason,
            "size": snapshot.size,
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]))) + "\n")
