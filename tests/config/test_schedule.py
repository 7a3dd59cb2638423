"""The section `[schedule]`: read from the file and the environment, mistakes named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.config.settings import Settings, load_settings
from kbsync.config.times import At, Every
from kbsync.errors import ConfigurationError


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load_settings(str(file))


def test_a_timetable_has_every_job_and_says_how_it_is_written(tmp_path: Path) -> None:
    text = 'rescan_s = 60\n[schedule]\ncheck = "Sun 04:00"\nretention = 03:30:00\nretry = 3600\nreindex = "off"\n'
    assert load(tmp_path, text).timetable() == {
        "rescan": ("60s", Every(60)),
        "logs": ("24h", Every(86_400)),
        "retry": ("3600s", Every(3_600)),
        "reindex": ("off", None),
        "retention": ("03:30", At(3, 30)),
        "compact": ("24h", Every(86_400)),
        "check": ("sun 04:00", At(4, 0, 6)),
    }


def test_the_environment_sets_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSYNC_SCHEDULE__CHECK", "7200")
    assert load(tmp_path, '[schedule]\nretry = "2h"\n').timetable()["check"] == ("7200", Every(7_200))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('check = "sometimes"', "schedule.check: must be a time such as"),
        ("check = 5", "schedule.check: must be from a minute to 30 days"),
        ('retention = "off"', "schedule.retention: cannot be off; keep_versions_days"),
        ('logs = "off"', "schedule.logs: cannot be off"),
        ('retention = "sun 04:00"', "schedule.retention: must be once a day or more often"),
        ('retention = "2d"', "schedule.retention: must be once a day or more often"),
        ('rescan = "5m"', "schedule.rescan: there is no such setting"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, f"[schedule]\n{line}\n")
    assert said in caught.value.message
