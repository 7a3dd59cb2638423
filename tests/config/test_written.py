"""The file to begin with explains every setting and, uncommented, is right."""

from __future__ import annotations

from pathlib import Path

from kbsync.config import followed
from kbsync.config.sections import ResourceSettings
from kbsync.config.settings import Settings, load_settings
from kbsync.config.written import as_toml, template


def test_template_as_it_stands_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(template())
    assert load_settings(str(tmp_path / "config.toml")) == Settings()


def test_template_uncommented_is_valid_and_says_the_defaults(tmp_path: Path) -> None:
    introduction, _, settings = template().partition("\n\n")
    assert introduction.startswith("# ")
    (tmp_path / "config.toml").write_text("\n".join(line.removeprefix("# ") for line in settings.splitlines()))
    loaded = load_settings(str(tmp_path / "config.toml"))
    assert len(loaded.sources) == 1
    assert loaded.chunks.max_tokens == 256
    chunks = loaded.chunks.model_copy(update={"max_tokens": None})
    models = loaded.models.model_copy(update={"reranker": None})
    resources = loaded.resources.model_copy(update={"threads": None, "memory_mb": None})
    projects = loaded.projects.model_copy(update={"endpoint": None, "model": None, "key_file": None})
    sections = {"chunks": chunks, "models": models, "resources": resources, "projects": projects}
    assert loaded.model_copy(update={"sources": (), **sections}) == Settings()


def test_settings_written_as_toml_are_read_back_the_same(tmp_path: Path) -> None:
    settings = Settings(workers=2, sources=({"path": str(tmp_path), "ignore": ("*.tmp", "a b/")},))  # type: ignore[arg-type]
    (tmp_path / "config.toml").write_text(as_toml(settings.model_dump(mode="json")))
    assert load_settings(str(tmp_path / "config.toml")) == settings


def test_settings_that_are_not_set_are_shown_as_comments() -> None:
    text = as_toml(Settings(sources=({"path": "/a"}, {"path": "/b"})).model_dump(mode="json"))  # type: ignore[arg-type]
    assert text.count("# password_file is not set\n") == 2
    assert text.index("[chunks]") < text.index("# max_tokens is not set\n") < text.index("[ocr]")


def test_a_whole_number_is_shown_as_it_was_written() -> None:
    assert "keep_versions_days = 30\n" in as_toml(Settings(keep_versions_days=30).model_dump(mode="json"))
    assert "keep_versions_days = 0.5\n" in as_toml(Settings(keep_versions_days=0.5).model_dump(mode="json"))
    assert '"forever"' in template()


def test_the_head_of_the_template_names_what_a_running_daemon_follows() -> None:
    head = template().partition("\n\n")[0].replace("\n# ", " ")
    at_once, _, rest = head.partition("at once")
    assert all(name in at_once for name in (*followed._AT_ONCE, *followed._IN_PART))
    assert "next start" in rest
    in_part = {name for section, known in followed._IN_PART.items() for name in known}
    held = set(ResourceSettings.model_fields) - in_part
    assert held == {"threads", "memory_mb"}
    assert all(name in at_once for name in held)
