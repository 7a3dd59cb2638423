"""The commands' edits of config.toml: comments stay, the file is replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from kbsync.config import file
from kbsync.config.file import add_source, remove_source
from kbsync.config.settings import Settings, load_settings
from kbsync.config.written import as_toml
from kbsync.errors import ConfigurationError, NotFound, StorageUnavailable, UsageError

COMMENTED = """\
# everything of mine
workers = 2 # two are enough

# the notes
[[sources]]
path = "{home}/a" # kept
ignore = ["*.tmp"]

[chunks]
min_tokens = 10 # small

# at the end
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve()
    for name in "abc":
        (home / name).mkdir()
    return home


@pytest.fixture
def config(home: Path) -> Path:
    config = home / "config.toml"
    config.write_text(COMMENTED.format(home=home))
    return config


def paths(config: Path) -> list[str]:
    return [os.path.basename(source.path) for source in load_settings(str(config)).sources]


def test_several_folders_are_added_all_at_once_or_not_at_all(home: Path, config: Path) -> None:
    before = config.read_text()
    (home / "b" / "inner").mkdir()
    for refused in ("a", "absent", "b/inner"):
        with pytest.raises(UsageError):
            file.add_sources(str(config), [str(home / "b"), str(home / refused)], "# unused\n")
        assert config.read_text() == before
    file.add_sources(str(config), [str(home / "b"), str(home / "c")], "# unused\n")
    assert paths(config) == ["a", "b", "c"]
    assert config.read_text().startswith("# everything of mine\n")
    assert "# unused" not in config.read_text()


@pytest.mark.parametrize("text", [None, ""])
def test_folders_begin_a_configuration_with_the_words_it_is_to_begin_with(home: Path, text: str | None) -> None:
    new = home / "new.toml"
    if text is not None:
        new.write_text(text)
    file.add_sources(str(new), [str(home / "a"), str(home / "b")], "# hello\n# workers = 4\n")
    assert new.read_text() == (
        f'# hello\n# workers = 4\n\n[[sources]]\npath = "{home}/a"\n\n[[sources]]\npath = "{home}/b"\n'
    )


def test_an_inbox_is_written_as_one(home: Path, config: Path) -> None:
    add_source(str(config), str(home / "b"), mode="inbox")
    assert [source.mode for source in load_settings(str(config)).sources] == ["mirror", "inbox"]


def test_an_added_folder_is_there_and_every_comment_stays(home: Path, config: Path) -> None:
    assert add_source(str(config), str(home / "b"), recursive=False, ignore=("*.log",)) == str(home / "b")
    settings = load_settings(str(config))
    assert paths(config) == ["a", "b"]
    assert (settings.sources[1].recursive, settings.sources[1].ignore) == (False, ("*.log",))
    assert (settings.workers, settings.chunks.min_tokens, settings.sources[0].ignore) == (2, 10, ("*.tmp",))
    text = config.read_text()
    for comment in ("# everything of mine", "# two are enough", "# the notes", "# kept", "# small", "# at the end"):
        assert text.count(comment) == 1


def test_what_is_added_and_removed_again_leaves_the_file_as_it_was(home: Path, config: Path) -> None:
    before = config.read_text()
    add_source(str(config), str(home / "b"))
    assert remove_source(str(config), str(home / "b")) == str(home / "b")
    assert config.read_text() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "workers = 3\n",
        "sources = []\n",
        "[chunks]\nmin_tokens = 3\n",
        "chunks.min_tokens = 3",
        "[[sources]]\npath = '{home}/a'\n[chunks]\nmin_tokens = 3\n[[sources]]\npath = '{home}/c'\n",
    ],
)
def test_any_form_of_the_file_can_be_edited(home: Path, config: Path, text: str) -> None:
    config.write_text(text.format(home=home))
    before = load_settings(str(config))
    add_source(str(config), str(home / "b"))
    after = load_settings(str(config))
    assert after.sources[: len(before.sources)] == before.sources
    assert paths(config)[-1] == "b"
    assert after.model_copy(update={"sources": ()}) == before.model_copy(update={"sources": ()})
    for source in after.sources:
        remove_source(str(config), source.path)
    assert load_settings(str(config)).sources == ()
    add_source(str(config), str(home / "c"))
    assert paths(config) == ["c"]


def test_the_first_folder_makes_the_file_and_its_folder(home: Path) -> None:
    config = home / "new" / "kb" / "config.toml"
    add_source(str(config), str(home / "a"))
    assert paths(config) == ["a"]
    for made in (config, config.parent, config.parent.parent):
        assert made.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("a", "already"),
        ("a/../a", "already"),
        ("absent", "not a folder"),
        ("config.toml", "not a folder"),
        ("", "inside"),
    ],
)
def test_a_folder_that_cannot_be_a_source_is_refused_and_nothing_changes(
    home: Path, config: Path, folder: str, message: str
) -> None:
    before = config.read_text()
    with pytest.raises(UsageError, match=message) as caught:
        add_source(str(config), str(home / folder))
    assert ".config-" not in caught.value.message
    assert config.read_text() == before
    assert sorted(os.listdir(home)) == ["a", "b", "c", "config.toml"]


