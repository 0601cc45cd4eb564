"""A listener: too few descriptors, too many clients, clients that don't speak TLS."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Any

import pytest
import structlog

from unisono.kube.listening import Listener


class Waiting(asyncio.Protocol):
    """A connection that only counts."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


class Scarce:
    """A listening socket of a process that has no descriptor left."""

    def __init__(self, bound: socket.socket) -> None:
        self._bound, self.tried = bound, 0

    def accept(self) -> Any:
        self.tried += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bound, name)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_without_descriptors_it_waits_and_says_so_once() -> None:
    bound = Scarce(socket.create_server(("127.0.0.1", 0)))
    listener = Listener(bound, lambda address: Waiting([]))  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as told, socket.create_connection(bound.getsockname()):
        listener.start()
        await turns()
        listener._resume()
        await turns()
        await listener.close()
    assert bound.tried == 2
    assert [each["event"] for each in told] == ["connections.not_accepted"]


async def test_it_accepts_nothing_where_there_is_no_room() -> None:
    made: list[asyncio.BaseTransport] = []
    waits = [0.001, 0.0]
    bound = socket.create_server(("127.0.0.1", 0))
    listener = Listener(bound, lambda address: Waiting(made), room=lambda: waits.pop(0) if len(waits) > 1 else waits[0])
    with socket.create_connection(bound.getsockname()):
        listener.start()
        while not made:
            await asyncio.sleep(0)
        assert waits == [0.0]
        made[0].close()  # type: ignore[attr-defined]
        await listener.close()


async def test_a_connection_that_is_refused_is_closed() -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    listener = Listener(bound, lambda address: None)
    listener.start()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    assert await reader.read() == b""
    writer.close()
    await listener.close()


@pytest.mark.parametrize("how", ["drop", "close", "garbage"])
async def test_a_handshake_that_does_not_end_is_ended(how: str) -> None:
    made: list[asyncio.BaseTransport] = []
    lost: list[asyncio.BaseProtocol] = []
    taken: list[asyncio.BaseProtocol] = []

    def take(address: str) -> asyncio.BaseProtocol:
        assert address == "127.0.0.1"
        taken.append(Waiting(made))
        return taken[0]

    bound = socket.create_server(("127.0.0.1", 0))
    listener = Listener(bound, take, lost=lost.append, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    listener.start()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    while not taken:
        await asyncio.sleep(0)
    if how == "garbage":
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
    elif how == "drop":
        listener.drop(taken[0])
    else:
        await listener.close()
    async with asyncio.timeout(300):
        await reader.read()
    writer.close()
    while not lost:
        await asyncio.sleep(0)
    assert (lost, made) == (taken, [])
    await listener.close()
