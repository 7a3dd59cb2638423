"""An inbox through the real door: added by command, on a real disk, with real events."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.interfaces.cli import sources
from kbsync.interfaces.cli.app import app
from tests.fakes.eventually import eventually
from tests.interfaces.conftest import Service


def test_a_file_dropped_into_an_inbox_is_found_and_gone_from_the_folder(service: Service, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    added = service.command("sources", "add", str(inbox), "--inbox")
    assert added.exit_code == 0
    assert "It is an inbox" in added.stdout
    (source,) = [one for one in service.ask("GET", "sources").json()["sources"] if one["path"] == str(inbox)]
    assert source["mode"] == "inbox"
    dropped = inbox / "hornbeam.md"
    dropped.write_text("# Hornbeam\n\nThe hornbeam hedge stands in the wind.\n")
    eventually(lambda: not dropped.exists())
    (hit,) = service.ask("GET", "search?q=hornbeam%20hedge&mode=lexical").json()["hits"]
    assert hit["path"] == str(dropped)
    why = service.command("why", str(dropped), "--json")
    assert '"indexed"' in why.stdout
    assert list(inbox.iterdir()) == []
    removed = service.command("sources", "remove", str(inbox))
    assert "untouched" not in removed.stdout
    assert "What was taken in stays indexed and stored" in removed.stdout
    assert service.command("search", "hornbeam", "--in", str(inbox), "--mode", "lexical").exit_code == 0
    assert service.command("documents", "export", str(dropped), "--to", str(tmp_path)).exit_code == 0
    assert "What was taken in from it (1) stays searchable." in service.command("why", str(inbox)).stdout
    assert service.command("documents", "remove", str(dropped), "--yes").exit_code == 0
    told = service.command("why", str(dropped)).stdout
    assert "removed by you on" in told or "You removed that on" in told


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return a folder with something to read in it."""
    folder = tmp_path / "filled"
    folder.mkdir()
    (folder / "yew.md").write_text("# Yew\n\nAn old yew.\n")
    return folder


def _is_followed(service: Service, folder: Path) -> bool:
    return any(source["path"] == str(folder) for source in service.ask("GET", "sources").json()["sources"])


def test_a_folder_that_holds_files_is_no_inbox_before_somebody_says_so(service: Service, filled: Path) -> None:
    answer = service.command("sources", "add", str(filled), "--inbox")
    assert answer.exit_code == 5
    assert f"1 file moves out of {filled} into kbsync's own store" in answer.stderr
    assert not _is_followed(service, filled)
    over_http = service.ask("POST", "sources", {"path": str(filled), "mode": "inbox"})
    assert (over_http.status, over_http.json()["kind"]) == (409, "Unconfirmed")
    assert not _is_followed(service, filled)
    service.settle()
    assert (filled / "yew.md").exists()


@pytest.mark.parametrize("typed", ["n\n", "y\n", ""], ids=["no", "yes", "nothing"])
def test_a_person_at_a_terminal_is_asked(
    service: Service, filled: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr(sources, "is_asked", lambda: True)
    answer = CliRunner().invoke(
        app, ["sources", "add", str(filled), "--inbox"], env={"KBSYNC_HOME": str(service.home)}, input=typed
    )
    assert "Go on?" in answer.output
    assert answer.exit_code == (0 if typed == "y\n" else 5)
    assert _is_followed(service, filled) == (typed == "y\n")
    if typed == "y\n":
        eventually(lambda: not (filled / "yew.md").exists())
        service.command("sources", "remove", str(filled))


def test_with_yes_nobody_is_asked(service: Service, filled: Path) -> None:
    assert service.command("sources", "add", str(filled), "--inbox", "--yes").exit_code == 0
    eventually(lambda: not (filled / "yew.md").exists())
    service.command("sources", "remove", str(filled))


def test_kbsyncs_own_folders_are_no_source_and_nothing_inside_them(service: Service, tmp_path: Path) -> None:
    data = service.engine.locations.data_dir
    (tmp_path / "link").symlink_to(data)
    for folder in (data, f"{data}/documents", str(tmp_path / "link"), service.engine.locations.state_dir):
        for mode in ("mirror", "inbox"):
            answer = service.ask("POST", "sources", {"path": folder, "mode": mode})
            assert answer.status == 400
            assert "is kbsync's own" in answer.json()["error"]


def test_where_a_variable_of_the_command_names_the_sources_they_are_not_edited(
    service: Service, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"KBSYNC_HOME": str(service.home), "KBSYNC_SOURCES": "[]"}
    # The daemon's own look at its variables, which are the same ones here, is not reached.
    monkeypatch.setattr(sources, "session", lambda: pytest.fail("it was asked"))
    for word in ("add", "remove"):
        answer = CliRunner().invoke(app, ["sources", word, str(filled)], env=environment)
        assert answer.exit_code == 2
        assert "KBSYNC_SOURCES" in answer.stderr
