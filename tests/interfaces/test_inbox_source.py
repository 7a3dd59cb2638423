"""An inbox through the real door: added by command, on a real disk, with real events."""

from __future__ import annotations

from pathlib import Path

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
    service.command("sources", "remove", str(inbox))
