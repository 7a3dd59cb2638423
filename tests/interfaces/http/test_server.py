"""The server over real sockets: both ways in, what is no HTTP, clients that dawdle, and too many of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.http.app import build_app
from kbsync.interfaces.http.server import LimitedProtocol, Server
from kbsync.interfaces.operations import Operations
from tests.fakes.clocked_loop import pass_time, run_by
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine
from tests.interfaces.conftest import Service


def said_raw(service: Service, request: bytes) -> bytes:
    """Send bytes to the port and return the answer's first line."""
    with socket.create_connection(("127.0.0.1", service.door.access.port), timeout=20) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answer:
            return answer.readline().strip()


def test_both_ways_lead_to_the_same_knowledge_base(service: Service) -> None:
    over_socket, over_tcp = service.ask("GET", "status"), service.ask_over_tcp("GET", "status", headers=service.token)
    assert (over_socket.status, over_tcp.status) == (200, 200)
    assert over_socket.json()["pid"] == over_tcp.json()["pid"] == os.getpid()


def test_without_the_token_nothing_is_told(service: Service) -> None:
    for route in ("status", "openapi.json", "nothing", "events"):
        reply = service.ask_over_tcp("GET", route)
        assert (reply.status, reply.json()["kind"]) == (401, "UsageError")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /api/v1/status HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /api/v1/status HTTP/1.0\r\n\r\n", b"403"),
        (b"GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET http://evil.example/api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", b"401"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_proper_request_is_refused(service: Service, request_: bytes, status: bytes) -> None:
    assert said_raw(service, request_).split(b" ")[1] == status


def test_a_long_address_is_never_answered(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.door.access.port), timeout=20) as connection:
        try:
            connection.sendall(b"GET /api/v1/search?q=" + b"a" * 10_000_000)
            answer = connection.recv(64)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""  # it was closed before all was sent
    assert answer.partition(b"\r\n")[0] in (b"", b"HTTP/1.1 400 Bad Request")


def test_a_crowd_at_the_port_keeps_nobody_from_the_socket(service: Service) -> None:
    crowd = [
        socket.create_connection(("127.0.0.1", service.door.access.port), timeout=60)
        for _ in range(100)  # below the backlog: more would wait for the kernel
    ]
    try:
        assert service.ask("GET", "status").status == 200
    finally:
        for connection in crowd:
            connection.close()


class PatientProtocol(LimitedProtocol):
    head_s = 3600.0


def test_of_a_crowd_that_says_nothing_only_so_many_stay() -> None:
    async def crowd() -> tuple[int, bytes]:
        config = uvicorn.Config(answered, log_config=None, lifespan="off", ws="none", limit_concurrency=4)
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: PatientProtocol(config, state, {}), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        opened = [await asyncio.open_connection(*address) for _ in range(20)]
        # Those that are turned away hear it at once; of the others nobody hears anything.
        ends = [asyncio.create_task(reader.read()) for reader, _ in opened]
        while sum(end.done() for end in ends) < 12:
            await asyncio.wait([end for end in ends if not end.done()], return_when=asyncio.FIRST_COMPLETED)
        staying = [index for index, end in enumerate(ends) if not end.done()]
        writer = opened[staying[0]][1]
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await ends[staying[0]]
        for _, other in opened:
            other.close()
        await asyncio.gather(*ends, return_exceptions=True)
        server.close()
        return len(staying), answer

    staying, answer = asyncio.run(asyncio.wait_for(crowd(), 60))
    assert staying == 8
    assert answer.startswith(b"HTTP/1.1 503")


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    """Wait for the whole body, then answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def said_to_a_slow_client(first: bytes, pause_s: float, rest: bytes) -> bytes:
    """Send `first`, have it read, let time pass and send the rest; return the answer, to the connection's end."""
    clock = ManualClock()

    async def talk() -> bytes:
        config = uvicorn.Config(answered, log_config=None, lifespan="off", ws="none", timeout_keep_alive=3600)
        state = ServerState()
        read, all_read = bytearray(), asyncio.Event()

        def note(data: bytes) -> None:
            read.extend(data)
            if read == first:
                all_read.set()

        class Protocol(LimitedProtocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as there
                super().connection_made(transport)
                note(b"")

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                note(data)

        server = await asyncio.get_running_loop().create_server(lambda: Protocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(first)
        await all_read.wait()
        await pass_time(clock, pause_s)
        writer.write(rest)
        answer = await reader.read()
        writer.close()
        server.close()
        return answer

    return run_by(clock, talk())


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: local", b""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT", b"HTTP/1.1 200 OK"),
    ],
    ids=["nothing", "half a request", "one and a half"],
)
def test_a_connection_without_a_whole_request_is_closed(sent: bytes, received: bytes) -> None:
    assert said_to_a_slow_client(sent, LimitedProtocol.head_s, b"").partition(b"\r\n")[0] == received


def test_a_body_that_takes_longer_than_a_head_may_is_read() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
    assert said_to_a_slow_client(head + b"ab", 3 * LimitedProtocol.head_s, b"cd").startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("in_the_way", ["a dead socket", "a file", "a link"])
def test_what_lies_where_the_socket_goes_is_replaced(engine: SimulatedEngine, tmp_path: Path, in_the_way: str) -> None:
    path, target = tmp_path / "kbsync.sock", tmp_path / "target"
    target.write_text("kept")
    if in_the_way == "a dead socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    elif in_the_way == "a file":
        path.write_text("old")
    else:
        path.symlink_to(target)
    server = Server(build_app(Operations(engine.engine, None)), str(path))
    server.start()
    try:
        assert stat.S_ISSOCK(path.lstat().st_mode)
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert target.read_text() == "kept"
    finally:
        server.stop()
        server.stop()
    assert not path.exists()


def test_a_socket_that_somebody_removed_is_made_anew_with_its_folder(engine: SimulatedEngine, tmp_path: Path) -> None:
    """P18: no command would find the daemon any more."""
    path = tmp_path / "state" / "kbsync.sock"
    server = Server(build_app(Operations(engine.engine, None)), str(path))
    server.start()
    try:
        for removed in (path, path.parent):
            path.unlink()
            if removed is path.parent:
                path.parent.rmdir()
            server.keep()
            assert server.alive()
            assert Client(str(path)).get("status")["pid"] == os.getpid()
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        shutil.rmtree(path.parent)
        path.parent.mkdir(mode=0o777)
        path.parent.chmod(0o777)
        server.keep()
        assert not path.exists(), "whose folder it is nobody knows"
        path.parent.chmod(0o700)
        server.keep()
        assert path.exists()
    finally:
        server.stop()
    server.keep()
    assert not path.exists()
