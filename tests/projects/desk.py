"""A project on a desk: its folder, a clock, and cheap parts where the real ones would load Docling."""

from __future__ import annotations

from pathlib import Path

from kbsync.errors import FailFile
from kbsync.file_types import DocumentType
from kbsync.projects import rebuilding, summary
from kbsync.projects.asking import Conversation
from kbsync.projects.ingest import Outcome, Tools, ingest
from kbsync.projects.project import Project, local
from kbsync.projects.starting import start
from kbsync.reasons import Reason
from tests.fakes.manual_clock import ManualClock

# 2026-02-18 16:00 UTC; what tests expect of local time they make of it as the program does.
NOW = 1_771_430_400.0


class PlainConverter:
    """A `reading.Converter` that takes a document's bytes for its text; `%BROKEN` in them fails it."""

    def markdown(self, path: str, name: str, document_type: DocumentType, content_hash: str, size: int) -> str:
        text = Path(path).read_bytes().decode("latin-1")
        if "%BROKEN" in text:
            raise FailFile(Reason.CORRUPT, f"{name}: its content is damaged.")
        return f"# {document_type}\n\n{text}\n"


class Desk:
    """A project `kb` in a folder."""

    def __init__(self, folder: Path, name: str = "kb") -> None:
        self.clock = ManualClock(NOW)
        self.project: Project = start(str(folder), name, self.clock)
        self.root = folder / name
        self.tools = Tools(self.clock, PlainConverter(), summary.summarize)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / "sources" / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def ingest(self) -> Outcome:
        return ingest(self.project, self.tools)

    def rebuild(self) -> rebuilding.Rebuilt:
        return rebuilding.rebuild(self.project, self.clock, summary.summarize)

    def ask(self, question: str) -> str:
        return Conversation(self.project).ask(question).text

    @property
    def page(self) -> str:
        return (self.root / "project.md").read_text(encoding="utf-8")

    def tree(self) -> dict[str, bytes]:
        """Return every file of the project with its bytes."""
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


def local_stamp(now: float) -> str:
    """Return a time as archived names have it."""
    return f"{local(now):%Y%m%d%H%M}"
