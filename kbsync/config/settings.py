"""Settings: config.toml and KBSYNC_* variables, checked, frozen, passed down. Heavy to import: only compose does."""

from __future__ import annotations

import codecs
import os
import tomllib
from collections.abc import Mapping
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kbsync.config.variables import SOURCES_VARIABLE
from kbsync.errors import ConfigurationError
from kbsync.model import ChunkLimits, OcrMode, SourceMode, WatchMode

# A month; timers overflow on what is not far above (TOML knows `inf`).
_LONGEST_S = 30 * 86400.0
# A hundred years; who wants longer says forever.
_MOST_DAYS = 36_500.0

_PREFIX = "KBSYNC_"
# Variables that are no settings: where everything lies, the scripts' environment, the tests' documents.
_OTHER_VARIABLES = {"home", "venv", "test_corpus"}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceSettings(_Section):
    """One `[[sources]]` entry: a folder that is followed. A mirror is never written to; an inbox is emptied."""

    path: str = Field(description="the folder; `~` is your home")
    mode: SourceMode = Field(
        default="mirror", description="mirror: the files stay where they are; inbox: they move into kbsync's store"
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
    encodings: tuple[str, ...] = Field(
        default=(), description="what old text files are in, such as shift_jis: it decides where the bytes leave doubt"
    )
    chunks: ChunkSettings = ChunkSettings()
    ocr: OcrSettings = OcrSettings()
    models: ModelSettings = ModelSettings()
    http: HttpSettings = HttpSettings()
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
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"{path} is listed twice as a source")
            for other in paths:
                if other != path and path.startswith(other.rstrip(os.sep) + os.sep):
                    raise ValueError(f"the source {path} lies inside the source {other}; keep the outer one")
        longest = self.chunks.max_tokens
        if longest is not None and self.chunks.overlap_tokens * 2 > longest:
            raise ValueError("chunks.overlap_tokens must be at most half of chunks.max_tokens")
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
    def keep_days(self) -> float | None:
        """How many days older versions and what is gone are kept; None: for ever."""
        return None if self.keep_versions_days == "forever" else self.keep_versions_days

    def chunk_limits(self, model_max_tokens: int) -> ChunkLimits:
        """Return the sizes for chunks under a model that reads `model_max_tokens`."""
        longest = min(self.chunks.max_tokens or model_max_tokens, model_max_tokens)
        return ChunkLimits(
            min_tokens=min(self.chunks.min_tokens, longest),
            max_tokens=longest,
            overlap_tokens=min(self.chunks.overlap_tokens, longest // 2),
            include_context=self.chunks.include_context,
        )


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
    return _checked(_read(config_file), config_file)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a message for each KBSYNC_* variable that means nothing: a misspelt one would be passed over silently."""
    return [
        f"There is no setting for the variable {name}; it is passed over."
        for name in sorted(environ)
        if name.upper().startswith(_PREFIX) and not _is_known(name.upper().removeprefix(_PREFIX).lower())
    ]


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


def _read(config_file: str) -> Mapping[str, Any]:
    try:
        with open(config_file, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{config_file} is not valid TOML: {error}.", hint="Correct that line.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"Cannot read {config_file}: {error}.", hint="Make it readable UTF-8.") from error


# What pydantic says in its own words, for people; `{}` is a bound or a list of values of the setting.
_SAID = {
    "extra_forbidden": "there is no such setting",
    "missing": "must be set",
    "literal_error": "must be one of: {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text in quotes",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "model_type": "must be a table of settings",
    "model_attributes_type": "must be a table of settings",
    "dict_type": "must be a table of settings",
}


def _setting_of(mistake: ErrorDetails, values: Mapping[str, Any]) -> str:
    """Return which setting is meant: of one that may be of several kinds, pydantic names the kind as well.

    A source is named by its folder; without one by its place in the list, counted from 1.
    """
    loc = mistake["loc"]
    if len(loc) > 1 and loc[0] == "sources" and isinstance(loc[1], int):
        inside = ".".join(str(part) for part in loc[2:])
        return " of ".join(part for part in (inside, f"source {_folder_of(values, loc[1])}") if part)
    parts = [str(part) for part in loc]
    return ".".join(part for part in parts if part != "str" and "[" not in part) or "settings"


def _folder_of(values: Mapping[str, Any], index: int) -> str:
    """Return how a source is named in a message. Nothing of it has been checked yet; a variable beats the file."""
    number = f"number {index + 1}"
    if any(name.upper().startswith(SOURCES_VARIABLE) for name in os.environ):
        return number
    try:
        folder = values["sources"][index]["path"]
    except (LookupError, TypeError):
        return number
    return f"{folder} ({number})" if isinstance(folder, str) and folder.isprintable() else number


def _said(mistake: ErrorDetails) -> str:
    """Return pydantic's message for people."""
    sentence = _SAID.get(mistake["type"])
    if sentence is None:
        return mistake["msg"].removeprefix("Value error, ")
    return sentence.format(**mistake.get("ctx", {}))


def _checked(values: Mapping[str, Any], config_file: str) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        said: dict[str, list[str]] = {}
        for mistake in error.errors():
            said.setdefault(_setting_of(mistake, values), []).append(_said(mistake))
        mistakes = "; ".join(f"{setting}: {', or '.join(sentences)}" for setting, sentences in said.items())
        raise ConfigurationError(
            f"The configuration cannot be used ({config_file} and KBSYNC_* variables): {mistakes}.",
            hint="Correct it and start again.",
        ) from error
    except ValueError as error:  # pydantic-settings: a variable that should hold JSON does not
        raise ConfigurationError(f"A KBSYNC_* variable cannot be read: {error}.", hint="Correct it.") from error
