"""Commands on a database that is damaged, or newer than the program: what they say, and that they leave it alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
import structlog
from typer.testing import CliRunner, Result

from kbsync.config.locations import Locations, locate
from kbsync.interfaces.cli.app import app
from kbsync.store import damage, meta, migrations
from kbsync.store.connection import connect_writer
from tests.store.test_soundness import digests


class Home:
    """A folder of kbsync's own, and the commands on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.places: Locations = locate({"KBSYNC_HOME": str(path)})

    def command(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), env={"KBSYNC_HOME": str(self.path)})


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    assert home.command("check").exit_code == 0
    yield home
    structlog.reset_defaults()


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "a.md"
    path.write_text("# A\n\nwords")
    return str(path)


@pytest.mark.parametrize("with_log", [False, True])
def test_every_command_leaves_a_newer_database_as_it_is(home: Home, document: str, with_log: bool) -> None:
    """P19 and D04: an old program on a new database: refused by each command, no byte of file or log changed."""
    database, newest = home.places.database, migrations.migrations()[-1][0]
    connection = connect_writer(database, migrations.accept)
    connection.execute(f"CREATE TABLE news (id INTEGER); PRAGMA user_version = {newest + 1}")
    meta.put(connection, meta.SCHEMA, str(newest + 1))
    if with_log:
        for ending in ("", "-wal"):
            shutil.copy(database + ending, f"{database}{ending}.left")
    connection.close()
    if with_log:
        for ending in ("", "-wal"):
            os.replace(f"{database}{ending}.left", database + ending)
    before = {name: digest for name, digest in digests(database).items() if not name.endswith("-shm")}
    assert (os.path.getsize(database + "-wal") if os.path.exists(database + "-wal") else 0) > 0 or not with_log
    for arguments in (
        ["add", document],
        ["search", "words", "--mode", "lexical"],
        ["check"],
        ["check", "--repair"],
        ["status"],
        ["backup", str(home.path / "backup")],
        ["documents", "list"],
        ["sources", "list"],
    ):
        result = home.command(*arguments)
        assert result.exit_code == 1, (arguments, result.output)
        assert f"schema {newest + 1}" in result.stderr, arguments
        assert "newer kbsync" in result.stderr, arguments
        after = {name: digest for name, digest in digests(database).items() if name in before}
        assert after == before, arguments
    assert not [name for name in os.listdir(home.places.data_dir) if "damaged" in name]


@pytest.mark.parametrize("arguments", [["add", "{document}"], ["search", "words", "--mode", "lexical"], ["check"]])
def test_a_command_says_what_to_do_about_a_damaged_database(home: Home, document: str, arguments: list[str]) -> None:
    """D02: commands without a daemon set nothing aside; they say who does."""
    Path(home.places.database).write_text("a shopping list")
    result = home.command(*(part.format(document=document) for part in arguments))
    assert result.exit_code == 1
    assert "is damaged" in result.stderr
    assert "kbsync check --repair" in result.stderr
    assert Path(home.places.database).read_text() == "a shopping list"


def test_check_with_repair_builds_a_damaged_database_anew(home: Home) -> None:
    Path(home.places.database).write_text("a shopping list")
    result = home.command("check", "--repair")
    assert result.exit_code == 0, result.output
    aside = [name for name in os.listdir(home.places.data_dir) if "damaged" in name]
    assert [Path(home.places.data_dir, name).read_text() for name in aside] == ["a shopping list"]
    assert aside[0] in result.stdout
    assert aside[0] in home.command("status").stdout
    assert json.loads(home.command("check", "--json").stdout)["ok"]
    os.unlink(os.path.join(home.places.data_dir, aside[0]))
    assert "damaged" not in home.command("check").stdout


def test_damage_that_only_the_check_finds_is_repaired_in_one_go(home: Home) -> None:
    database = home.places.database
    connection = apsw.Connection(database)
    connection.execute("INSERT INTO events (at, kind) VALUES (1.0, 'indexed')")
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").get
    connection.close()
    with open(database, "r+b") as file:
        file.seek((page - 1) * 4096 + 3)  # how many rows there are
        file.write(b"\x00\x09")
    damage.opened(database, 1.0)
    damage.closed(database)
    assert home.command("status").exit_code == 4
    result = home.command("check", "--repair", "--json")
    assert result.exit_code == 0, result.output
    problems = json.loads(result.stdout)["problems"]
    assert [(problem["kind"], problem["repaired"]) for problem in problems] == [("corrupt", True)]
    assert [name for name in os.listdir(home.places.data_dir) if "damaged" in name]
