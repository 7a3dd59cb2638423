"""README and CHANGELOG say what the program does: commands, settings, states, exit codes, version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings, load_settings
from kbsync.file_types import SUPPORTED
from kbsync.interfaces.cli.app import app
from kbsync.reasons import Reason
from tests.meta.checkout import ROOT, version
from tests.meta.reference import README, render, with_reference


def readme() -> str:
    return README.read_text(encoding="utf-8")


def test_reference_is_what_the_program_says() -> None:
    assert readme() == with_reference(readme(), render(app)), "run: python -m tests.meta.reference --write"


def names_of_settings(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from names_of_settings(kind, f"{before}{name}.")
        elif name != "sources":
            yield f"{before}{name}"


def test_every_setting_is_documented() -> None:
    missing = [name for name in names_of_settings(Settings) if f"`{name}`" not in readme()]
    assert not missing


def test_every_documented_setting_exists() -> None:
    table = readme().partition("| setting |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE))
    assert documented == set(names_of_settings(Settings))


def test_example_of_the_configuration_is_accepted_and_shows_every_key_of_a_source(tmp_path: Path) -> None:
    example = readme().partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "config.toml"
    file.write_text(example, encoding="utf-8")
    settings = load_settings(str(file))
    assert settings.sources[0].model_fields_set == set(SourceSettings.model_fields)


def test_every_reason_and_every_ending_is_documented() -> None:
    missing = [name for name in (*Reason, *SUPPORTED) if f"`{name}`" not in readme()]
    assert not missing


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 78, 130])
def test_every_exit_code_is_documented(code: int) -> None:
    assert f"| {code} |" in readme()


def test_newest_entry_of_the_changelog_is_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headers = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    assert headers[0] == version()
