"""KBSYNC_* variables as settings: lists and tables are written in JSON. Heavy to import: it takes pydantic-settings."""

from __future__ import annotations

import json
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource


class Variables(EnvSettingsSource):
    """What the variables say. One that holds no JSON where it should goes on as text.

    So it is refused like any other wrong value, by its name and together with all other mistakes.
    """

    def decode_complex_value(self, _field_name: str, _field: FieldInfo, value: Any) -> Any:
        """Return what the JSON says, or the text as it is."""
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
