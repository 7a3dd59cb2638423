"""What commands and HTTP name becomes filters; what makes no sense is refused in words."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from kbsync.errors import UsageError
from kbsync.interfaces.narrowing import EVERYTHING, Narrowing
from kbsync.model import Filter
from tests.interfaces.conftest import Service


@pytest.fixture
def time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be five hours behind, so that local days are not those of UTC."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(*parts: int) -> float:
    """Return a moment given in the time zone that is five hours behind."""
    return datetime(*parts, tzinfo=UTC).timestamp() + 5 * 3600  # type: ignore[arg-type, misc]  # year, month, day, ...


@pytest.mark.usefixtures("time_zone")
@pytest.mark.parametrize(
    ("said", "since", "before"),
    [
        ("2024", at(2024, 1, 1), at(2025, 1, 1)),
        ("2024-05", at(2024, 5, 1), at(2024, 6, 1)),
        ("2024-12", at(2024, 12, 1), at(2025, 1, 1)),
        ("2024-2-29", at(2024, 2, 29), at(2024, 3, 1)),
        (" 2024-12-31 ", at(2024, 12, 31), at(2025, 1, 1)),
        ("2024-05-31T14:30", at(2024, 5, 31, 14, 30), at(2024, 5, 31, 14, 30) + 1),
        ("2024-05-31T14:30:00+00:00", at(2024, 5, 31, 9, 30), at(2024, 5, 31, 9, 30) + 1),
    ],
)
def test_a_date_means_all_of_itself(said: str, since: float, before: float) -> None:
    assert Narrowing(since=said).filters() == (Filter("since", (since,)),)
    assert Narrowing(until=said).filters() == (Filter("before", (before,)),)


@pytest.mark.parametrize(
    "said",
    ["", "yesterday", "2024-13", "2024-00", "2024-01-00", "2024-02-30", "0000", "9999", "24-05-01", "2024-05-31x"],
)
def test_what_is_no_date_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="is no date") as caught:
        Narrowing(until=said).filters()
    assert "2024-05-31" in caught.value.hint


def test_nothing_named_narrows_nothing() -> None:
    assert EVERYTHING.filters() == ()


def test_types_and_sources_that_cannot_be_are_refused() -> None:
    for narrowing in (Narrowing(types=["spreadsheet"]), Narrowing(sources=["notes"]), Narrowing(sources=["/a\0b"])):
        with pytest.raises(UsageError):
            narrowing.filters()


def found(service: Service, parameters: str) -> set[str]:
    reply = service.ask("GET", f"search?q=hornbeam&mode=lexical&{parameters}")
    assert reply.status == 200, reply.body
    return {os.path.basename(hit["path"]) for hit in reply.json()["hits"]}


@pytest.fixture(scope="module")
def trees(service: Service) -> Service:
    (service.folder / "park").mkdir()
    service.write("park/hedge.md", "# Hedges\n\n## Evergreen plants\n\nthe hornbeam is none of them")
    service.write("grove.py", "def grove():\n    return 'hornbeam'\n")
    os.utime(service.folder / "grove.py", (1_500_000_000, 1_500_000_000))
    service.settle()
    return service


@pytest.mark.parametrize(
    ("parameters", "command", "expected"),
    [
        ("", [], {"hedge.md", "grove.py"}),
        ("type=code", ["--type", "code"], {"grove.py"}),
        ("type=code&type=markdown", ["--type", "code", "--type", "markdown"], {"hedge.md", "grove.py"}),
        ("type=pdf", ["--type", "pdf"], set()),
        ("language=python", ["--language", "python"], {"grove.py"}),
        ("path=park", ["--in", "{folder}/park"], {"hedge.md"}),
        ("path={folder}/par", ["--in", "{folder}/par"], set()),
        ("source={folder}", ["--source", "{folder}"], {"hedge.md", "grove.py"}),
        ("source={folder}/park", ["--source", "{folder}/park"], set()),
        ("title=hedges", ["--title", "hedges"], {"hedge.md"}),
        ("section=evergreen", ["--section", "evergreen plants"], {"hedge.md"}),
        ("since=2020", ["--since", "2020"], {"hedge.md"}),
        ("until=2020", ["--until", "2020"], {"grove.py"}),
    ],
)
def test_http_and_the_command_narrow_alike(
    trees: Service, parameters: str, command: list[str], expected: set[str]
) -> None:
    folder = str(trees.folder)
    assert found(trees, parameters.replace("{folder}", quote(folder))) == expected
    named = [word.replace("{folder}", folder) for word in command]
    outcome = trees.command("search", "--mode", "lexical", *named, "hornbeam")
    assert outcome.exit_code == (0 if expected else 3)
    assert {name for name in ("hedge.md", "grove.py") if name in outcome.stdout} == expected


@pytest.mark.parametrize(
    ("parameters", "status"), [("type=spreadsheet", 422), ("since=soon", 400), ("source=notes", 400), ("limit=0", 422)]
)
def test_http_refuses_what_makes_no_sense(service: Service, parameters: str, status: int) -> None:
    assert service.ask("GET", f"search?q=a&{parameters}").status == status


@pytest.mark.parametrize("options", [["--type", "spreadsheet"], ["--since", "soon"]])
def test_the_command_refuses_what_makes_no_sense(service: Service, options: list[str]) -> None:
    assert service.command("search", *options, "a").exit_code == 2


def test_older_versions_come_with_their_state_when_they_are_asked_for(service: Service) -> None:
    service.write("elm.md", "wychelm yesterday")
    service.write("elm.md", "wychelm today")
    assert len(service.ask("GET", "search?q=wychelm&mode=lexical").json()["hits"]) == 1
    hits = service.ask("GET", "search?q=wychelm&mode=lexical&all_versions=true").json()["hits"]
    assert {hit["state"] for hit in hits} == {"current", "superseded"}
    outcome = service.command("search", "--mode", "lexical", "--all-versions", "wychelm")
    assert "(superseded)" in outcome.stdout
