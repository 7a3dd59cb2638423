"""A09: keys and secrets stay out of everything kbsync keeps, by whatever way they are offered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.errors import KbsyncError, SkipFile
from kbsync.model import IngestOptions
from kbsync.reasons import Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

CANARY = "canary5e1d"
NAMES = (
    *(".env", ".env.local", ".env.md", "deep/.ENV.production.yaml"),
    *("id_rsa", "id_rsa.md", "server.pem", "tls.key", "passwords.kdbx", "old/passwords.kdb", "store.jks"),
    *(".aws/credentials", ".aws/config.json", ".ssh/config", ".ssh/notes.md", ".kube/config", ".docker/config.json"),
    *(".git/config", "project/.git/config", ".git-credentials", ".npmrc", ".netrc"),
    *("Library/Application Support/Google/Chrome/Default/Preferences.json", "backup/Firefox/Profiles/a/prefs.md"),
    *("backup/logins.json", "backup/key4.db", "backup/Cookies", "backup/Login Data"),
    *("cookies.sqlite", "history.sqlite3", ".bash_history", ".zsh_history", ".python_history"),
    *(".gnupg/secring.md", "secring.gpg", "Keychains/login.md", "client_secret_1.json"),
)
# Asks for everything, and takes back whatever can be.
RULES = "!*\n!.*\n!.*/\n!.ssh/\n!.env*\n!*.pem\n"
INCLUDE = ("*", "config", "credentials", "id_rsa", "*.pem", "*.key", "*.kdbx", "*.kdb", "*.sqlite", "Cookies", ".npmrc")


@pytest.fixture
def life(tmp_path: Path) -> Iterator[SimulatedEngine]:
    world = World.new(tmp_path / "home")
    world.configure(text=f"[[sources]]\npath = '{NOTES}'\ninclude = {list(INCLUDE)}\nignore = ['!.*', '!*']\n")
    world.fs.make_directory(NOTES)
    life = SimulatedEngine(world)
    life.settle()
    yield life
    life.close()


def kept(life: SimulatedEngine) -> bytes:
    """Return every byte in kbsync's own folders; the engine is closed first."""
    life.close()
    return b"".join(path.read_bytes() for path in life.world.home.rglob("*") if path.is_file())


def test_no_byte_gets_in_by_scan_event_or_link(life: SimulatedEngine) -> None:
    life.fs.write(f"{NOTES}/.kbignore", RULES.encode())
    life.fs.write(f"{NOTES}/note.md", b"# Note\n\nthe words of a harmless note")
    for number, name in enumerate(NAMES):
        life.write(f"{NOTES}/{name}", f"{CANARY} {number}")
        life.fs.symlink(f"{NOTES}/harmless-{number}.md", f"{NOTES}/{name}")
        life.report(f"{NOTES}/harmless-{number}.md", closed=True)
    life.fs.symlink(f"{NOTES}/harmless-folder", f"{NOTES}/.ssh")
    life.report(f"{NOTES}/harmless-folder/notes.md", closed=True)
    life.settle()
    life.rescan()
    assert life.found(CANARY) == []
    assert life.found("harmless note") == [f"{NOTES}/note.md"]
    everything = kept(life)
    assert b"words of a harmless note" in everything, "the search through the bytes finds what is there"
    assert CANARY.encode() not in everything


def test_no_secret_is_taken_by_hand_whatever_type_is_set(life: SimulatedEngine) -> None:
    for name in NAMES:
        life.fs.write(f"/elsewhere/{name}", CANARY.encode())
        with pytest.raises(SkipFile) as refused:
            life.kb.adding.add_file(f"/elsewhere/{name}", IngestOptions(type="text"))
        assert refused.value.reason is Reason.SECRET, name
    assert os.listdir(life.world.locations.staging_dir) == []


def test_a_harmless_name_that_links_to_a_secret_is_no_way_in(life: SimulatedEngine) -> None:
    life.fs.write("/elsewhere/.ssh/id_rsa", CANARY.encode())
    life.fs.symlink("/elsewhere/harmless.md", "/elsewhere/.ssh/id_rsa")
    life.fs.symlink("/elsewhere/folder", "/elsewhere/.ssh")
    for path in ("/elsewhere/harmless.md", "/elsewhere/folder/id_rsa", "/elsewhere/folder/x.md"):
        with pytest.raises(KbsyncError):
            life.add(path, IngestOptions(type="text"))
    assert CANARY.encode() not in kept(life)


def test_no_secret_is_uploaded(life: SimulatedEngine) -> None:
    for name in (".env", "id_rsa.md", "passwords.kdbx", "logins.json", "cookies.sqlite"):
        with pytest.raises(SkipFile) as refused:
            life.kb.adding.add_upload(name, 10, [CANARY.encode()], IngestOptions(type="text"))
        assert refused.value.reason is Reason.SECRET, name


def test_a_source_that_is_a_folder_of_secrets_gives_nothing(tmp_path: Path) -> None:
    world = World.new(tmp_path / "home")
    world.configure(text="[[sources]]\npath = '/home/me/.ssh'\ninclude = ['*', 'config']\n")
    for name in ("config", "notes.md", "deeper/notes.md"):
        world.fs.write(f"/home/me/.ssh/{name}", CANARY.encode())
    life = SimulatedEngine(world)
    life.rescan()
    assert life.read("SELECT state, reason FROM files ORDER BY path") == [("skipped", "secret")] * 3
    assert CANARY.encode() not in kept(life)
