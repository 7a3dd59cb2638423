"""`kbsync check [--repair]` beside a running daemon and without one: what was found and where, what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from kbsync.compose import build_daemon, open_engine
from kbsync.config.locations import Locations, locate
from kbsync.config.settings import load_settings
from kbsync.interfaces.cli.app import app
from kbsync.interfaces.notices import of_check, of_unread
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base.damage import Problem
from kbsync.knowledge_base.rebuilt import Unread
from kbsync.model import IngestOptions
from tests.fakes.eventually import eventually
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams
from tests.faults.damaged_library import behind_its_back
from tests.interfaces.conftest import Service


def damage(service: Service, statement: str) -> None:
    with behind_its_back(service.engine.locations.database) as connection:
        connection.execute(statement)


def test_check_names_and_repair_mends_while_the_daemon_runs(service: Service) -> None:
    service.write("orchard.md", "# Orchard\n\nApples and pears.")
    assert service.command("check").output == "All is whole.\n"
    damage(service, "DELETE FROM names_fts; DELETE FROM vectors_1")
    found = service.command("check")
    assert found.exit_code == 1
    assert found.output.splitlines()[-1] == "`kbsync check --repair` makes whole what can be."
    assert "names: File names and their index are out of step" in found.output
    assert "by name. Here: origin " in found.output
    status = service.ask("GET", "status").json()
    assert status["last_check"]["ok"] is False
    assert {problem["kind"] for problem in status["last_check"]["problems"]} == {"names", "vectors_missing"}
    assert sum("`kbsync check --repair`" in notice for notice in status["notices"]) == 2
    mended = service.command("check", "--repair", "--json")
    assert mended.exit_code == 0
    answer = json.loads(mended.output)
    assert answer["ok"]
    assert [(problem["kind"], problem["repaired"]) for problem in answer["problems"]] == [
        ("names", True),
        ("vectors_missing", True),
    ]
    assert {"kind", "detail", "count", "repaired"} <= answer["problems"][0].keys()
    eventually(lambda: service.engine.reindexing.status().state == "idle")
    assert service.command("check", "--repair").output == "All is whole.\n"
    assert service.ask("GET", "status").json()["last_check"]["ok"] is True


def test_what_cannot_be_repaired_ends_with_1_and_what_to_do(service: Service) -> None:
    job = service.ask("POST", "notes", {"text": "Only here", "title": "Kept"}).json()["job_id"]
    eventually(lambda: service.engine.kb.jobs_by_id([job])[0].state == "done")
    number = service.engine.kb.jobs_by_id([job])[0].document_id
    damage(
        service,
        f"DELETE FROM vectors_1 WHERE chunk_id IN (SELECT id FROM chunks WHERE document_id = {number}); "
        f"DELETE FROM chunks WHERE document_id = {number}",
    )
    told = service.command("check", "--repair")
    assert told.exit_code == 1
    assert "`kbsync documents remove` takes it out" in told.output
    assert told.output.splitlines()[-1] == "Not all could be repaired."
    assert service.command("documents", "remove", str(number), "--yes").exit_code == 0
    assert service.command("check").output == "All is whole.\n"


def test_without_a_daemon_the_command_does_it_itself(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    folder.mkdir()
    home.mkdir()
    (home / "config.toml").write_text(f'[[sources]]\npath = "{folder}"\n')
    places = locate({"KBSYNC_HOME": str(home)})
    device = HashDevice()
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(device))
    try:
        operations = Operations(engine, None)
        engine.kb.adding.add_note("Something to remember", None)
        worker = engine.worker(lambda _source: None, "text", 4)  # type: ignore[arg-type]  # Priority.LOW
        assert worker.step()
        with behind_its_back(places.database) as connection:
            connection.execute("DELETE FROM vectors_1")
        assert operations.check()["ok"] is False
        device.batches.clear()
        assert operations.check(repair=True)["ok"] is True
        assert len(device.batches) == 1, "it embeds what is missing itself"
        again = operations.check()
        assert again["ok"]
        assert again["problems"] == []
    finally:
        engine.close()


def _indexed(places: Locations, device: HashDevice) -> None:
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(device))
    try:
        daemon = build_daemon(engine)
        try:
            daemon.start()
            ticket = daemon.rescan()
            eventually(lambda: daemon.settled(ticket))
        finally:
            daemon.stop()
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("spoilt", "kind"),
    [
        ("DROP TRIGGER chunks_fts_insert", "schema"),
        ("DELETE FROM chunks_fts_config", "fts"),
        ("UPDATE names_fts_docsize SET sz = x''", "fts"),
        ("DROP INDEX vectors_1_text", "vector_tables"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_mended_while_the_database_was_opened_is_a_part_of_the_answer(
    *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str, kind: str, as_json: bool
) -> None:
    """D06 and D07: a check without a daemon, and without --repair, mends what it opens, and never hides it."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    folder.mkdir()
    home.mkdir()
    (home / "config.toml").write_text(f'[[sources]]\npath = "{folder}"\n')
    monkeypatch.setenv("KBSYNC_HOME", str(home))
    device, places = HashDevice(), locate({"KBSYNC_HOME": str(home)})
    monkeypatch.setattr("kbsync.compose.engine.real_seams", lambda *_: hashed_seams(device))
    (folder / "orchard.md").write_text("# Orchard")
    _indexed(places, device)
    with behind_its_back(places.database) as connection:
        connection.execute(spoilt)
    (home / "config.toml").write_text(
        "workers = 1\n"
    )  # the start takes the source out, which writes to the index of names
    arguments = ["check", "--json"] if as_json else ["check"]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0
    if as_json:
        (problem,) = json.loads(told.output)["problems"]
        assert (problem["kind"], problem["repaired"]) == (kind, True)
    else:
        assert told.output.startswith(f"{kind}: ")
        assert "Repaired. It was mended when the database was opened." in told.output
        assert told.output.endswith("All is whole again.\n")
    assert CliRunner().invoke(app, ["check"]).output == "All is whole.\n"


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem("fts", "Out of step.", 1, "chunks_fts"), "`kbsync check --repair`"),
        (
            Problem("stored_gone", "Gone.", 2, "document 3", hint="Add it again."),
            "Gone. 2 times, first: document 3. Add it again.",
        ),
        (
            Problem("fts", "Out of step.", 1, "x", repaired=True, done="Made anew."),
            "Repaired by the last check: Out of step.",
        ),
    ],
)
def test_what_the_last_check_found_is_told_in_a_sentence(problem: Problem, words: str) -> None:
    (told,) = of_check([problem])
    assert words in told


