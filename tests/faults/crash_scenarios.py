"""What a person does on a day while the road is broken off: deeds, each of which may be done twice without harm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from kbsync.errors import NotFound, UsageError
from kbsync.model import IngestOptions
from tests.faults.crash_stage import Stage

Deed = Callable[[Stage], None]
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """`prepare` is done once for all plays, undisturbed; it leaves kbsync's home, which each play gets anew.

    Deeds after a `prepare` change nothing in the person's folders. `removes`: documents that were told of may go.
    `embedded_again`: how many texts may be embedded twice, since what was being done with them was lost: a document's.
    `mends`: something is to be repaired, and is told of.
    """

    name: str
    deeds: tuple[Deed, ...]
    prepare: Deed | None = None
    removes: bool = False
    embedded_again: int = 3
    mends: bool = False


# ---- files ----


def files_come(stage: Stage) -> None:
    stage.write("notes/plum.md", "# Plum\n\nThe plum tree needs pruning.\n\n## Blossom\n\nIn April.\n")
    stage.write("notes/quince.txt", "A quince is hard until it is cooked.\n")
    stage.write("notes/code/sort.py", "def sort(values):\n    return sorted(values)\n")
    stage.write("archive/yield.csv", "tree,kilos\nplum,12\nquince,7\n")
    stage.write("notes/twin.md", "# Twin\n\nThe same bytes lie in two folders.\n")
    stage.write("archive/twin.md", "# Twin\n\nThe same bytes lie in two folders.\n")
    stage.write("notes/.env", "TOKEN=1\n")
    stage.write("notes/empty.md", "")
    stage.write("notes/broken.pdf", b"corrupt")


def files_change(stage: Stage) -> None:
    stage.write("notes/plum.md", "# Damson\n\nIt was a damson after all.\n")
    stage.write("notes/quince.txt", "\0\0\0 no text any more")
    stage.remove("archive/yield.csv")
    stage.remove("notes/twin.md")


def a_file_is_saved_again_while_it_waits(stage: Stage) -> None:
    for _ in range(2):
        stage.write("notes/pear.md", "# Pear\n\nIt is saved twice.\n")
        stage.engine.loops.producer.step()
        stage.clock.advance(2.0)
        stage.engine.loops.producer.step()


def files_are_read_again(stage: Stage) -> None:
    stage.clock.advance(4_000.0)


# ---- moves ----


def files_to_move(stage: Stage) -> None:
    for number in range(3):
        stage.write(f"notes/trip/day-{number}.md", f"Day {number} of the walk along the river.\n")
    stage.write("notes/untitled.txt", "Named by its file alone.\n")


def files_move(stage: Stage) -> None:
    stage.rename("notes/trip", "archive/trip")
    stage.rename("notes/untitled.txt", "notes/titled.txt")


def files_move_unseen(stage: Stage) -> None:
    stage.close()
    stage.rename("archive/trip/day-0.md", "notes/day-0.md")
    stage.open()


# ---- the inbox, and what a person brings and takes ----


def inbox_is_fed(stage: Stage) -> None:
    stage.write("inbox/letter.md", "# Letter\n\nDear gardener, the seeds are on their way.\n")


def things_are_brought(stage: Stage) -> None:
    stage.write("elsewhere/recipe.md", "# Recipe\n\nQuince jelly takes a day.\n")
    stage.acknowledge("job", stage.engine.kb.adding.add_file(str(stage.path("elsewhere/recipe.md")), IngestOptions()))
    stage.acknowledge("job", stage.engine.kb.adding.add_note("The jars are in the cellar.", "Jars"))


def a_copy_is_damaged_and_comes_again(stage: Stage) -> None:
    for copy in (stage.data / "documents").iterdir():
        if b"Dear gardener" in copy.read_bytes():
            copy.unlink()
            copy.write_bytes(b"Dear gardener, and then the disk failed")
    inbox_is_fed(stage)


def things_are_taken(stage: Stage) -> None:
    kb = stage.engine.kb
    for document, _paths in kb.documents(limit=10)[0]:
        if document.title in ("Recipe", "Jars"):
            stage.acknowledge("removing", document.content_hash)
            with contextlib.suppress(NotFound):
                kb.remove_document(document.id)
            stage.acknowledge("removed", document.content_hash)


# ---- documents that are converted ----


def documents_come(stage: Stage) -> None:
    stage.write("notes/manual.pdf", b"%PDF-1.7 The manual of the press.\fPage two is about its screw.")
    stage.write("elsewhere/plan.pdf", b"%PDF-1.7 The plan of the orchard.")
    stage.acknowledge("job", stage.engine.kb.adding.add_file(str(stage.path("elsewhere/plan.pdf")), IngestOptions()))


def all_is_made_anew(stage: Stage) -> None:
    stage.engine.engine.reindexing.begin("all")


def other_rules_convert(stage: Stage) -> None:
    stage.configure(text='[ocr]\nlanguages = ["chinese"]\n')
    stage.restart()
    stage.engine.engine.reindexing.begin("stale")


# ---- folders ----


def many_files_come(stage: Stage) -> None:
    for number in range(24):
        stage.write(f"archive/many/{number}.txt", f"One of many: {number}.\n")


def many_files_go(stage: Stage) -> None:
    for number in range(24):
        stage.path(f"archive/many/{number}.txt").unlink(missing_ok=True)
    stage.engine.daemon.rescan()


def their_loss_is_confirmed(stage: Stage) -> None:
    with contextlib.suppress(UsageError):  # it was said before, and done
        stage.engine.engine.source_control.confirm(str(stage.path("archive")))


def a_folder_is_paused_and_resumed(stage: Stage) -> None:
    control = stage.engine.engine.source_control
    control.pause(str(stage.path("notes")))
    with contextlib.suppress(UsageError):
        control.resume(str(stage.path("notes")))


def a_folder_is_taken_out(stage: Stage) -> None:
    stage.configure("notes")
    stage.engine.daemon.reload()


def time_passes(stage: Stage) -> None:
    stage.clock.advance(40 * DAY_S)


def the_day_is_over(stage: Stage) -> None:
    upkeep = stage.engine.daemon.upkeep
    upkeep.ask()
    upkeep.step()


DAY = (
    Scenario("files", (files_come, files_change, a_file_is_saved_again_while_it_waits, files_are_read_again)),
    Scenario("moves", (files_to_move, files_move, files_move_unseen)),
    Scenario("by hand", (inbox_is_fed, things_are_brought, a_copy_is_damaged_and_comes_again, things_are_taken)),
    Scenario("documents", (documents_come, all_is_made_anew, other_rules_convert)),
    Scenario(
        "folders",
        (
            many_files_come,
            many_files_go,
            their_loss_is_confirmed,
            a_folder_is_paused_and_resumed,
            a_folder_is_taken_out,
            time_passes,
            the_day_is_over,
        ),
        removes=True,
    ),
)
