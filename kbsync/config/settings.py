"""Settings: config.toml and KBSYNC_* variables, checked, frozen, passed down. Heavy to import: only compose does."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kbsync.config import mistakes, quiet_hours
from kbsync.config.encodings import legacy
from kbsync.config.environment import Variables
from kbsync.config.mistakes import Misplaced
from kbsync.config.quiet_hours import QuietHours
from kbsync.config.schedule import ScheduleSettings
from kbsync.config.times import Every, When
from kbsync.courtesy import Courtesy, IoClass
from kbsync.errors import ConfigurationError, Mistake
from kbsync.model import ChunkLimits, OcrMode, SourceMode, WatchMode

# A month; timers overflow on what is not far above (TOML knows `inf`).
_LONGEST_S = 30 * 86400.0
# A hundred years; who wants longer says forever.
_MOST_DAYS = 36_500.0

_PREFIX = "KBSYNC_"
# Variables that are no settings: where everything lies, the scripts' environment, the tests' documents.
_OTHER_VARIABLES = {"home", "venv", "test_corpus"}


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
        if not 0 <= seconds <= _LONGEST_S:
            raise ValueError(f'must be a number of seconds from 0 to {_LONGEST_S:.0f}, or "never"')
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


class Settings(BaseSettings):
    """Everything that can be set. Variables beat the file: KBSYNC_WORKERS, KBSYNC_CHUNKS__MIN_TOKENS."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid")

    sources: tuple[SourceSettings, ...] = Field(default=(), description="the folders")
    workers: int = Field(default=4, ge=1, le=64, description="how many files may be worked on at once")
    rescan_s: float = Field(default=300, gt=0, le=_LONGEST_S, description="seconds between full looks at every folder")
    quiet_s: float = Field(
        default=1.0, ge=0.1, le=_LONGEST_S, description="seconds without a change until a file is read"
    )
    longest_wait_s: float = Field(
        default=60, gt=0, le=_LONGEST_S, description="a file that never rests is read after so many seconds"
    )
    max_missing_share: float = Field(
        default=0.3, gt=0, le=1, description="a larger share of a folder missing at once, over 20 files, is held"
    )
    keep_versions_days: float | Literal["forever"] = Field(
        default=30, description='older versions and what is gone are kept so many days; or "forever"'
    )
    encodings: tuple[Annotated[str, AfterValidator(legacy)], ...] = Field(
        default=(),
        description="what old text files are in, such as shift_jis: it decides where the bytes leave doubt",
        examples=[["shift_jis"]],
    )
    chunks: ChunkSettings = ChunkSettings()
    ocr: OcrSettings = OcrSettings()
    models: ModelSettings = ModelSettings()
    http: HttpSettings = HttpSettings()
    resources: ResourceSettings = ResourceSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    projects: ProjectSettings = ProjectSettings()
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="how much is logged")

    @field_validator("keep_versions_days", mode="before")
    @classmethod
    def _days(cls, value: object) -> float | Literal["forever"]:
        if value == "forever":
            return "forever"
        try:
            days = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
        except ValueError:
            days = -1.0
        if not 0 <= days <= _MOST_DAYS:
            raise ValueError(f'must be a number of days from 0 to {_MOST_DAYS:.0f}, or "forever"')
        return days

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        found: list[Misplaced] = []
        first: dict[str, int] = {}
        for index, source in enumerate(self.sources):
            first.setdefault(source.path, index)
        for index, source in enumerate(self.sources):
            path, at = source.path, ("sources", index, "path")
            if first[path] != index:
                found.append(Misplaced(f"{path} is listed twice as a source", at))
                continue
            above = path
            # Not each against each: there may be thousands.
            while above != (above := os.path.dirname(above)):
                if above in first and not may_hold(self.sources[first[above]].mode, source.mode):
                    inside = f"the source {path} lies inside the source {above}; keep the outer one"
                    found.append(Misplaced(inside, at))
                    break
        found += self._misplaced_sizes()
        if found:
            raise mistakes.together(found)
        return self

    def _misplaced_sizes(self) -> list[Misplaced]:
        chunks, found = self.chunks, []
        longest = chunks.max_tokens
        # The default steps back where chunks are to be small.
        if longest is not None and chunks.min_tokens > longest and "min_tokens" in chunks.model_fields_set:
            smallest = "chunks.min_tokens must be at most chunks.max_tokens"
            found.append(Misplaced(smallest, ("chunks", "min_tokens")))
        if longest is not None and chunks.overlap_tokens * 2 > longest:
            overlap = "chunks.overlap_tokens must be at most half of chunks.max_tokens"
            found.append(Misplaced(overlap, ("chunks", "overlap_tokens")))
        return found

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file (which comes as keyword arguments)."""
        return Variables(settings_cls), init_settings

    @property
    def project_folders(self) -> tuple[str, ...]:
        """The knowledge projects whose sources/ are watched."""
        return tuple(source.path for source in self.sources if source.mode == "project")

    @property
    def keep_days(self) -> float | None:
        """How many days older versions and what is gone are kept; None: for ever."""
        return None if self.keep_versions_days == "forever" else self.keep_versions_days

    def timetable(self) -> dict[str, tuple[str, When | None]]:
        """Return every job of the daemon with its time as it is written, and as it is meant (None: never)."""
        return {"rescan": (f"{self.rescan_s:g}s", Every(self.rescan_s)), **self.schedule.times()}

    def chunk_limits(self, model_max_tokens: int) -> ChunkLimits:
        """Return the sizes for chunks under a model that reads `model_max_tokens`."""
        longest = min(self.chunks.max_tokens or model_max_tokens, model_max_tokens)
        return ChunkLimits(
            min_tokens=min(self.chunks.min_tokens, longest),
            max_tokens=longest,
            overlap_tokens=min(self.chunks.overlap_tokens, longest // 2),
            include_context=self.chunks.include_context,
        )


def may_hold(outer: str, inner: str) -> bool:
    """Return whether a source of one mode may lie inside one of another: what a project parsed may be searched too."""
    return outer == "project" and inner != "project"


def load_settings(config_file: str) -> Settings:
    """Read config.toml (absent: all defaults) and the environment. Raises ConfigurationError naming every mistake."""
    return _checked(*read_values(config_file), config_file)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a message for each KBSYNC_* variable that means nothing: a misspelt one would be passed over silently."""
    return [
        f"There is no setting for the variable {name}; it is passed over.{_meant(name)}"
        for name in sorted(environ)
        if name.upper().startswith(_PREFIX) and not _is_known(name.upper().removeprefix(_PREFIX).lower())
    ]