@pytest.mark.parametrize(
    ("unread", "running", "words"),
    [
        (Unread(0, 0, 0, 0, is_anew=True), False, None),
        (
            Unread(1, 0, 0, 3, is_anew=False),
            True,
            "1 file is still to be read, 3 chunks are still to be embedded; the daemon does it.",
        ),
        (Unread(1, 0, 0, 0, is_anew=False), True, "1 file is still to be read; the daemon does it."),
        (Unread(2, 1, 0, 0, is_anew=False), False, "2 files and 1 note are still to be read: `kbsync run` does it."),
        (
            Unread(0, 1, 2, 0, is_anew=True),
            False,
            "The index is being built anew: 1 note is still to be read. Your folders are read again when `kbsync run` "
            "runs.",
        ),
        (
            Unread(0, 0, 1, 0, is_anew=True),
            False,
            "The index is being built anew. Your folders are read again when `kbsync run` runs.",
        ),
        (
            Unread(0, 0, 1, 0, is_anew=True),
            True,
            "The index is being built anew. 1 folder is still to be looked through.",
        ),
    ],
)
def test_what_is_still_to_be_read_is_told_with_by_whom(unread: Unread, *, running: bool, words: str | None) -> None:
    assert of_unread(unread, running=running) == ([] if words is None else [words])


def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str) -> Locations:
    """Return a data folder whose commands use a model that hashes."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(config)
    monkeypatch.setenv("KBSYNC_HOME", str(home))
    device = HashDevice()
    monkeypatch.setattr("kbsync.compose.engine.real_seams", lambda *_: hashed_seams(device))
    return locate({"KBSYNC_HOME": str(home)})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locations]:
    """A data folder with a note, an added file and a followed one, all indexed; no daemon runs."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "orchard.md").write_text("# Orchard\n\nApples.")
    (tmp_path / "letter.md").write_text("# A letter\n\nOnly here.")
    places = _home(tmp_path, monkeypatch, f'[[sources]]\npath = "{folder}"\n')
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(HashDevice()))
    try:
        engine.kb.adding.add_note("Something to remember", None)
        engine.kb.adding.add_file(str(tmp_path / "letter.md"), IngestOptions())
    finally:
        engine.close()
    _indexed(places, HashDevice())
    yield places
    structlog.reset_defaults()


def test_after_a_rebuild_it_is_said_what_is_still_to_be_read_and_by_whom(places: Locations) -> None:
    """D02: an index that is empty yet is not called whole, and a search in it says so."""
    database = Path(places.database)
    database.write_bytes(b"\0" * 100 + database.read_bytes()[100:])
    left = "1 file and 1 note are still to be read. Your folders are read again when `kbsync run` runs."
    told = CliRunner().invoke(app, ["check", "--repair"])
    assert told.exit_code == 0, told.output
    assert left in told.output
    assert "All is whole" not in told.output
    searched = CliRunner().invoke(app, ["search", "apples"])
    assert searched.exit_code == 3
    assert f"The index is being built anew: {left}" in searched.output
    assert left in CliRunner().invoke(app, ["status"]).output
    assert left in CliRunner().invoke(app, ["check"]).output
    _indexed(places, HashDevice())
    assert CliRunner().invoke(app, ["check"]).output.endswith("All is whole.\n")
    assert "built anew:" not in CliRunner().invoke(app, ["search", "apples"]).output


