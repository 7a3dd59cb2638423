"""An inbox: what is dropped there is taken in and goes from the folder, and no only copy is ever removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.errors import RetryLater
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

INBOX = "/simulated/inbox"
TEXT = "# Pears\n\nthe conference pear keeps until april"


def configured(*, mode: str = "inbox", more: str = "") -> str:
    return f'[[sources]]\npath = "{INBOX}"\nmode = "{mode}"\n{more}\n'


@pytest.fixture
def inbox(tmp_path: Path) -> World:
    world = World.new(tmp_path / "home")
    world.configure(text=configured())
    world.fs.make_directory(INBOX)
    return world


@pytest.fixture
def life(inbox: World) -> Iterator[SimulatedEngine]:
    life = SimulatedEngine(inbox)
    life.settle()
    yield life
    life.close()


def names(life: SimulatedEngine, folder: str = INBOX) -> list[str]:
    return sorted(entry.name for entry in life.fs.list_directory(folder))


def stored(life: SimulatedEngine) -> list[bytes]:
    """Return what lies in the store, each copy that a document names."""
    return [
        Path(path).read_bytes()
        for (path,) in life.read("SELECT stored_path FROM documents WHERE stored_path IS NOT NULL ORDER BY id")
    ]


def staged(life: SimulatedEngine) -> list[str]:
    return os.listdir(life.world.locations.staging_dir)


@pytest.mark.parametrize("told", [True, False], ids=["told", "found by a walk"])
def test_a_dropped_file_is_taken_in_and_goes_from_the_folder(life: SimulatedEngine, told: bool) -> None:
    life.fs.write(f"{INBOX}/pears.md", TEXT.encode())
    if told:
        life.report(f"{INBOX}/pears.md", closed=True)
        life.settle()
    else:
        life.rescan()
    assert names(life) == []
    assert stored(life) == [TEXT.encode()]
    assert staged(life) == []
    assert life.found("conference pear") == [f"{INBOX}/pears.md"]
    assert life.read("SELECT kind, live FROM origins") == [("inbox", 1)]
    life.rescan()
    assert life.found("conference pear") == [f"{INBOX}/pears.md"], "absent from an inbox is not deleted"
    assert life.documents() == [(1, "Pears", "current")]
    assert life.source_state(INBOX) == ("watching", None)
    assert life.kb.check() == []


def test_a_document_goes_the_same_way(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/letter.pdf", b"%PDF-1.4 quince jelly")
    life.settle()
    assert names(life) == []
    assert stored(life) == [b"%PDF-1.4 quince jelly"]
    assert life.found("quince") == [f"{INBOX}/letter.pdf"]


def test_folders_inside_stay(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/scans/2024/pears.md", TEXT)
    life.settle()
    assert life.found("conference") == [f"{INBOX}/scans/2024/pears.md"]
    assert names(life, f"{INBOX}/scans/2024") == []


def test_two_files_of_one_name_one_after_the_other_are_two_documents_and_search_shows_the_later(
    life: SimulatedEngine,
) -> None:
    for text in (TEXT, TEXT.replace("april", "may")):
        life.write(f"{INBOX}/pears.md", text)
        life.settle()
    assert [state for _, _, state in life.documents()] == ["current", "current"]
    assert len(stored(life)) == 2
    assert life.kb.search("conference", "lexical").hits[0].document_id == 2
    assert len(life.kb.search("conference", "lexical").hits) == 1
    assert len(life.kb.search("conference", "lexical", every_version=True).hits) == 2


def test_known_bytes_get_their_inbox_origin_and_the_file_goes(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    embedded = len(life.embedded())
    life.write(f"{INBOX}/again.md", TEXT)
    life.settle()
    assert names(life) == []
    assert life.kb.documents()[0][0][1] == [f"{INBOX}/again.md", f"{INBOX}/pears.md"]
    assert len(life.embedded()) == embedded


def test_bytes_known_from_a_mirror_are_stored_before_the_file_goes(tmp_path: Path) -> None:
    world = World.new(tmp_path / "home")
    world.configure(NOTES, text=configured())
    for folder in (NOTES, INBOX):
        world.fs.make_directory(folder)
    life = SimulatedEngine(world)
    life.write(f"{NOTES}/pears.md", TEXT)
    life.settle()
    assert stored(life) == []
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    assert names(life) == []
    assert names(life, NOTES) == ["pears.md"], "nothing leaves a mirror"
    assert stored(life) == [TEXT.encode()]
    life.remove(f"{NOTES}/pears.md")
    life.settle()
    life.rescan()
    assert life.found("conference") == [f"{INBOX}/pears.md"]
    assert life.inboxes.removed == [f"{INBOX}/pears.md"]
    life.close()


@pytest.mark.parametrize(
    ("name", "content", "state", "reason"),
    [
        ("bad.pdf", b"corrupt", FileState.FAILED, "corrupt"),
        ("locked.pdf", b"password sesame\nhidden", FileState.FAILED, "password_required"),
        ("program.exe", b"MZ", FileState.SKIPPED, "unsupported"),
        ("id_rsa.md", b"key", FileState.SKIPPED, "secret"),
        ("lies.md", b"\x00\x01\x02\x03" * 999, FileState.SKIPPED, "binary"),
    ],
)
def test_what_cannot_be_taken_in_stays_and_says_why(
    life: SimulatedEngine, name: str, content: bytes, state: FileState, reason: str
) -> None:
    life.write(f"{INBOX}/{name}", content)
    life.settle()
    life.rescan()
    assert names(life) == [name]
    assert life.state(f"{INBOX}/{name}") == (state, reason)
    assert staged(life) == []
    assert stored(life) == []


def test_a_file_that_failed_waits_for_a_change(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/bad.pdf", b"corrupt")
    life.settle()
    life.write(f"{INBOX}/bad.pdf", b"%PDF-1.4 mended")
    life.settle()
    assert names(life) == []
    assert life.found("mended") == [f"{INBOX}/bad.pdf"]


def test_a_file_that_is_still_open_is_left_alone_until_it_is_closed(life: SimulatedEngine) -> None:
    """F01: a download that stalls looks settled, and its rest must not be written into nowhere."""
    path = f"{INBOX}/pears.md"
    life.inboxes.writers.add(path)
    life.fs.write(path, TEXT[:20].encode())
    life.report(path)
    for _ in range(1200):
        life.turn()
        life.clock.advance(0.25)
    assert names(life) == ["pears.md"]
    assert life.documents() == []
    assert life.state(path) == (FileState.WAITING, "settling")
    assert life.read("SELECT kind FROM events") == [("source_added",)], "looking again and again is not written down"
    life.fs.write(path, TEXT.encode())
    life.inboxes.writers.clear()
    life.settle()
    assert stored(life) == [TEXT.encode()], "one version, the whole one"
    assert len(life.documents()) == 1


def test_where_nobody_tells_who_writes_a_file_must_have_been_quiet_for_long(life: SimulatedEngine) -> None:
    life.inboxes.telling = False
    life.write(f"{INBOX}/pears.md", TEXT)
    for _ in range(100):
        life.turn()
        life.clock.advance(0.25)
    assert names(life) == ["pears.md"]
    life.settle()
    assert names(life) == []


def test_a_file_that_changes_while_it_is_taken_in_stays_and_is_taken_in_again(life: SimulatedEngine) -> None:
    path, changed = f"{INBOX}/pears.md", TEXT.replace("april", "june!")

    def write_once(_path: str) -> None:
        life.inboxes.before_removal = lambda path: None
        life.write(path, changed)

    life.inboxes.before_removal = write_once
    life.write(path, TEXT)
    life.settle()
    life.rescan()
    assert names(life) == []
    assert sorted(stored(life)) == sorted([TEXT.encode(), changed.encode()])


def test_a_folder_that_lets_nothing_go_is_told_and_tried_once(life: SimulatedEngine) -> None:
    path = f"{INBOX}/pears.md"

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    life.fs.remove, removed = refuse, life.fs.remove  # type: ignore[method-assign]  # a folder without write permission
    life.write(path, TEXT)
    life.settle()
    life.rescan()
    assert life.state(path) == (FileState.FAILED, "permission")
    assert life.found("conference") == [path]
    assert names(life) == ["pears.md"]
    jobs = life.read("SELECT count(*) FROM jobs")
    life.rescan()
    assert life.read("SELECT count(*) FROM jobs") == jobs
    life.fs.remove = removed  # type: ignore[method-assign]
    life.fs.write(path, TEXT.encode())
    life.rescan()
    assert names(life) == []


STEPS = ("staging", "link", "commit", "unstage", "remove", "told")


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_nothing_is_lost_and_the_next_start_ends_it(
    inbox: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_args: object, **_kwargs: object) -> None:
        raise Killed

    path = f"{INBOX}/pears.md"
    life = SimulatedEngine(inbox)
    life.settle()
    points = {
        "staging": ("kbsync.knowledge_base.processing.read_snapshot", None),
        "link": ("kbsync.store.stored_files.StoredFiles.store", None),
        "commit": ("kbsync.knowledge_base.commits.ingested", None),
        "unstage": ("kbsync.store.stored_files.StoredFiles.discard", None),
        "remove": ("kbsync.knowledge_base.taking_in.take_away", None),
        "told": ("kbsync.knowledge_base.taking_in._removed", None),
    }
    life.write(path, TEXT)
    with monkeypatch.context() as patched:
        patched.setattr(points[step][0], die)
        with pytest.raises(Killed):
            life.settle()
    life.close()
    kept = [copy.read_bytes() for copy in Path(inbox.locations.documents_dir).iterdir()]
    assert TEXT.encode() in [*kept, *([] if step == "told" else [inbox.fs.open_file(path).read(9999)])]
    again = SimulatedEngine(inbox)
    again.settle(again.daemon.rescan())
    again.rescan()
    assert names(again) == []
    assert stored(again) == [TEXT.encode()]
    assert staged(again) == []
    assert again.found("conference") == [path]
    assert again.kb.check() == []
    again.close()


def test_a_stored_copy_that_is_gone_or_damaged_is_made_anew_before_the_file_goes(life: SimulatedEngine) -> None:
    path = f"{INBOX}/pears.md"
    for spoiling in ("gone", "damaged"):
        life.write(path, TEXT)
        life.settle()
        copy = next(Path(life.world.locations.documents_dir).iterdir())
        copy.unlink() if spoiling == "gone" else copy.write_bytes(b"spoilt")
        life.write(path, TEXT)
        life.settle()
        assert names(life) == []
        assert stored(life) == [TEXT.encode()]


def test_a_store_that_cannot_be_read_back_keeps_the_file(
    life: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbsync.knowledge_base.taking_in.holds", lambda _path, _hash: False)
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    assert names(life) == ["pears.md"]
    assert life.state(f"{INBOX}/pears.md") == (FileState.FAILED, "io")


def test_a_full_disk_keeps_the_file_and_it_is_taken_in_when_there_is_room(
    life: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F29: the copy does not fit."""
    with monkeypatch.context() as full:

        def no_room(*_args: object) -> None:
            raise RetryLater(Reason.NO_SPACE, "The disk is full.")

        full.setattr("kbsync.store.stored_files.StoredFiles.store", no_room)
        life.write(f"{INBOX}/pears.md", TEXT)
        for _ in range(20):
            life.turn()
            life.clock.advance(0.25)
        assert names(life) == ["pears.md"]
    life.settle()
    assert names(life) == []
    assert stored(life) == [TEXT.encode()]


