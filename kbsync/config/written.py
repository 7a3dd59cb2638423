"""Settings as TOML text: what holds now, and a file to begin with in which every setting is explained."""

from __future__ import annotations

from typing import Any

import tomlkit
from pydantic import BaseModel

from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings

# Shown where a setting has no default that could be written down.
_EXAMPLES: dict[str, object] = {
    "path": "~/Documents",
    "password_file": "~/passwords.txt",
    "max_tokens": 256,
    "threads": 2,
    "memory_mb": 4096,
    "reranker": "~/models/reranker",
    "endpoint": "http://127.0.0.1:11434/v1",
    "model": "qwen3:8b",
    "key_file": "~/.kbsync-endpoint-key",
}


def as_toml(values: dict[str, Any]) -> str:
    """Return settings as TOML. TOML knows no null: what is unset (None) is a comment."""
    written = tomlkit.item(_without_none(values))
    _add_unset(written, values)
    return str(written.as_string())


def _add_unset(table: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            table.add(tomlkit.comment(f"{key} is not set"))
        elif isinstance(value, dict):
            _add_unset(table[key], value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    _add_unset(table[key][index], item)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as it was written: 30 days, not 30.0
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def template() -> str:
    """Return a configuration in which everything is said and nothing is set: every setting commented out, explained."""
    lines = ["# kbsync's configuration. `kbsync config check` finds mistakes. A running daemon follows changes of the"]
    lines += [
        "# sources, rescan_s, max_missing_share, keep_versions_days, log_level, [schedule] and [resources] (but for"
    ]
    lines += ["# threads and memory_mb) at once, of all else at its next start.", ""]
    sections: list[str] = []
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if name == "sources":
            sections += ["", "# [[sources]]", *_explained(SourceSettings, _EXAMPLES)]
        elif isinstance(default, BaseModel):
            sections += ["", f"# [{name}]", *_explained(type(default), _EXAMPLES)]
        else:
            lines.append(_setting(name, default, field.description))
    return "\n".join([*lines, *sections]) + "\n"


def _explained(section: type[BaseModel], examples: dict[str, object]) -> list[str]:
    return [
        _setting(name, examples.get(name, field.get_default(call_default_factory=True)), field.description)
        for name, field in section.model_fields.items()
    ]


def _setting(name: str, value: Any, description: str | None) -> str:
    shown = tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string()
    return f"# {f'{name} = {shown}':<30} # {description}"
