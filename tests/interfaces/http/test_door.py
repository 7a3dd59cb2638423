"""The port: on 127.0.0.1 and nowhere else; without it the Unix socket is left, and a sentence says so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from kbsync.config.sections import HttpSettings
from kbsync.interfaces.http.door import open_door


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_port_0_is_any_free_one_of_this_machine_only(tmp_path: Path) -> None:
    door, shut = open_door(HttpSettings(port=0), str(tmp_path / "token"))
    assert door is not None
    with door.socket:
        assert shut is None
        assert door.socket.getsockname() == ("127.0.0.1", door.access.port)
        assert door.url == f"http://127.0.0.1:{door.access.port}"
        assert door.access.token == (tmp_path / "token").read_text().strip()


def test_a_taken_port_is_told_with_the_way_out(taken: int, tmp_path: Path) -> None:
    door, shut = open_door(HttpSettings(port=taken), str(tmp_path / "token"))
    assert door is None
    assert shut == (
        f"Port {taken} of 127.0.0.1 is taken by another program: the API answers on its Unix socket only. "
        "Set http.port to another one (0: any free one) and start again."
    )
    assert not (tmp_path / "token").exists()


def test_a_port_whose_last_user_has_just_ended_is_taken_again(tmp_path: Path) -> None:
    door, _ = open_door(HttpSettings(port=0), str(tmp_path / "token"))
    assert door is not None
    with socket.create_connection(("127.0.0.1", door.access.port)):
        accepted, _ = door.socket.accept()
        accepted.close()  # the side that closes first is the one that waits
    door.socket.close()
    again, shut = open_door(HttpSettings(port=door.access.port), str(tmp_path / "token"))
    assert again is not None, shut
    again.socket.close()


def test_a_token_that_cannot_be_written_is_told_and_the_port_let_go(tmp_path: Path) -> None:
    door, shut = open_door(HttpSettings(port=0), str(tmp_path / "absent" / "token"))
    assert door is None
    assert shut is not None
    assert "token" in shut


def test_no_door_is_opened_where_none_is_wanted(tmp_path: Path) -> None:
    assert open_door(HttpSettings(enabled=False), str(tmp_path / "token")) == (None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", [{"host": "0.0.0.0"}, {"port": -1}, {"port": 65536}])
def test_another_address_or_an_impossible_port_is_a_mistake_in_the_configuration(setting: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HttpSettings.model_validate(setting)
