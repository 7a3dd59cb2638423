"""Adding over the socket: what a command sends arrives as it was meant, names that are no UTF-8 too."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kbsync.errors import UsageError
from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.cli.remote import Remote
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.server import Server
from kbsync.interfaces.operations import Operations
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PAPER = f"{NOTES}/paper.pdf"


@pytest.fixture
def remote(engine: SimulatedEngine) -> Iterator[Remote]:
    """Return what a command talks to: the engine behind its socket."""
    path = engine.world.locations.socket_path()
    server = Server(build_app(Operations(engine.engine, None)), path)
    server.start()
    yield Remote(Client(path))
    server.stop()
    engine.world.locations.forget_socket(path)


def test_ocr_mode_and_password_file_travel_with_the_files(engine: SimulatedEngine, remote: Remote) -> None:
    passwords = os.fsdecode(bytes(engine.world.home) + b"/pass\xff words")
    with open(passwords, "w", encoding="utf-8") as file:
        file.write("1234\n")
    engine.fs.write(PAPER, b"password 1234\nquince")
    answer = remote.add([PAPER], "Orchard", None, None, "never", passwords)
    assert [job["path"] for job in answer["jobs"]] == [PAPER]
    engine.settle()
    assert engine.found("quince") == [PAPER]
    assert {request.ocr for request in engine.cage.requests} == {"never"}


def test_an_unknown_ocr_mode_is_refused_with_those_that_there_are(remote: Remote) -> None:
    with pytest.raises(UsageError, match=r"'sometimes'. Modes: auto, always, never."):
        remote.add([PAPER], None, None, None, "sometimes")


def test_status_tells_how_documents_are_converted(remote: Remote) -> None:
    assert remote.status()["conversion"]["children"][0]["state"] == "idle"
