"""Settings: config.toml and KBSYNC_* variables, checked, frozen, passed down. Heavy to import: only compose does."""

from __future__ import annotations

import codecs
import os
import tomllib
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kbsync.config import mistakes, quiet_hours
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
    include: tuple[str, ...] = Field(default=(), description="in .gitignore syntax; empty: every supported type")
    ocr: OcrMode = Field(default="auto", description="auto: pages without text of their own; always; never")
    password_file: str | None = Field(default=None, description="a file of passwords for documents, a line for each")
    ignore: tuple[str, ...] = Field(default=(), description="patterns in .gitignore syntax, added to the built-in ones")
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

    languages: tuple[str, ...] = Field(default=(), description="such as de; unset: Latin script and Chinese")


class ModelSettings(_Section):
    """Which models embed and read documents, and where the embedder runs."""

    embedder: str = Field(default="packaged", description="packaged, or a folder with a sentence-transformers model")
    device: str | tuple[str, ...] = Field(
        default="auto", description="auto, cpu, mps, cuda, or a list such as cuda:0, cuda:1"
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
    quiet_hours: tuple[str, ...] = Field(
        default=(), description="such as 09:00-18:00, local time: nothing is indexed then but what you add yourself"
    )

    @field_validator("quiet_hours")
    @classmethod
    def _hours(cls, written: tuple[str, ...]) -> tuple[str, ...]:
        hours = [quiet_hours.parse(text) for text in written]
        if quiet_hours.leave_no_time(hours):
            raise ValueError("they leave no time of the day to work in")
        return tuple(str(one) for one in hours)

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
    model: str | None = Field(default=None, description="which model answers there")
    key_file: str | None = Field(default=None, description="a file with the key that it wants; unset: none is sent")
    timeout_s: float = Field(default=120, gt=0, le=3600, description="seconds that an answer may take")

    @field_validator("endpoint")
    @classmethod
    def _of_http(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
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
    encodings: tuple[str, ...] = Field(
        default=(), description="what old text files are in, such as shift_jis: it decides where the bytes leave doubt"
    )
    chunks: ChunkSettings = ChunkSettings()
    ocr: OcrSettings = OcrSettings()
    models: ModelSettings = ModelSettings()
    http: HttpSettings = HttpSettings()
    resources: ResourceSettings = ResourceSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    projects: ProjectSettings = ProjectSettings()
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="how much is logged")

    @field_validator("encodings")
    @classmethod
    def _known_encodings(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_legacy_encoding(name) for name in names)

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
        paths = [source.path for source in self.sources]
        for index, path in enumerate(paths):
            at = ("sources", index, "path")
            if path in paths[:index]:
                raise Misplaced(f"{path} is listed twice as a source", at)
            for other in paths:
                if other != path and path.startswith(other.rstrip(os.sep) + os.sep):
                    if may_hold(self._modes[other], self._modes[path]):
                        continue
                    raise Misplaced(f"the source {path} lies inside the source {other}; keep the outer one", at)
        longest = self.chunks.max_tokens
        if longest is not None and self.chunks.overlap_tokens * 2 > longest:
            raise Misplaced(
                "chunks.overlap_tokens must be at most half of chunks.max_tokens", ("chunks", "overlap_tokens")
            )
        return self

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
        return env_settings, init_settings

    @property
    def _modes(self) -> dict[str, SourceMode]:
        return {source.path: source.mode for source in self.sources}

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


def _absolute(path: str) -> str:
    expanded = os.path.expanduser(path)
    if not os.path.isabs(expanded):
        raise ValueError("must be an absolute path or begin with ~")
    return expanded


def _legacy_encoding(name: str) -> str:
    """Return Python's name of an encoding that has ASCII in its lower half and letters of its own above."""
    try:
        known = codecs.lookup(name).name
        fits = b"az".decode(known) == "az" and not b"\xe1\xe2".decode(known).isascii()
    except (LookupError, UnicodeError):
        fits = False
    if not fits or known in ("charmap", "unicode-escape", "raw-unicode-escape"):
        raise ValueError(f"{name} is no legacy encoding such as shift_jis, gb18030, big5, euc_kr, koi8_r or cp1252")
    return known


def load_settings(config_file: str) -> Settings:
    """Read config.toml (absent: all defaults) and the environment. Raises ConfigurationError naming every mistake."""
    return _checked(*_read(config_file), config_file)


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


def _read(config_file: str) -> tuple[Mapping[str, Any], str]:
    """Return what the file sets, and its text; nothing where there is none."""
    try:
        with open(config_file, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        raise ConfigurationError(f"Cannot read {config_file}: {error}.", hint="Make it readable.") from error
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
            f"The configuration cannot be used ({config_file} and KBSYNC_* variables): {'; '.join(map(str, found))}.",
            hint="Correct it and start again.",
            mistakes=found,
        ) from error
    except ValueError as error:  # pydantic-settings: a variable that should hold JSON does not
        raise ConfigurationError(f"A KBSYNC_* variable cannot be read: {error}.", hint="Correct it.") from error
