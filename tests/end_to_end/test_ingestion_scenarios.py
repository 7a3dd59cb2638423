"""Every scenario of document-ingestion.md on the real program: real Docling, real models, one daemon, one test each.

A test's name is its scenario's: `python -m tests.scenarios document-ingestion.md` prints the table.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from kbsync.file_types import SUPPORTED
from tests.end_to_end.library import WORKERS, Library, another, watched

# Two children that load Docling's models share the cores with the embedder at first.
pytestmark = pytest.mark.timeout(600)
LONG_S = 400.0
# What MiniLM reads, which is the default of max_tokens.
MAX_TOKENS = 256

SENTENCE = "The harbour master writes the water level of every tide into the grey ledger. "


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def paragraphs(word: str, count: int) -> str:
    """Return text of so many paragraphs with `word` in each, none like another."""
    return "\n\n".join(f"Entry {number} of {word}. {SENTENCE * 3}" for number in range(count))


# ---- file type detection and routing ----


def test_auto_detect_pdf_file(library: Library, tmp_path: Path) -> None:
    path = another(library.page, tmp_path / "report.pdf", "detected")
    document = library.add(path)
    assert (document["type"], document["page_count"]) == ("pdf", 1)
    # Only Docling tells where on a page a text stands.
    assert all(chunk["metadata"]["page"] == 1 and chunk["metadata"]["bbox"] for chunk in document["chunks"])


def test_auto_detect_python_code(library: Library, tmp_path: Path) -> None:
    document = library.add(written(tmp_path / "script.py", "def detected():\n    return 'as python'\n"))
    assert (document["type"], document["language"]) == ("code", "python")


def test_override_type_detection(library: Library, tmp_path: Path) -> None:
    path = written(tmp_path / "data.txt", "# says hello\nhello() {\n    echo overridden\n}\n")
    document = library.add(path, "--type", "code", "--language", "bash")
    assert (document["type"], document["language"]) == ("code", "bash")


def test_unsupported_file_type(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    answer = library.program.run("add", str(path), code=1)
    assert [ending for ending in SUPPORTED if ending not in answer.stderr] == []
    assert answer.stdout == ""


# ---- Docling ----


def test_ingest_a_text_based_pdf(library: Library) -> None:
    document = library.of_batch("manual.pdf")
    assert (document["type"], document["page_count"]) == ("pdf", 5)
    headers = {chunk["metadata"].get("section_header") for chunk in document["chunks"]} - {None}
    assert any("Early" in header or "Evolution" in header for header in headers), headers
    assert {chunk["metadata"]["page"] for chunk in document["chunks"]} == {1, 2, 3, 4, 5}
    assert Path(document["stored_path"]).is_file()
    for mode in ("lexical", "vector"):
        assert library.hit_in(document, "Christopher Latham Sholes typewriter", mode)["page"] == 1
    assert library.program.json("check")["ok"]


def test_ingest_a_pdf_with_tables(library: Library) -> None:
    document = library.of_batch("tables.pdf")
    tables = [chunk["text"] for chunk in document["chunks"] if chunk["metadata"].get("kind") == "table"]
    assert tables, "no table was recognised"
    for text in tables:
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert len(rows) >= 2
        assert len({row.count("|") for row in rows}) == 1, text
    assert any("OTSL" in text and "HTML" in text for text in tables)


def test_ingest_a_scanned_pdf_with_ocr_auto_mode(library: Library) -> None:
    document = library.of_batch("scan.pdf")
    assert document["page_count"] == 2
    assert document["metadata"]["ocr_pages"] == [2]
    of_page = {
        page: " ".join(c["text"] for c in document["chunks"] if c["metadata"]["page"] == page) for page in (1, 2)
    }
    assert "The concept of the word processor predates modern computers" in " ".join(of_page[1].split())
    assert "Docling bundles PDF document conversion to JSON and Markdown" in " ".join(of_page[2].split())


def test_ingest_an_image_file(library: Library) -> None:
    document = library.of_batch("diagram.png")
    assert (document["type"], document["metadata"]["ocr_pages"]) == ("image", [1])
    assert library.hit_in(document, "Robert Schneider Rue du Lac")["page"] == 1


# ---- Markdown ----


def test_split_markdown_at_headers(library: Library, tmp_path: Path) -> None:
    names = ("Windlass", "Capstan", "Bollard")
    text = "# Guide\n\n" + "\n\n".join(f"## {name}\n\n{paragraphs(f'part {n}', 1)}" for n, name in enumerate(names))
    document = library.add(written(tmp_path / "guide.md", text))
    assert [chunk["metadata"]["section_header"] for chunk in document["chunks"]] == list(names)
    for number, (name, chunk) in enumerate(zip(names, document["chunks"], strict=True)):
        assert f"of part {number}." in chunk["text"]
        # The header is part of what is searched: the word stands nowhere else.
        hit = library.found(name.lower(), "lexical")
        assert (hit["document_id"], hit["chunk_id"]) == (document["id"], chunk["id"])


def test_preserve_header_hierarchy(library: Library, tmp_path: Path) -> None:
    sections = [("## Config", "plain"), ("### Advanced Options", "advanced")]
    text = "\n\n".join(f"{header}\n\n{paragraphs(word, 1)}" for header, word in sections)
    document = library.add(written(tmp_path / "nested.md", text))
    assert [chunk["metadata"]["section_header"] for chunk in document["chunks"]] == [
        "Config",
        "Config > Advanced Options",
    ]
    # The context is part of what is searched, not only shown.
    hit = library.found("nested Config advanced options", "lexical")
    assert (hit["document_id"], hit["section_header"]) == (document["id"], "Config > Advanced Options")


def test_merge_small_sections(library: Library, tmp_path: Path) -> None:
    text = f"## Tiny\n\nOnly a few words.\n\n## Following\n\n{paragraphs('following', 1)}\n"
    document = library.add(written(tmp_path / "small.md", text))
    (chunk,) = document["chunks"]
    assert "Only a few words." in chunk["text"]
    assert "## Following" in chunk["text"]


def test_plain_text_file_without_headers(library: Library, tmp_path: Path) -> None:
    document = library.add(written(tmp_path / "notes.txt", paragraphs("plain text", 30)))
    chunks = document["chunks"]
    assert len(chunks) > 3
    assert all(chunk["token_count"] <= MAX_TOKENS for chunk in chunks)
    assert all(f"Entry {number} of" in " ".join(chunk["text"] for chunk in chunks) for number in range(30))
    # Neighbours overlap: the next one begins with what the one before ends with.
    for before, after in pairwise(chunks):
        assert after["text"][:20] in before["text"]


# ---- code ----


def test_python_file_with_functions_and_classes(library: Library, tmp_path: Path) -> None:
    path = written(
        tmp_path / "auth.py",
        'class Session(Base):\n    """Keeps who is signed in."""\n\n'
        "    def sign_in(self, name):\n        self.name = name\n\n"
        "    def sign_out(self):\n        self.name = None\n\n\ndef check(name):\n    return bool(name)\n",
    )
    chunks = [chunk["text"] for chunk in library.add(path)["chunks"]]
    for method in ("def sign_in", "def sign_out"):
        (chunk,) = [chunk for chunk in chunks if method in chunk]
        assert "class Session(Base)" in chunk
        assert "Keeps who is signed in." in chunk
    (function,) = [chunk for chunk in chunks if "def check" in chunk]
    assert "def sign" not in function


def test_bash_script_with_functions(library: Library, tmp_path: Path) -> None:
    path = written(
        tmp_path / "deploy.sh",
        "#!/bin/bash\nset -e\n\n# Copies the build\n# to the server.\nfunction deploy() {\n    scp build server:\n}\n\n"
        "# Takes it back.\nroll_back() {\n    ssh server undo\n}\n",
    )
    chunks = [chunk["text"] for chunk in library.add(path)["chunks"]]
    (deploy,) = [chunk for chunk in chunks if "function deploy()" in chunk]
    assert "# Copies the build\n# to the server.\n" in deploy
    assert "scp build" in deploy
    (roll_back,) = [chunk for chunk in chunks if "roll_back()" in chunk]
    assert "# Takes it back." in roll_back
    assert deploy != roll_back


def test_go_file_with_functions(library: Library, tmp_path: Path) -> None:
    path = written(
        tmp_path / "main.go",
        'package main\n\nimport "fmt"\n\n// greet says hello.\n'
        'func greet(name string) {\n\tfmt.Println("hello", name)\n}\n\n'
        'func main() {\n\tgreet("harbour")\n}\n',
    )
    chunks = [chunk["text"] for chunk in library.add(path)["chunks"]]
    (greet,) = [chunk for chunk in chunks if "func greet" in chunk]
    (main,) = [chunk for chunk in chunks if "func main" in chunk]
    assert "// greet says hello." in greet
    assert greet != main


def test_code_file_with_no_functions(library: Library, tmp_path: Path) -> None:
    lines = [f"cp /var/ledger/tide-{number}.log /srv/backup/tide-{number}.log" for number in range(120)]
    document = library.add(written(tmp_path / "script.sh", "\n".join(["#!/bin/sh", *lines]) + "\n"))
    chunks = document["chunks"]
    assert len(chunks) > 5
    assert all(chunk["token_count"] <= MAX_TOKENS for chunk in chunks)
    assert [line for line in lines if not any(line in chunk["text"] for chunk in chunks)] == []


# ---- notes ----


def test_add_an_inline_note(library: Library) -> None:
    text = "Always restart nginx after config changes"
    (added,) = library.program.json("add", "--note", text, "--title", "nginx reminder")["added"]
    document = library.document(added["document_id"])
    assert (document["type"], document["title"]) == ("note", "nginx reminder")
    assert [chunk["text"] for chunk in document["chunks"]] == [text]


def test_add_a_note_without_title(library: Library) -> None:
    text = "The key of the boat house hangs behind the second fuse box, left of the door that leads to the old slipway."
    (added,) = library.program.json("add", "--note", text)["added"]
    title = library.document(added["document_id"])["title"]
    assert len(title) <= 80
    assert text.startswith(title + " ")
    assert len(title) > 70, "no word more would fit"


# ---- deduplication ----


def test_add_a_file_that_is_already_indexed(library: Library, tmp_path: Path) -> None:
    path = shutil.copyfile(library.folder / "manual.pdf", tmp_path / "report.pdf")
    before = library.program.json("documents", "list", "--state", "all")["total"]
    assert library.program.run("add", str(path)).stdout == "Skipped: report.pdf (already indexed)\n"
    assert library.program.json("documents", "list", "--state", "all")["total"] == before


def test_add_a_modified_version_of_an_existing_file(library: Library, tmp_path: Path) -> None:
    path = another(library.page, tmp_path / "report.pdf", "first version")
    first = library.add(path)
    another(library.page, path, "second version")
    second = library.add(path)
    assert second["id"] != first["id"]
    assert [library.document(version["id"])["state"] for version in (first, second)] == ["current", "current"]


# ---- batches ----


def test_ingest_a_directory(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "deep" / "deeper").mkdir(parents=True)
    written(folder / "one.md", f"# One\n\n{paragraphs('directory one', 1)}")
    written(folder / "deep" / "deeper" / "two.txt", paragraphs("directory two", 1))
    shutil.copyfile(library.folder / "tables.pdf", folder / "deep" / "known.pdf")
    (folder / "deep" / "broken.pdf").write_bytes(b"%PDF-1.7\nno document at all\n")
    (folder / "archive.zip").write_bytes(b"PK")
    answer = library.program.run("add", str(folder), "--recursive", code=1)
    assert answer.stdout.splitlines()[-1] == "Added 2 documents. 1 failed. 1 skipped (already indexed)."
    assert "Skipped: known.pdf (already indexed)" in answer.stdout.splitlines()
    assert "broken.pdf" in answer.stderr
    again = library.program.json("add", str(folder), "--recursive", code=1)
    assert again["summary"] == "Added 0 documents. 1 failed. 3 skipped (already indexed)."
    assert {"path": str(folder / "archive.zip"), "reason": "unsupported"} in again["skipped"]


def test_resume_after_interruption(library: Library, tmp_path: Path) -> None:
    count = 30
    for number in range(count):
        written(tmp_path / f"part-{number:02}.md", f"# Part {number}\n\n{paragraphs(f'sluicegate {number}', 2)}")
    arguments = ("add", str(tmp_path), "--recursive", "--workers", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "kbsync", *arguments],
        env=library.program.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, stderr
    assert all(line.startswith("Added: part-") for line in lines)
    assert f"of {count} files" in stderr
    assert "same command again" in stderr
    done = sum(line.startswith("Added: ") for line in [*lines, *stdout.splitlines()])
    assert done < count, "it was over before it could be interrupted"
    again = library.program.run(*arguments).stdout.splitlines()
    skipped = sum(line.startswith("Skipped: ") for line in again)
    # One file was on its way: the daemon ended it, or this command waited for it.
    assert skipped in (done, done + 1)
    assert again[-1] == f"Added {count - skipped} documents. 0 failed. {skipped} skipped (already indexed)."
    paths = [
        hit["path"] for hit in library.daemon.client.get("search", q="sluicegate", mode="lexical", limit=99)["hits"]
    ]
    assert sorted(paths) == sorted(str(path) for path in tmp_path.iterdir()), "each file is there once"


def test_failed_file_during_batch(library: Library, tmp_path: Path) -> None:
    broken = tmp_path / "a-broken.pdf"
    broken.write_bytes(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<")
    written(tmp_path / "b-good.md", f"# Good\n\n{paragraphs('after a failure', 1)}")
    answer = library.program.json("add", str(tmp_path), "--recursive", code=1)
    assert [Path(added["path"]).name for added in answer["added"]] == ["b-good.md"]
    (failed,) = answer["failed"]
    assert failed["path"] == str(broken)
    lines = Path(library.program.places.error_log).read_text(encoding="utf-8").splitlines()
    (logged,) = [record for line in lines if (record := json.loads(line))["path"] == str(broken)]
    assert logged["error"] == failed["error"]


# ---- workers ----


def test_parallel_pdf_ingestion(library: Library) -> None:
    assert {Path(added["path"]).name for added in library.batch["added"]} == {
        "manual.pdf",
        "tables.pdf",
        "scan.pdf",
        "diagram.png",
    }
    # As many as are set, unless the machine has fewer cores or less memory.
    assert 1 <= library.slots <= WORKERS
    assert max(library.busy) == library.slots
    assert library.program.json("check")["ok"], "one writer: nothing came into another's way"


def test_override_worker_count(library: Library, tmp_path: Path) -> None:
    for number in range(3):
        another(library.page, tmp_path / f"single-{number}.pdf", f"worker {number}")
    arguments = ("add", str(tmp_path), "--recursive", "--workers", "1", "--json")
    with watched(library.program, library.daemon, *arguments) as (process, busy):
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
    assert answer["summary"] == "Added 3 documents. 0 failed. 0 skipped (already indexed)."
    assert max(busy) == 1
