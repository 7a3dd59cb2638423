"""What a start does with the copies that it finds: no only copy of anything goes, whatever became of the database."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.fakes.simulated_engine import SimulatedEngine

PATH = "/simulated/elsewhere/letter.md"
LETTER = b"# Letter\n\nDear gardener, the quince ripens late."


def delete_the_database(engine: SimulatedEngine) -> None:
    """As a person does who wants to begin again."""
    for name in os.listdir(engine.world.locations.data_dir):
        if name.startswith("kb.sqlite3"):
            os.unlink(os.path.join(engine.world.locations.data_dir, name))


def kept(engine: SimulatedEngine) -> list[bytes]:
    folder = Path(engine.world.locations.documents_dir)
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]


def test_a_stored_copy_outlives_a_rebuild_that_did_not_settle_and_a_deleted_database(
    started: Callable[[], SimulatedEngine],
) -> None:
    """Its staged twin waited for a job of the database that was deleted; nobody else has the bytes any more."""
    engine = started()
    engine.fs.write(PATH, LETTER)
    engine.add(PATH)
    engine.fs.remove(PATH)
    engine.close()
    Path(engine.world.locations.database).write_bytes(b"garbage" * 1000)
    started().close()  # set aside, built anew, and ended before the copy was read again
    delete_the_database(engine)
    again = started()
    assert kept(again) == [LETTER]
    assert [problem.kind for problem in again.kb.check()] == ["stored_unclaimed"]
    again.kb.repair()
    again.settle()
    assert again.found("quince")
    assert again.kb.check() == []


def test_what_was_sent_and_waited_when_the_database_was_deleted_is_kept(started: Callable[[], SimulatedEngine]) -> None:
    engine = started()
    engine.kb.adding.add_note(LETTER.decode(), None)
    engine.close()
    delete_the_database(engine)
    again = started()
    assert kept(again) == [LETTER]
    again.kb.repair()
    again.settle()
    assert again.found("quince")
