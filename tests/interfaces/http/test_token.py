"""The token: made once, private, and replaced where others could have read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kbsync.interfaces.http.token import token_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


def test_it_is_made_once_for_its_owner_only_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        token = token_at(str(path))
    finally:
        os.umask(before)
    assert len(token) >= 43
    assert token_at(str(path)) == token == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_two_are_alike(tmp_path: Path) -> None:
    assert len({token_at(str(tmp_path / str(number))) for number in range(50)}) == 50


def test_one_that_a_person_chose_is_kept(path: Path) -> None:
    path.write_text("a" * 32 + "\n")
    path.chmod(0o600)
    assert token_at(str(path)) == "a" * 32


@pytest.mark.parametrize("content", ["", "short", "a" * 31, "with a blank " * 4, "\x00" * 40, "ä" * 40, "a" * 2000])
def test_what_is_no_token_is_replaced(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
    assert token_at(str(path)) != content.strip()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_one_that_others_could_read_or_write_is_replaced(path: Path, mode: int) -> None:
    token = token_at(str(path))
    path.chmod(mode)
    assert token_at(str(path)) != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_what_it_points_at_left_alone(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("b" * 40)
    target.chmod(0o600)
    path.symlink_to(target)
    assert token_at(str(path)) != "b" * 40
    assert (target.read_text(), path.is_symlink()) == ("b" * 40, False)


def test_a_pipe_in_its_place_holds_nothing_up(path: Path) -> None:
    os.mkfifo(path)
    assert path.is_fifo()
    token_at(str(path))
    assert path.is_file()


def test_what_a_crash_left_is_in_nobodys_way(path: Path) -> None:
    path.with_name("token.new").write_text("half")
    token = token_at(str(path))
    assert path.read_text().strip() == token
    assert not path.with_name("token.new").exists()
