"""One daemon with a first batch of real documents, for the tests of a specification's scenarios."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image

from tests.end_to_end.program import Daemon, Program, Record

# As many files at once as the configuration says.
WORKERS = 4


@dataclass(frozen=True, slots=True)
class Library:
    """The shared daemon, and how the first batch of documents was read: `busy` is how many at once, as seen.

    `page` is a PDF of one page, quick to read, that is not in the batch.
    """

    program: Program
    daemon: Daemon
    folder: Path
    page: Path
    batch: Record
    busy: list[int]
    slots: int

    def add(self, path: Path, *options: str) -> Record:
        """Add a file and return its document with its chunks."""
        (added,) = self.program.json("add", str(path), *options)["added"]
        return self.document(int(added["document_id"]))

    def document(self, document_id: int) -> Record:
        return self.program.json("documents", "show", str(document_id))

    def of_batch(self, name: str) -> Record:
        """Return the document that a file of the first batch became."""
        (added,) = [added for added in self.batch["added"] if Path(added["path"]).name == name]
        return self.document(int(added["document_id"]))

    def found(self, query: str, mode: str = "hybrid") -> Record:
        hits = self.daemon.client.get("search", q=query, mode=mode)["hits"]
        assert hits, f"nothing is found for {query!r}"
        return dict(hits[0])

    def hit_in(self, document: Record, query: str, mode: str = "hybrid") -> Record:
        """Return the hit in that document: others in the library may say the same."""
        hits = self.daemon.client.get("search", q=query, mode=mode)["hits"]
        (hit,) = [hit for hit in hits if hit["document_id"] == document["id"]]
        return dict(hit)


@contextmanager
def watched(program: Program, daemon: Daemon, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Run `kbsync` and yield (its process, how many documents were read at once whenever we looked)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kbsync", *arguments],
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    busy: list[int] = []
    try:
        while process.poll() is None:
            children = daemon.client.get("status")["conversion"]["children"]
            busy.append(sum(child["state"] == "busy" for child in children))
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        yield process, busy
    finally:
        process.kill()
        process.communicate()


def bound(corpus: Path, path: Path, *names: str) -> None:
    """Write a PDF of the first pages of others."""
    document = pypdfium2.PdfDocument.new()
    for name in names:
        with pypdfium2.PdfDocument(corpus / name) as source:
            document.import_pages(source, [0])
    document.save(path)
    document.close()


def another(source: Path, path: Path, mark: str) -> Path:
    """Write a PDF that reads the same and has other bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes() + f"\n% {mark}\n".encode())
    return path


@pytest.fixture(scope="module")
def library(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    base = tmp_path_factory.mktemp("scenarios").resolve()
    program, folder, page = Program(base / "home"), base / "pdfs", base / "page.pdf"
    folder.mkdir()
    bound(corpus, page, "pdf/multi_page.pdf")
    shutil.copyfile(corpus / "pdf" / "multi_page.pdf", folder / "manual.pdf")
    shutil.copyfile(corpus / "pdf" / "2305.03393v1-pg9.pdf", folder / "tables.pdf")
    bound(corpus, folder / "scan.pdf", "pdf/multi_page.pdf", "scans/ocr_test.pdf")
    with Image.open(corpus / "images" / "qr_bill_example.jpg") as image:
        image.save(folder / "diagram.png")
    program.configure(workers=WORKERS)
    with program.daemon() as daemon:
        with watched(program, daemon, "add", str(folder), "--recursive", "--json") as (process, busy):
            assert process.stdout is not None
            batch = json.loads(process.stdout.read())
        slots = int(daemon.client.get("status")["conversion"]["slots"])
        yield Library(program, daemon, folder, page, batch, busy, slots)