def test_a_repair_that_leaves_files_to_be_read_does_not_call_all_whole(places: Locations) -> None:
    """D06: what only the daemon can finish is said to be unfinished."""
    with behind_its_back(places.database) as connection:
        number = connection.execute("SELECT id FROM documents WHERE title = 'Orchard'").get
        connection.execute(
            f"DELETE FROM vectors_1 WHERE chunk_id IN (SELECT id FROM chunks WHERE document_id = {number}); "
            f"DELETE FROM chunks WHERE document_id = {number}"
        )
    told = CliRunner().invoke(app, ["check", "--repair"])
    assert told.exit_code == 0, told.output
    assert "! 1 file is still to be read: `kbsync run` does it." in told.output
    assert "All is whole" not in told.output


def test_a_search_says_that_the_last_check_found_the_full_text_damaged(places: Locations) -> None:
    """D07: nothing found in a damaged index is told apart from nothing there."""
    with behind_its_back(places.database) as connection:
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')")
    assert CliRunner().invoke(app, ["check"]).exit_code == 1
    searched = CliRunner().invoke(app, ["search", "apples"])
    assert searched.exit_code == 3
    assert "The full-text index is damaged: words may not be found. `kbsync check --repair` mends it" in searched.output
    assert CliRunner().invoke(app, ["check", "--repair"]).exit_code == 0
    searched = CliRunner().invoke(app, ["search", "apples"])
    assert searched.exit_code == 0
    assert "damaged" not in searched.output


def test_nothing_to_be_read_of_the_damaged_file_is_said_with_what_is_lost(places: Locations) -> None:
    """D02: the only remedy then is a backup."""
    Path(places.database).write_bytes(b"")
    for ending in ("-wal", "-shm"):
        Path(places.database + ending).unlink(missing_ok=True)
    told = CliRunner().invoke(app, ["check", "--repair"])
    assert "nothing could be read from it: notes, titles set by hand and removals are lost with it" in told.output
    assert "1 stored file that lay beside it is kept" in told.output
    assert "`kbsync restore` brings it back" in told.output
    assert "kept 0 notes" not in told.output


def test_the_answer_is_json_where_the_database_cannot_be_opened(places: Locations) -> None:
    Path(places.database).write_text("a shopping list")
    told = CliRunner().invoke(app, ["check", "--json"])
    assert told.exit_code == 1
    answer = json.loads(told.stdout)
    assert answer["ok"] is False
    (problem,) = answer["problems"]
    assert (problem["kind"], problem["repaired"]) == ("corrupt", False)
    assert "kbsync check --repair" in problem["hint"]
    assert "is damaged" in CliRunner().invoke(app, ["check"]).stderr


def test_where_a_damaged_copy_lies_and_what_to_do_is_told_all_the_time(places: Locations, tmp_path: Path) -> None:
    """D16: every check and the status go on giving the advice that the repair gave, and export does not mislead."""
    (copy,) = (path for path in Path(places.data_dir, "documents").iterdir() if path.is_file())
    (tmp_path / "letter.md").unlink()
    copy.write_bytes(b"something else")
    export = ["documents", "export", str(tmp_path / "letter.md"), "--to", str(tmp_path)]
    assert f"kbsync's copy of it, {copy}, is damaged." in CliRunner().invoke(app, export).output
    aside = copy.parent / "damaged"
    for arguments in (["check", "--repair"], ["check"], ["status"], ["check"]):
        told = CliRunner().invoke(app, arguments).output
        assert "Add the file once more" in told, arguments
        assert f"What is left of them lies in {aside}." in told, arguments
        assert "makes whole what can be" not in told, arguments
    assert f"is damaged: what is left of it is {aside / copy.name}." in CliRunner().invoke(app, export).output
    (aside / copy.name).unlink()
    assert f"kbsync's copy of it, {copy}, is gone." in CliRunner().invoke(app, export).output


def test_what_a_check_prints_has_no_brackets_and_the_right_numbers(places: Locations) -> None:
    (copy,) = (path for path in Path(places.data_dir, "documents").iterdir() if path.is_file())
    copy.unlink()
    with behind_its_back(places.database) as connection:
        connection.execute("DELETE FROM vectors_1")
    told = CliRunner().invoke(app, ["check"]).output
    assert re.search(rf"their text is still found\. Here: document \d, {re.escape(str(copy))}\.", told)
    assert "3 times, first: chunk 1." in told
    assert "(" not in told
    told = CliRunner().invoke(app, ["check", "--repair"]).output
    assert "1 was taken anew from a file with the same bytes." in told
    assert "3 are embedded anew" in told