def test_a_folder_inside_a_source_is_refused(home: Path, config: Path) -> None:
    (home / "a" / "inner").mkdir()
    with pytest.raises(UsageError) as caught:
        add_source(str(config), str(home / "a" / "inner"))
    assert str(caught.value) == f"{home}/a/inner lies inside the source {home}/a, which covers it already."


def test_a_folder_inside_a_source_that_takes_no_folders_is_refused_with_a_way_out(home: Path, config: Path) -> None:
    config.write_text(f"[[sources]]\npath = '{home}/a'\nrecursive = false\n")
    (home / "a" / "inner").mkdir()
    with pytest.raises(UsageError, match="recursive = true"):
        add_source(str(config), str(home / "a" / "inner"))


def test_a_folder_around_a_source_is_refused_with_a_way_out(home: Path, config: Path) -> None:
    with pytest.raises(UsageError, match=f"The source {home}/a lies inside {home}. First `kbsync sources remove"):
        add_source(str(config), str(home))


def test_sources_of_a_variable_are_not_edited_in_the_file(
    home: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config.read_text()
    monkeypatch.setenv("KBSYNC_SOURCES", "[]")
    for edit, folder in ((add_source, "b"), (remove_source, "a")):
        with pytest.raises(UsageError, match="KBSYNC_SOURCES"):
            edit(str(config), str(home / folder))
    assert config.read_text() == before


def test_a_name_that_toml_cannot_hold_is_refused(home: Path, config: Path) -> None:
    before = config.read_text()
    raw = os.fsencode(home) + b"/caf\xe9"
    os.mkdir(raw)
    with pytest.raises(UsageError, match="UTF-8"):
        add_source(str(config), os.fsdecode(raw))
    assert config.read_text() == before


def test_a_name_with_every_odd_character_comes_back(home: Path, config: Path) -> None:
    odd = home / "a \"b\" 'c' \\ \t\n 文"
    odd.mkdir()
    add_source(str(config), str(odd))
    assert load_settings(str(config)).sources[-1].path == str(odd)


def test_what_is_not_listed_cannot_be_removed(home: Path, config: Path) -> None:
    with pytest.raises(NotFound):
        remove_source(str(config), str(home / "b"))


def test_a_folder_that_is_no_longer_there_can_be_removed(home: Path, config: Path) -> None:
    (home / "a").rmdir()
    remove_source(str(config), str(home / "a"))
    assert paths(config) == []


@pytest.mark.parametrize("text", ["workers = 0\n", "workers = \n", "sources = [{path = '/a'}]\n"])
def test_a_file_that_cannot_be_edited_is_left_alone(home: Path, config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(ConfigurationError):
        add_source(str(config), str(home / "b"))
    assert config.read_text() == text


def test_a_link_to_the_file_stays_a_link(home: Path, config: Path) -> None:
    (home / "elsewhere").mkdir()
    target = home / "elsewhere" / "kb.toml"
    config.rename(target)
    config.symlink_to("elsewhere/kb.toml")
    add_source(str(config), str(home / "b"))
    assert config.is_symlink()
    assert tomllib.loads(target.read_text())["sources"][1]["path"] == str(home / "b")
    assert os.listdir(home / "elsewhere") == ["kb.toml"]


FULL_DISK = """
import os, resource, sys
from kbsync.config import file
from kbsync.config.file import add_source
from kbsync.errors import ConfigurationError
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    add_source(sys.argv[1], sys.argv[2])
except ConfigurationError as error:
    print("refused")
"""


def test_a_full_disk_leaves_the_old_file(home: Path, config: Path) -> None:
    before = config.read_text()
    command = [sys.executable, "-c", FULL_DISK, str(config), str(home / "b")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
    assert config.read_text() == before
    assert sorted(os.listdir(home)) == ["a", "b", "c", "config.toml"]


def test_settings_are_shown_as_toml_that_reads_back() -> None:
    settings = Settings(workers=3)
    assert Settings(**tomllib.loads(as_toml(settings.model_dump(mode="json")))) == settings


@pytest.mark.parametrize(
    "text", ["", "workers = 2\n", "[[sources]]\npath = '/a'\n", "[[sources]]\npath = '/a'\n\n[http]\nport = 0\n"]
)
def test_a_folder_stands_apart_from_what_is_above_and_below_it(home: Path, config: Path, text: str) -> None:
    config.write_text(text)
    add_source(str(config), str(home / "b"), ignore=("*.tmp",))
    lines = config.read_text().splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("[") and number]
    assert [lines[number - 1] for number in heads] == [""] * len(heads)
    assert "\n\n\n" not in config.read_text()


def test_an_edit_outlives_a_loss_of_power(config: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(file, "sync_names", lambda folder: seen.append((folder, paths(config))))
    add_source(str(config), str(home / "b"))
    assert seen == [(str(home), ["a", "b"])], "the folder's new entry is on the disk before the edit is acknowledged"


def test_a_full_disk_changes_nothing_and_is_told_as_such(
    home: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D15: whatever step of the writing finds no room."""
    before = config.read_bytes()

    def full(*_arguments: object, **_options: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, step in ((tempfile, "mkstemp"), (os, "fsync")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, full)
            with pytest.raises(StorageUnavailable, match=r"is full\. Free some space"):
                add_source(str(config), str(home / "b"))
        assert config.read_bytes() == before
        assert sorted(path.name for path in home.iterdir()) == ["a", "b", "c", "config.toml"]