def test_a_mirror_that_becomes_an_inbox_is_taken_in_and_one_that_becomes_a_mirror_keeps_what_came(
    inbox: World,
) -> None:
    inbox.configure(text=configured(mode="mirror"))
    life = SimulatedEngine(inbox)
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    assert names(life) == ["pears.md"]
    embedded = len(life.embedded())
    life.configure(text=configured())
    life.rescan()
    life.rescan()
    assert names(life) == []
    assert life.read("SELECT kind, live FROM origins ORDER BY id") == [("path", 0), ("inbox", 1)]
    assert len(life.embedded()) == embedded
    life.configure(text=configured(mode="mirror"))
    life.write(f"{INBOX}/plums.md", "# Plums\n\nthe mirabelle")
    life.rescan()
    assert names(life) == ["plums.md"]
    assert life.found("conference") == [f"{INBOX}/pears.md"]
    life.close()


def test_what_was_taken_in_stays_when_the_inbox_is_followed_no_more(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    life.configure(NOTES)
    life.rescan()
    assert life.found("conference") == [f"{INBOX}/pears.md"]
    life.configure(text=configured())
    life.rescan()
    assert life.documents() == [(1, "Pears", "current")]


def test_why_says_that_it_was_taken_in(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    told = life.why(f"{INBOX}/pears.md")
    assert told.state is FileState.INDEXED
    assert "taken in" in told.detail


def test_idle_after_all_is_taken_in_writes_nothing(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    life.rescan()
    before = life.dump()
    life.rescan()
    assert life.dump() == before


def test_what_was_taken_in_is_counted_in_status_as_kbsyncs_own(life: SimulatedEngine) -> None:
    life.write(f"{INBOX}/pears.md", TEXT)
    life.settle()
    statistics = life.kb.statistics()
    assert statistics["taken_in"] == 1
    assert statistics["added"] == {"indexed": 0, "waiting": 0, "skipped": 0, "failed": 0, "seen": 0}, "by nobody's hand"
