"""The sources that the configuration names, and their rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings
from kbsync.errors import ConfigurationError
from kbsync.knowledge_base.configured import ConfiguredSources
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

ARCHIVE = "/simulated/archive"


@pytest.fixture
def sources(engine: SimulatedEngine) -> ConfiguredSources:
    return engine.engine.sources


def _settings(*folders: str, ignore: tuple[str, ...] = ()) -> Settings:
    return Settings(sources=tuple(SourceSettings(path=path, ignore=ignore) for path in folders))


def test_what_is_new_begins_what_is_gone_ends_and_what_is_the_same_is_left_alone(sources: ConfiguredSources) -> None:
    assert sources.follow(_settings(NOTES)) == ([], [])
    begun, ended = sources.follow(_settings(NOTES, ARCHIVE))
    assert ([source.path for source in begun], ended) == ([ARCHIVE], [])
    assert [source.path for source in sources.all()] == [ARCHIVE, NOTES]
    begun, ended = sources.follow(_settings(ARCHIVE))
    assert (begun, [source.path for source in ended]) == ([], [NOTES])
    assert [source.path for source in sources.all()] == [ARCHIVE]
    assert sources.by_id(ended[0].id) is None


def test_a_changed_source_ends_and_begins_with_the_same_number(sources: ConfiguredSources) -> None:
    (before,) = sources.all()
    begun, ended = sources.follow(_settings(NOTES, ignore=("*.bak",)))
    assert [source.id for source in begun] == [source.id for source in ended] == [before.id]
    after = sources.by_id(before.id)
    assert after is not None
    assert after.ignore == ("*.bak",)


def test_a_number_is_never_used_again(sources: ConfiguredSources) -> None:
    (before,) = sources.all()
    sources.follow(_settings())
    sources.follow(_settings(NOTES))
    assert sources.all()[0].id > before.id


def test_a_pattern_that_cannot_be_used_changes_nothing(sources: ConfiguredSources) -> None:
    before = sources.all()
    with pytest.raises(ConfigurationError, match="pattern"):
        sources.follow(_settings(ARCHIVE, ignore=("!",)))
    assert sources.all() == before


def test_a_source_that_left_the_configuration_while_nothing_ran_is_hidden_at_the_start(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    world.fs.write(f"{ARCHIVE}/quince.md", b"quince")
    world.configure(NOTES, ARCHIVE)
    engine = started()
    engine.settle()
    assert engine.found("quince") == [f"{ARCHIVE}/quince.md"]
    world.configure(NOTES)
    engine = started()
    assert engine.found("quince") == []
    assert [row.path for row in engine.kb.sources()[0]] == [NOTES]
    assert engine.kb.check() == []


def test_a_document_that_another_source_holds_too_stays_when_one_leaves(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{ARCHIVE}/quince.md", b"# Trees\n\nquince")
    engine.configure(NOTES, ARCHIVE)
    engine.write(f"{NOTES}/quince.md", "# Trees\n\nquince")
    engine.settle()
    engine.configure(NOTES)
    engine.settle()
    assert engine.found("quince") == [f"{NOTES}/quince.md"]


def test_title_and_type_follow_the_path_that_is_left_when_a_source_leaves(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{ARCHIVE}/a.txt", b"quince")
    engine.configure(NOTES, ARCHIVE)
    engine.write(f"{NOTES}/b.log", "quince")
    engine.settle()
    assert engine.documents() == [(1, "a", "current")]
    engine.configure(NOTES)
    engine.settle()
    assert engine.documents() == [(1, "b", "current")]
    assert engine.kb.document(1)[0].type == "text"
