"""`kbsync check [--repair]` beside a running daemon and without one: what was found and where, what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbsync.compose import open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.interfaces.notices import of_check
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base.damage import Problem
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
    assert "first: origin" in found.output
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


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem("fts", "Out of step.", 1, "chunks_fts"), "`kbsync check --repair`"),
        (
            Problem("stored_gone", "Gone.", 2, "document 3", hint="Add it again."),
            "Gone. (2, first: document 3) Add it again.",
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
