"""A running engine behind its real socket, the model replaced by a hash of words: the whole road in milliseconds."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from kbsync import log
from kbsync.compose import Engine, build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.sections import HttpSettings
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.daemon.lock import DataLock
from kbsync.interfaces.cli.app import app
from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.door import Door, open_door
from kbsync.interfaces.http.server import Server
from kbsync.interfaces.operations import Operations
from tests.fakes.eventually import eventually
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams
from tests.fakes.lives import engine, started, world

__all__ = ["engine", "started", "world"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class Service:
    """The engine, what serves it, and a folder that it follows."""

    home: Path
    folder: Path
    engine: Engine
    daemon: Daemon
    socket_path: str
    door: Door

    @property
    def client(self) -> Client:
        return Client(self.socket_path)

    def ask(self, method: str, route: str, body: object = None, raw: bytes | None = None) -> Reply:
        """Send a request below /api/v1/; `raw` is a body that need not be JSON."""
        connection = _Connection(self.socket_path)
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1/{route}", content, headers)
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def ask_over_tcp(
        self, method: str, route: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request below /api/v1/ to the port, with these headers only."""
        return self.ask_the_port(method, f"/api/v1/{route}", content, headers)

    def ask_the_port(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request to the port, with these headers only."""
        connection = http.client.HTTPConnection("127.0.0.1", self.door.access.port, timeout=20)
        try:
            connection.request(method, path, content, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    @property
    def token(self) -> dict[str, str]:
        """Return the header that opens the door."""
        return {"Authorization": f"Bearer {self.door.access.token}"}

    def settle(self) -> None:
        ticket = self.daemon.rescan()
        eventually(lambda: self.daemon.settled(ticket))

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder and wait until it is dealt with."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        # Old enough to be taken at the first look.
        os.utime(path, (1_700_000_000, 1_700_000_000))
        self.settle()
        return path

    def command(self, *arguments: str) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(app, list(arguments), env={"KBSYNC_HOME": str(self.home)})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    base = tmp_path_factory.mktemp("service").resolve()
    home, folder = base / "home", base / "folder"
    home.mkdir()
    folder.mkdir()
    (home / "config.toml").write_text(f'workers = 2\n[[sources]]\npath = "{folder}"\n')
    places = locate({"KBSYNC_HOME": str(home)})
    # As `run` does it: unconfigured, what the threads log would stand in the output of the commands.
    log.configure(places.log_file, "info", terminal=False)
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    engine = open_engine(places, load_settings(places.config_file), hashed_seams(HashDevice()))
    daemon = build_daemon(engine)
    socket_path = places.socket_path()
    door, shut = open_door(HttpSettings(port=0), places.token_file)
    assert door is not None, shut
    operations = Operations(engine, daemon, [door.url, f"unix:{socket_path}"])
    server = Server(build_app(operations, door.access), socket_path, door)
    try:
        daemon.start()
        assert engine.batcher.wait_ready(30.0)
        server.start()
        lock.publish("daemon", socket_path)
        yield Service(home, folder, engine, daemon, socket_path, door)
    finally:
        server.stop()
        daemon.stop()
        engine.close()
        structlog.reset_defaults()
        lock.release()