def _meant(name: str) -> str:
    meant = mistakes.did_you_mean(name.upper(), [f"{_PREFIX}{known}".upper() for known in Settings.model_fields])
    return f" {meant[0].upper()}{meant[1:]}" if meant else ""


def _is_known(name: str) -> bool:
    if name in _OTHER_VARIABLES:
        return True
    first, inside, _ = name.partition("__")
    field = Settings.model_fields.get(first)
    is_section = field is not None and (first == "sources" or isinstance(field.default, BaseModel))
    return field is not None and (is_section or not inside)


def is_written(config_file: str) -> bool:
    """Say whether there is a configuration at all: one that is gone or empty is no wish to forget every source."""
    try:
        return os.path.getsize(config_file) > 0
    except OSError:
        return False


def read_values(config_file: str) -> tuple[Mapping[str, Any], str]:
    """Return what the file sets, unchecked, and its text; nothing where there is none. Raises ConfigurationError."""
    try:
        # Without waiting: nobody may ever write into a named pipe of that name.
        with open(os.open(config_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            content = file.read()
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        if isinstance(error, IsADirectoryError):
            raise ConfigurationError(
                f"Cannot read {config_file}: it is a folder.", hint="Move it away, and write a file of that name."
            ) from error
        raise ConfigurationError(f"Cannot read {config_file}: {error.strerror}.", hint="Make it readable.") from error
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        wrong = Mistake("", "what stands there is no UTF-8", content.count(b"\n", 0, error.start) + 1)
        raise ConfigurationError(
            f"{config_file} cannot be read as text: {wrong}.", hint="Save it as UTF-8.", mistakes=[wrong]
        ) from error
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        wrong = mistakes.of_syntax(error, text)
        raise ConfigurationError(
            f"{config_file} is not valid TOML: {wrong}.", hint="Correct that line.", mistakes=[wrong]
        ) from error


def _checked(values: Mapping[str, Any], text: str, config_file: str) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        found = mistakes.of_values(error, values, text, Settings, os.environ)
        raise ConfigurationError(
            f"The configuration cannot be used ({config_file} and KBSYNC_* variables): {mistakes.told(found)}",
            hint="Correct it.",
            mistakes=found,
        ) from error
