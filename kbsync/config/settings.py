"""Settings: config.toml and KBSYNC_* variables, checked, frozen, passed down. Heavy to import: only compose does."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kbsync.config import mistakes
from kbsync.config.encodings import legacy
from kbsync.config.environment import Variables
from kbsync.config.mistakes import Misplaced
from kbsync.config.schedule import ScheduleSettings
from kbsync.config.sections import (
    LONGEST_S,
    ChunkSettings,
    HttpSettings,
    ModelSettings,
    OcrSettings,
    ProjectSettings,
    ResourceSettings,
    SourceSettings,
)
from kbsync.config.times import Every, When
from kbsync.errors import ConfigurationError, Mistake
from kbsync.model import ChunkLimits

# A hundred years; who wants longer says forever.
_MOST_DAYS = 36_500.0

_PREFIX = "KBSYNC_"
# Variables that are no settings: where everything lies, the scripts' environment, the tests' documents.
_OTHER_VARIABLES = {"home", "venv", "test_corpus"}


class Settings(BaseSettings):
    """Everything that can be set. Variables beat the file: KBSYNC_WORKERS, KBSYNC_CHUNKS__MIN_TOKENS."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid")

    sources: tuple[SourceSettings, ...] = Field(default=(), description="the folders")
    workers: int = Field(default=4, ge=1, le=64, description="how many files may be worked on at once")
    rescan_s: float = Field(default=300, gt=0, le=LONGEST_S, description="seconds between full looks at every folder")
    quiet_s: float = Field(
        default=1.0, ge=0.1, le=LONGEST_S, description="seconds without a change until a file is read"
    )
    longest_wait_s: float = Field(
        default=60, gt=0, le=LONGEST_S, description="a file that never rests is read after so many seconds"
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
