"""Settings: the environment beats the file, every mistake is named, nothing is taken silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from kbsync.config.settings import Settings, load_settings, unknown_variables
from kbsync.errors import ConfigurationError
from kbsync.model import ChunkLimits


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KBSYNC_"):
            monkeypatch.delenv(name)


def load(tmp_path: Path, text: str | bytes) -> Settings:
    file = tmp_path / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(str(file))


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    settings = load_settings(str(tmp_path / "absent.toml"))
    assert settings == Settings()
    assert (settings.sources, settings.workers, settings.models.device) == ((), 4, "auto")


def test_the_environment_beats_the_file_and_the_rest_of_a_section_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBSYNC_WORKERS", "7")
    monkeypatch.setenv("KBSYNC_CHUNKS__MIN_TOKENS", "11")
    settings = load(tmp_path, "workers = 2\nrescan_s = 60\n[chunks]\nmin_tokens = 1\noverlap_tokens = 9\n")
    assert (settings.workers, settings.rescan_s) == (7, 60)
    assert (settings.chunks.min_tokens, settings.chunks.overlap_tokens) == (11, 9)


def test_variables_that_are_no_settings_are_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSYNC_HOME", "/somewhere")
    monkeypatch.setenv("KBSYNC_TEST_CORPUS", "/corpus")
    assert load(tmp_path, "") == Settings()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("worker = 2\n", "worker"),
        ("workers = 0\n", "workers"),
        ("workers = 'many'\n", "workers"),
        ("[chunks]\nmax_token = 3\n", "chunks.max_token"),
        ("[chunks]\nmax_tokens = 40\noverlap_tokens = 30\n", "overlap_tokens"),
        ("rescan_s = inf\n", "rescan_s"),
        ("rescan_s = nan\n", "rescan_s"),
        ("quiet_s = inf\n", "quiet_s"),
        ("longest_wait_s = 1e300\n", "longest_wait_s"),
        ("log_level = 'loud'\n", "log_level"),
        ("[[sources]]\npath = 'relative'\n", "path of source relative (number 1)"),
        ("[[sources]]\nmode = 'mirror'\n", "path of source number 1"),
        ("[[sources]]\npath = '/b'\n[[sources]]\npath = '/a'\nmode = 'steal'\n", "mode of source /a (number 2)"),
        ('[[sources]]\npath = "/a\\u0000b"\n', "path of source number 1"),
        ("[[sources]]\npath = '/a'\n[[sources]]\npath = '/a/'\n", "twice"),
        ("[[sources]]\npath = '/a/b'\n[[sources]]\npath = '/a'\n", "/a/b lies inside the source /a"),
        ("[[sources]]\npath = '/'\n[[sources]]\npath = '/a'\n", "/a lies inside the source /"),
        ("workers = \n", "not valid TOML"),
        (b"# caf\xe9\n", "UTF-8"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str | bytes, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    assert named in str(caught.value)
    assert "config.toml" in caught.value.message
    assert caught.value.hint


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, "workers = 0\nrescan_s = 0\n[models]\nengine = 'x'\n")
    assert all(name in caught.value.message for name in ("workers", "rescan_s", "models.engine"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KBSYNC_WORKERS", "none"),
        ("KBSYNC_CHUNKS", "no json"),
        ("KBSYNC_SOURCES", "~/notes"),
        ("KBSYNC_CHUNKS__X", "1"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, "")
    assert name.removeprefix("KBSYNC_").split("__")[0].lower() in caught.value.message


def test_mistakes_are_told_in_words_for_people(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, "wrokers = 2\n[[sources]]\npath = 'relative'\n")
    assert "wrokers: there is no such setting" in caught.value.message
    assert "path of source relative (number 1): must be an absolute path" in caught.value.message


def test_variables_that_mean_nothing_are_named() -> None:
    known = ("HOME", "VENV", "TEST_CORPUS", "WORKERS", "CHUNKS__MIN_TOKENS", "SOURCES", "MODELS__DEVICE")
    environ = {f"KBSYNC_{name}": "" for name in (*known, "WORKRES", "WORKERS__X")} | {"PATH": ""}
    assert [message.split("variable ")[1].split(";")[0] for message in unknown_variables(environ)] == [
        "KBSYNC_WORKERS__X",
        "KBSYNC_WORKRES",
    ]


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Cannot read"):
        load_settings(str(tmp_path))


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        load_settings(str(tmp_path / "config.toml"))


@pytest.mark.timeout(20)
def test_thousands_of_sources_are_compared_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each against each, these would take a minute."""
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    text = "".join(f"[[sources]]\npath = '/a/{number}'\n" for number in range(16000))
    assert len(load(tmp_path, text).sources) == 16000


def test_sources_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    settings = load(tmp_path, "[[sources]]\npath = '~/link'\nignore = ['*.tmp']\nrecursive = false\n")
    assert settings.sources[0].path == str((tmp_path / "real").resolve())
    assert (settings.sources[0].ignore, settings.sources[0].recursive) == (("*.tmp",), False)


def test_a_link_into_another_source_is_seen(tmp_path: Path) -> None:
    (tmp_path / "notes" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("notes/inner")
    text = f"[[sources]]\npath = '{tmp_path}/notes'\n[[sources]]\npath = '{tmp_path}/link'\n"
    with pytest.raises(ConfigurationError, match="lies inside"):
        load(tmp_path, text)


def test_folders_whose_names_begin_alike_are_not_nested(tmp_path: Path) -> None:
    assert len(load(tmp_path, "[[sources]]\npath = '/a/notes'\n[[sources]]\npath = '/a/notes-old'\n").sources) == 2


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.workers = 3


@pytest.mark.parametrize(
    ("text", "model", "expected"),
    [
        ("", 256, ChunkLimits(50, 256, 32)),
        ("", 32, ChunkLimits(32, 32, 16)),
        ("[chunks]\nmax_tokens = 128\n", 256, ChunkLimits(50, 128, 32)),
        ("[chunks]\nmax_tokens = 512\n", 256, ChunkLimits(50, 256, 32)),
        ("[chunks]\ninclude_context = false\nmin_tokens = 0\n", 256, ChunkLimits(0, 256, 32, include_context=False)),
    ],
)
def test_chunks_are_never_longer_than_what_the_model_reads(
    tmp_path: Path, text: str, model: int, expected: ChunkLimits
) -> None:
    assert load(tmp_path, text).chunk_limits(model) == expected


def test_encodings_have_pythons_names(tmp_path: Path) -> None:
    settings = load(tmp_path, 'encodings = ["SJIS", "windows-1251", "Latin-1", "EUC-KR", "GBK", "Big5-HKSCS"]\n')
    assert settings.encodings == ("shift_jis", "cp1251", "iso8859-1", "euc_kr", "gbk", "big5hkscs")


@pytest.mark.parametrize(
    "name", ["klingon", "utf-8", "utf-16", "utf-7", "ascii", "rot13", "hex", "cp037", "unicode_escape", "idna", ""]
)
def test_what_is_no_legacy_encoding_is_refused_and_some_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"encodings.*shift_jis"):
        load(tmp_path, f'encodings = ["{name}"]\n')
