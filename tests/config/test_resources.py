"""`[resources]`: what may be said, what holds without a word, and what a mistake is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.config.quiet_hours import parse
from kbsync.config.sections import ResourceSettings
from kbsync.config.settings import Settings, load_settings
from kbsync.courtesy import Courtesy
from kbsync.errors import ConfigurationError


def load(folder: Path, text: str) -> Settings:
    path = folder / "config.toml"
    path.write_text(text)
    return load_settings(str(path))


def test_without_a_word_it_yields_and_its_children_more_and_nothing_is_quiet() -> None:
    resources = ResourceSettings()
    assert resources.of_daemon == Courtesy(5, "low")
    assert resources.of_children == Courtesy(10, "low")
    assert (resources.hours, resources.on_battery, resources.memory_mb) == ((), "slow", None)


def test_what_is_written_holds_and_hours_are_shown_in_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[resources]\nnice = 19\nio = "idle"\nthreads = 2\nquiet_hours = ["9:00-18:00", "22:30-24:00"]\n'
    resources = load(tmp_path, text).resources
    assert (resources.of_daemon, resources.of_children) == (Courtesy(9, "idle"), Courtesy(19, "idle", 2))
    assert resources.quiet_hours == ("09:00-18:00", "22:30-00:00")
    assert resources.hours == (parse("09:00-18:00"), parse("22:30-24:00"))
    monkeypatch.setenv("KBSYNC_RESOURCES__QUIET_HOURS", '["01:00-02:00"]')
    monkeypatch.setenv("KBSYNC_RESOURCES__ON_BATTERY", "pause")
    resources = load(tmp_path, text).resources
    assert (resources.quiet_hours, resources.on_battery, resources.nice) == (("01:00-02:00",), "pause", 19)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('quiet_hours = ["9-18"]', "'9-18' is not written like \"09:00-18:00\""),
        ('quiet_hours = ["00:00-12:00", "12:00-24:00"]', "they leave no time of the day to work in"),
        ('quiet_hours = "09:00-18:00"', "must be a list"),
        ("nice = -5", "must be 0 or more"),
        ("nice = 20", "must be 19 or less"),
        ('io = "fast"', "must be one of"),
        ('on_battery = "stop"', "must be one of"),
        ("threads = 0", "must be 1 or more"),
        ("max_cpu = 50", "there is no such setting"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, written: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, f"[resources]\n{written}\n")
    assert f"resources.{written.split()[0]}" in str(raised.value)
    assert told in str(raised.value)
