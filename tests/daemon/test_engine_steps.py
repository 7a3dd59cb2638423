"""One file's life, turn by turn: the engine on a disk in memory and a clock that is told, with a real database."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PATH = f"{NOTES}/orchard.md"
OTHER = f"{NOTES}/other.md"
INDEXED = (FileState.INDEXED, None)


def test_a_dropped_file_is_found_by_its_words_and_by_meaning(engine: SimulatedEngine) -> None:
    engine.write(PATH, "# Orchard\n\nThe quince ripens late.")
    engine.settle()
    assert engine.found("quince") == [PATH]
    assert [hit.path for hit in engine.kb.search("quince ripens", "vector").hits] == [PATH]
    assert engine.state(PATH) == INDEXED
    assert engine.documents() == [(1, "Orchard", "current")]


def test_a_dropped_file_is_found_within_two_seconds_and_not_before_it_is_quiet(engine: SimulatedEngine) -> None:
    engine.write(PATH, "The quince ripens late.")
    engine.turn()
    assert engine.found("quince") == []
    engine.clock.advance(0.31)
    engine.turn()
    assert engine.found("quince") == [PATH]


def test_a_changed_file_is_found_by_its_new_words_and_its_old_document_is_superseded_and_kept(
    engine: SimulatedEngine,
) -> None:
    engine.write(PATH, "The quince ripens late.")
    engine.settle()
    engine.write(PATH, "The medlar ripens later.")
    engine.settle()
    assert engine.found("medlar") == [PATH]
    assert engine.found("quince") == []
    assert [state for _, _, state in engine.documents()] == ["superseded", "current"]
    assert "quince" in engine.kb.document(1)[2][0].text
    assert engine.kb.check() == []


def test_a_file_changed_back_makes_its_first_document_current_again_with_nothing_embedded(
    engine: SimulatedEngine,
) -> None:
    for text in ("quince", "medlar"):
        engine.write(PATH, text)
        engine.settle()
    embedded = len(engine.embedded())
    engine.write(PATH, "quince")
    engine.settle()
    assert [state for _, _, state in engine.documents()] == ["current", "superseded"]
    assert engine.found("quince") == [PATH]
    assert len(engine.embedded()) == embedded


def test_a_deleted_file_is_hidden_and_its_document_is_kept_as_missing(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.write(OTHER, "medlar")
    engine.settle()
    engine.remove(PATH)
    engine.settle()
    assert engine.found("quince") == []
    assert [hit.path for hit in engine.kb.search("quince", "vector").hits] == [OTHER]
    assert [title for _, title, _ in engine.documents("missing")] == ["orchard"]
    assert engine.state(PATH)[0] is FileState.GONE
    assert engine.kb.check() == []


@pytest.mark.parametrize("told", [True, False], ids=["events", "rescans only"])
def test_a_file_that_reappears_is_current_again_with_nothing_embedded(engine: SimulatedEngine, told: bool) -> None:
    engine.write(PATH, "quince")
    engine.write(OTHER, "medlar")
    engine.settle()
    documents, embedded = engine.documents(), len(engine.embedded())
    if told:
        engine.remove(PATH)
        engine.settle()
        engine.write(PATH, "quince")
        engine.settle()
    else:
        engine.fs.remove(PATH)
        engine.rescan()
        assert engine.found("quince") == []
        engine.fs.write(PATH, b"quince")
        engine.rescan()
    assert engine.found("quince") == [PATH]
    assert engine.documents() == documents
    assert len(engine.embedded()) == embedded


def test_what_was_dropped_before_the_start_is_found_without_any_event(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    world.fs.write(f"{NOTES}/deep/er/quince.txt", b"The quince ripens late.")
    world.clock.advance(10)
    engine = started()
    engine.settle()
    assert engine.found("ripens") == [f"{NOTES}/deep/er/quince.txt"]


def test_two_equal_files_are_one_document_and_deleting_one_keeps_it(engine: SimulatedEngine) -> None:
    engine.write(PATH, "# Trees\n\nquince")
    engine.settle()
    embedded = len(engine.embedded())
    engine.write(OTHER, "# Trees\n\nquince")
    engine.settle()
    hit = engine.kb.search("quince").hits[0]
    assert (hit.path, hit.paths) == (PATH, (PATH, OTHER))
    assert engine.documents() == [(1, "Trees", "current")]
    assert len(engine.embedded()) == embedded
    for gone, left in ((PATH, [OTHER]), (OTHER, [])):
        engine.remove(gone)
        engine.write(f"{NOTES}/company.md", "so that the folder is never empty")
        engine.settle()
        assert engine.found("quince") == left


def test_a_title_from_the_file_name_follows_a_rename(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/quince.txt", "It ripens late.")
    engine.settle()
    engine.rename(f"{NOTES}/quince.txt", f"{NOTES}/medlar.txt")
    engine.settle()
    assert engine.documents() == [(1, "medlar", "current")]
    assert engine.found("medlar") == [f"{NOTES}/medlar.txt"]
    assert engine.found("quince") == []
    assert engine.kb.check() == []


def test_a_title_from_the_content_survives_a_rename_with_nothing_embedded(engine: SimulatedEngine) -> None:
    engine.write(PATH, "# Trees\n\nIt ripens late.")
    engine.settle()
    embedded = len(engine.embedded())
    engine.rename(PATH, f"{NOTES}/deep/moved.md")
    engine.settle()
    assert engine.documents() == [(1, "Trees", "current")]
    assert engine.found("ripens") == [f"{NOTES}/deep/moved.md"]
    assert engine.found("orchard") == []
    assert len(engine.embedded()) == embedded


def test_a_touch_alone_converts_and_embeds_nothing(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    before = engine.kb.document(1)[0]
    engine.clock.advance(100)
    engine.fs.set_mtime(PATH, engine.clock.now())
    engine.report(PATH, closed=True)
    engine.settle()
    assert engine.kb.document(1)[0] == before
    assert len(engine.embedded()) == 1
    assert engine.read("SELECT mtime_ns FROM files") == [(engine.fs.lstat(PATH).mtime_ns,)]


def test_a_second_start_with_nothing_changed_embeds_nothing_and_writes_nothing(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    engine = started()
    world.fs.write(PATH, b"quince")
    world.fs.write(f"{NOTES}/picture.xyz", b"?")
    world.fs.write(f"{NOTES}/broken.md", b"\x00\x01\x02" * 500)
    engine.settle()
    engine.rescan()
    before, embedded = engine.dump(), len(world.device.batches)
    world.clock.advance(1000)
    engine = started()
    engine.settle()
    assert engine.dump() == before
    assert len(world.device.batches) == embedded


def test_a_rescan_with_nothing_changed_does_not_touch_the_database(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.write(f"{NOTES}/picture.xyz", "?")
    engine.settle()
    engine.rescan()

    def version() -> list[tuple[object, ...]]:
        return engine.read("PRAGMA data_version")

    before = version()
    engine.rescan()
    assert version() == before
    engine.write(PATH, "medlar")
    engine.settle()
    assert version() != before


def _long(sections: int, changed: int | None = None) -> str:
    parts = ["# Orchard"]
    for number in range(sections):
        word = "changed" if number == changed else "tree"
        parts.append(f"## Section {number}\n\n" + " ".join(f"{word}{number}x{at}" for at in range(60)))
    return "\n\n".join(parts)


def test_a_changed_section_of_a_long_file_embeds_only_what_changed(engine: SimulatedEngine) -> None:
    engine.write(PATH, _long(12))
    engine.settle()
    first = len(engine.embedded())
    assert first >= 12
    engine.write(PATH, _long(12, changed=7))
    engine.settle()
    again = engine.embedded()[first:]
    assert len(again) == 1
    assert "changed7x0" in again[0]
    assert engine.found("changed7x3") == [PATH]
    assert engine.found("tree7x3") == []
    assert engine.found("tree8x3") == [PATH]


def test_every_path_seen_is_accounted_for(engine: SimulatedEngine) -> None:
    fs = engine.fs
    fs.write(PATH, b"quince")
    fs.write(f"{NOTES}/empty.md", b"")
    fs.write(f"{NOTES}/picture.xyz", b"?")
    fs.write(f"{NOTES}/binary.md", b"\x00\x01\x02" * 500)
    fs.write(f"{NOTES}/id_rsa", b"secret")
    fs.write(f"{NOTES}/.hidden.md", b"hidden")
    fs.write(f"{NOTES}/node_modules/a.md", b"noise")
    fs.symlink(f"{NOTES}/link.md", PATH)
    fs.fifo(f"{NOTES}/pipe.md")
    fs.write(f"{NOTES}/denied.md", b"denied")
    fs.fail(f"{NOTES}/denied.md", PermissionError(13, "denied"))
    engine.rescan()
    assert {path.decode()[len(NOTES) + 1 :]: (state, why) for path, state, why, _ in engine.index()["files"]} == {
        "orchard.md": ("indexed", None),
        "empty.md": ("skipped", Reason.EMPTY),
        "picture.xyz": ("skipped", Reason.UNSUPPORTED),
        "binary.md": ("skipped", Reason.BINARY),
        "id_rsa": ("skipped", Reason.SECRET),
        ".hidden.md": ("skipped", Reason.IGNORED),
        "node_modules": ("skipped", Reason.IGNORED),
        "link.md": ("skipped", Reason.SYMLINK),
        "pipe.md": ("skipped", Reason.SPECIAL),
        "denied.md": ("failed", Reason.PERMISSION),
    }
    counts = engine.kb.statistics()["files"]
    assert counts == {
        "seen": 10,
        "states": {"indexed": 1, "skipped": 8, "failed": 1},
        "reasons": {
            "binary": 1,
            "empty": 1,
            "ignored": 2,
            "permission": 1,
            "secret": 1,
            "special": 1,
            "symlink": 1,
            "unsupported": 1,
        },
    }
