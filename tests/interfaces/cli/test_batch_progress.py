"""The progress bar of `kbsync add` shows files, pages, the file being read, the rate and the time left."""

from __future__ import annotations

import io
import re

from kbsync.interfaces.cli.batch_progress import BatchProgress


def shown(done: int, total: int, pages: int, current: str | None) -> str:
    terminal = io.StringIO()
    progress = BatchProgress(terminal)
    progress.show(0, total, 0, None)
    terminal.seek(0)
    terminal.truncate()
    progress.show(done, total, pages, current)
    text = terminal.getvalue()
    progress.close()
    return text


def test_all_figures_are_on_the_line() -> None:
    text = shown(3, 12, 40, "/papers/report.pdf")
    assert "adding" in text
    assert " 3/12 " in text
    assert "40 pages, report.pdf" in text
    assert re.search(r"\d\d:\d\d<\d\d:\d\d", text), "elapsed and left"
    assert re.search(r"(file/s|s/file)", text)


def test_a_name_cannot_steer_the_terminal_nor_push_the_figures_away() -> None:
    text = shown(1, 2, 0, "/x/\x1b[2Jevil\n" + "long" * 40 + ".pdf")
    assert "evil" in text
    assert "\x1b[2J" not in text
    assert "\n" not in text
    assert len(text) < 160


def test_a_line_printed_beside_the_bar_stands_alone() -> None:
    terminal = io.StringIO()
    progress = BatchProgress(terminal)
    progress.show(1, 2, 0, None)
    with progress.aside():
        terminal.write("Added: a.md (1 chunk)\n")
    progress.close()
    before, _, _ = terminal.getvalue().partition("Added: a.md (1 chunk)\n")
    assert before.endswith("\r"), "the bar was taken away first"


def test_nothing_is_shown_before_there_are_files() -> None:
    terminal = io.StringIO()
    progress = BatchProgress(terminal)
    with progress.aside():
        pass
    progress.close()
    assert terminal.getvalue() == ""
