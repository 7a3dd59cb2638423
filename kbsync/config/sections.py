"""The sections of the settings: folders, chunks, OCR, models, resources, HTTP and projects, each checked and frozen."""

from __future__ import annotations

import os
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from kbsync.config import quiet_hours
from kbsync.config.quiet_hours import QuietHours
from kbsync.courtesy import Courtesy, IoClass
from kbsync.model import OcrMode, SourceMode, WatchMode

# A month; timers overflow on what is not far above (TOML knows `inf`).
LONGEST_S = 30 * 86400.0


def _absolute(path: str) -> str:
    expanded = os.path.expanduser(path)
    if not os.path.isabs(expanded):
        raise ValueError("must be an absolute path or begin with ~")
    return expanded


def _hours(text: str) -> str:
    return str(quiet_hours.parse(text))


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class SourceSettings(_Section):
    """One `[[sources]]` entry: a folder that is followed. A mirror is never written to; an inbox is emptied."""

    path: str = Field(description="the folder; `~` is your home")
    mode: SourceMode = Field(
        default="mirror",
        description="mirror: the files stay; inbox: they move into kbsync's store; project: see README",
    )
    recursive: bool = Field(default=True, description="folders inside it too")
    include: tuple[str, ...] = Field(
        default=(), description="in .gitignore syntax; empty: every supported type", examples=[["*.md", "*.pdf"]]
    )
    ocr: OcrMode = Field(default="auto", description="auto: pages without text of their own; always; never")
    password_file: str | None = Field(default=None, description="a file of passwords for documents, a line for each")
    ignore: tuple[str, ...] = Field(
        default=(),
        description="patterns in .gitignore syntax, added to the built-in ones",
        examples=[["*.tmp", "old/"]],
    )
    watch: WatchMode = Field(
        default="auto", description="auto: by events where the file system tells every change; native; polling"
    )

    @field_validator("path")
    @classmethod
    def _resolved(cls, path: str) -> str:
        return os.path.realpath(_absolute(path))

    @field_validator("password_file")
    @classmethod
    def _from_anywhere(cls, path: str | None) -> str | None:
        return None if path is None else _absolute(path)


class ChunkSettings(_Section):
    """How documents are cut, in tokens of the embedding model."""

    min_tokens: int = Field(default=50, ge=0, description="a smaller section joins the next one")
    max_tokens: int | None = Field(default=None, ge=32, description="the most in a chunk; unset: what the model reads")
    overlap_tokens: int = Field(default=32, ge=0, description="repeated at the start of a split section's next part")
    include_context: bool = Field(default=True, description="methods carry their class' signature and docstring")


class OcrSettings(_Section):
    """How text in pictures is read."""

    languages: tuple[str, ...] = Field(
        default=(), description="such as de; unset: Latin script and Chinese", examples=[["de"]]
    )


class ModelSettings(_Section):
    """Which models embed and read documents, and where the embedder runs."""

    embedder: str = Field(default="packaged", description="packaged, or a folder with a sentence-transformers model")
    device: str | tuple[str, ...] = Field(
        default="auto",
        description="auto, cpu, mps, cuda, or a list such as cuda:0, cuda:1",
        examples=[["cuda:0", "cuda:1"]],
    )
    reranker: str | None = Field(
        default=None, description="a folder with a cross-encoder that orders the best hits anew; unset: none"
    )
    docling: Literal["packaged", "docling"] = Field(
        default="packaged",
        description="layout and tables by the packaged models, or by Docling's own (models download)",
    )
    idle_s: float | Literal["never"] = Field(
        default=300,
        description='without work for so many seconds they leave memory, 12 times as long after a search; or "never"',
    )
    gpu_memory_share: float = Field(default=0.5, gt=0, le=1, description="the most of a GPU's memory that is taken")

    @field_validator("idle_s", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> float | Literal["never"]:
        if value == "never":
            return "never"
        try:
            seconds = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= LONGEST_S:
            raise ValueError(f'must be a number of seconds from 0 to {LONGEST_S:.0f}, or "never"')
        return seconds

    @property
    def rests_after_s(self) -> float | None:
        """After how many seconds without work a model leaves memory; None: never."""
        return None if self.idle_s == "never" else self.idle_s


class ResourceSettings(_Section):
    """How much of the machine is taken, and when: your own programs go first."""

    nice: int = Field(
        default=10,
        ge=0,
        le=19,
        description="how far reading and embedding stand back; the daemon, which searches, half",
    )
    io: IoClass = Field(
        default="low", description="low: after other programs; idle: when no other uses the disk; normal (Linux)"
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="the most cores for reading, and for embedding; from the next start on"
    )
    memory_mb: int | None = Field(
        default=None, ge=512, description="to plan with, from the next start on; unset: half of the machine's"
    )
    on_battery: Literal["pause", "slow", "go"] = Field(
        default="slow", description="pause; slow: a file at a time, and nothing that can wait; go"
    )
    quiet_hours: tuple[Annotated[str, AfterValidator(_hours)], ...] = Field(
        default=(),
        description="such as 09:00-18:00, local time: nothing is indexed then but what you add yourself",
        examples=[["09:00-18:00"]],
    )

    @field_validator("quiet_hours")
    @classmethod
    def _leave_time(cls, written: tuple[str, ...]) -> tuple[str, ...]:
        if quiet_hours.leave_no_time(quiet_hours.parse(text) for text in written):
            raise ValueError("they leave no time of the day to work in")
        return written

    @property
    def hours(self) -> tuple[QuietHours, ...]:
        """The quiet hours, read."""
        return tuple(quiet_hours.parse(text) for text in self.quiet_hours)

    @property
    def of_daemon(self) -> Courtesy:
        """How the daemon yields: it searches too, so it goes before its own children."""
        return Courtesy(self.nice // 2, self.io)

    @property
    def of_children(self) -> Courtesy:
        """How the processes yield that read documents and embed."""
        return Courtesy(self.nice, self.io, self.threads)


class HttpSettings(_Section):
    """Where the HTTP API answers, besides its Unix socket. Never on another address than 127.0.0.1."""

    enabled: bool = Field(default=True, description="on 127.0.0.1 too; false: on the Unix socket only")
    port: int = Field(default=8765, ge=0, le=65535, description="on 127.0.0.1; 0: any free one")


class ProjectSettings(_Section):
    """Knowledge projects: the language model that summarizes and answers there. Without one nothing is sent."""

    endpoint: str | None = Field(
        default=None, description="an OpenAI-compatible one, up to /v1; texts of projects are sent there. Unset: none"
    )
    model: str | None = Field(default=None, min_length=1, description="which model answers there")
    key_file: str | None = Field(default=None, description="a file with the key that it wants; unset: none is sent")
    timeout_s: float = Field(default=120, gt=0, le=3600, description="seconds that an answer may take")

    @field_validator("endpoint")
    @classmethod
    def _of_http(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        # Both raise ValueError for what is no address.
        if url is not None and (not (parts := urlsplit(url)).hostname or parts.port == 0):
            raise ValueError("must name a host")
        return url
