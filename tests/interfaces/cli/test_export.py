"""A document's own bytes come out as they went in: of a followed file, a kept copy, a note; nothing is overwritten."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kbsync.config.locations import locate
from tests.interfaces.conftest import Service

# A newline, ESC, a mark that turns the writing direction, and a byte that is no UTF-8.
ODD_NAMES = [b"two\nlines.md", b"esc\x1b[2Jape.md", "turn\u202eed.md".encode(), b"l\xe4tin.md"]


def number_of(service: Service, path: str | Path) -> str:
    return str(json.loads(service.command("why", str(path), "--json").stdout)["document_id"])


def test_a_followed_file_comes_out_as_it_is_by_number_and_by_path(service: Service, tmp_path: Path) -> None:
    path = service.write("exported.md", "# Exported\n\nA whitebeam.\r\n")
    for name, target in (("one", str(path)), ("two", number_of(service, path))):
        (tmp_path / name).mkdir()
        answer = service.command("documents", "export", target, "--to", str(tmp_path / name))
        written = tmp_path / name / "exported.md"
        assert answer.stdout == f"Wrote {written}.\n"
        assert written.read_bytes() == path.read_bytes()
        assert os.listdir(tmp_path / name) == ["exported.md"]


def test_a_kept_copy_comes_out_though_the_file_is_gone(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "kept.md"
    path.write_bytes(b"# Kept\n\nA wych elm.\n")
    service.command("add", str(path))
    path.unlink()
    record = json.loads(service.command("documents", "export", str(path), "--to", str(tmp_path), "--json").stdout)
    assert (record["path"], record["size_bytes"], record["changed"]) == (str(path), 20, False)
    assert path.read_bytes() == b"# Kept\n\nA wych elm.\n"


def test_a_note_comes_out_as_text_under_a_name_that_a_file_may_have(service: Service, tmp_path: Path) -> None:
    text = "A note of alders,\nin two lines \u2713"
    record = json.loads(service.command("add", "--note", text, "--title", "Alders / and\tbirches", "--json").stdout)
    number = str(record["added"][0]["document_id"])
    service.command("documents", "export", number, "--to", str(tmp_path))
    (name,) = os.listdir(tmp_path)
    assert name == "Alders - and birches.txt"
    assert (tmp_path / name).read_bytes() == text.encode()


def test_nothing_is_overwritten_without_force_and_never_the_document_itself(service: Service, tmp_path: Path) -> None:
    path = service.write("forced.md", "# Forced\n\nA gean.\n")
    (tmp_path / "forced.md").write_text("mine")
    answer = service.command("documents", "export", str(path), "--to", str(tmp_path))
    assert answer.exit_code == 2
    assert "--force overwrites it" in answer.stderr
    assert (tmp_path / "forced.md").read_text() == "mine"
    assert service.command("documents", "export", str(path), "--to", str(tmp_path), "--force").exit_code == 0
    assert (tmp_path / "forced.md").read_bytes() == path.read_bytes()
    before = path.stat()
    assert service.command("documents", "export", str(path), "--to", str(service.folder), "--force").exit_code == 2
    assert path.stat() == before


def test_a_file_that_changed_since_is_told(service: Service, tmp_path: Path) -> None:
    path = service.write("changing.md", "# Changing\n\nA sallow.\n")
    number = number_of(service, path)
    service.command("sources", "pause", str(service.folder))
    try:
        path.write_text("# Changing\n\nAn osier.\n")
        answer = service.command("documents", "export", number, "--to", str(tmp_path))
        assert answer.exit_code == 0
        assert "changed since it was indexed" in answer.stderr
        assert (tmp_path / "changing.md").read_bytes() == path.read_bytes()
    finally:
        service.command("sources", "resume", str(service.folder))
        service.settle()


def test_a_document_that_no_file_holds_any_more_is_told(service: Service, tmp_path: Path) -> None:
    path = service.write("lost.md", "# Lost\n\nA checkers tree.\n")
    number = number_of(service, path)
    path.unlink()
    answer = service.command("documents", "export", number, "--to", str(tmp_path))
    assert answer.exit_code == 3
    assert f"kbsync documents show {number}" in answer.stderr
    assert os.listdir(tmp_path) == []
    service.settle()


def test_a_folder_that_is_none_is_refused(service: Service) -> None:
    assert service.command("documents", "export", "1", "--to", "/never/a/folder").exit_code == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder that nobody can write to, root neither")
def test_a_folder_that_cannot_be_written_to_is_told_as_that(service: Service) -> None:
    path = service.write("unwritten.md", "# Unwritten\n\nA spindle.\n")
    note = json.loads(service.command("add", "--note", "A note of spindles.", "--json").stdout)["added"][0]
    for document in (str(path), str(note["document_id"])):
        answer = service.command("documents", "export", document, "--to", "/proc")
        assert answer.exit_code == 1
        assert "The folder /proc cannot be written to: " in answer.stderr


def test_a_document_is_shown_and_removed_by_its_path_too(service: Service, tmp_path: Path) -> None:
    path = service.write("named.md", "# Named\n\nA medlar tree.\n")
    twin = service.write("named-too.md", "# Named\n\nA medlar tree.\n")
    assert "A medlar tree." in service.command("documents", "show", str(path)).stdout
    answer = service.command("documents", "remove", str(path))
    assert answer.stdout.startswith("Removed Named.\nIt was the same document in 2 files: ")
    for file in (path, twin):
        why = json.loads(service.command("why", str(file), "--json").stdout)
        assert why["reason"] == "removed_by_you"
        (event, *_) = json.loads(service.command("history", str(file), "--json").stdout)["events"]
        assert (event["kind"], event["path"]) == ("removed", str(file))
    assert service.command("documents", "show", str(path)).exit_code == 3


def test_a_folder_is_no_document(service: Service) -> None:
    for word in ("export", "show", "remove"):
        answer = service.command("documents", word, str(service.folder))
        assert answer.exit_code == 2
        assert "is a folder; name a file" in answer.stderr


def test_what_is_opened_is_the_file_itself_or_a_copy_of_what_is_kept(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("xdg-open", "open"):
        program = tmp_path / "bin" / name
        program.write_text('#!/bin/sh\nprintf %s "$1" >"$OPENED"\n')
        program.chmod(0o755)
    opened = tmp_path / "opened"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENED", str(opened))
    path = service.write("opened.md", "# Opened\n\nA linden.\n")
    assert service.command("documents", "open", str(path)).stdout == f"Opened {path}.\n"
    assert opened.read_text() == str(path)
    note = json.loads(service.command("add", "--note", "A note of lindens.", "--json").stdout)["added"][0]
    assert service.command("documents", "open", str(note["document_id"])).exit_code == 0
    copy = Path(opened.read_text())
    places = locate({"KBSYNC_HOME": str(service.home)})
    assert (str(copy.parent.parent), copy.read_text()) == (places.opened_dir, "A note of lindens.")
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    places.forget_opened()
    assert not copy.exists(), "the next start sweeps it"


def test_a_machine_without_a_program_to_open_with_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    path = service.write("unopened.md", "# Unopened\n\nA bird cherry.\n")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    answer = service.command("documents", "open", str(path))
    assert answer.exit_code == 1
    assert str(path) in answer.stderr
    note = json.loads(service.command("add", "--note", "A note of bird cherries.", "--json").stdout)["added"][0]
    answer = service.command("documents", "open", str(note["document_id"]))
    assert answer.exit_code == 1
    assert f"`kbsync documents export {note['document_id']}`" in answer.stderr
    opened = Path(locate({"KBSYNC_HOME": str(service.home)}).opened_dir)
    assert list(opened.iterdir()) == [], "a copy that nobody sees is not left behind"


@pytest.mark.parametrize("raw", ODD_NAMES)
def test_odd_names_are_harmless_in_every_answer_and_find_their_file(
    service: Service, tmp_path: Path, raw: bytes
) -> None:
    """F14: escaped in what is printed, whole on the way from the command line to the file and back."""
    name = os.fsdecode(raw)
    path = service.folder / name
    path.write_text(f"# Odd\n\nA service tree {len(raw)} {raw!r}.\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    service.settle()
    for arguments in (
        ["why", str(path)],
        ["why", str(path), "--json"],
        ["history", str(path)],
        ["history", str(path), "--json"],
        ["diff"],
        ["jobs", "list"],
        ["jobs", "list", "--json"],
        ["documents", "export", str(path), "--to", str(tmp_path)],
    ):
        answer = service.command(*arguments)
        assert answer.exit_code == 0, answer.output
        assert not set("\x1b\u202e") & set(answer.output)
        answer.output.encode()
    assert (tmp_path / name).read_bytes() == path.read_bytes()
    assert json.loads(service.command("history", str(path), "--json").stdout)["total"] == 1
    for folder in (service.folder / os.fsdecode(b"n\xe4sty"), service.folder):
        assert service.command("sources", "pause", str(folder)).exit_code in (0, 3)
    service.command("sources", "resume", str(service.folder))
    path.unlink()
    service.settle()
