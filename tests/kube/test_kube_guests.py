"""Connections that say nothing do not keep others from an application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from unisono.kube.listening import AppListener, Guests

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def for_ever(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


async def listening(guests: Guests) -> AppListener:
    app = web.Application()
    app.router.add_get("/", hello)
    app.router.add_get("/stream", for_ever)
    return await AppListener.open(app, "127.0.0.1", 0, guests=guests, patience=0.1)


class Client:
    """Opens connections, and ends them with the test."""

    def __init__(self, listener: AppListener) -> None:
        self._listener = listener
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, data: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self._listener.address)
        self._writers.append(writer)
        writer.write(data)
        return reader

    async def is_answered(self) -> bool:
        return b" 200 " in await (await self.connect(REQUEST)).readline()

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)
        await self._listener.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes before the server ends the connection."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.fixture
async def few() -> AsyncIterator[Client]:
    client = Client(await listening(Guests(most=3, head_seconds=1000.0)))
    yield client
    await client.close()


async def test_the_oldest_that_has_said_nothing_gives_way(few: Client) -> None:
    silent = [await few.connect(b"GET / HT") for _ in range(10)]
    assert await few.is_answered()
    assert await rest(silent[0]) == b""


async def test_one_that_was_answered_gives_way_and_a_stream_does_not(few: Client) -> None:
    stream = await few.connect(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    await stream.readuntil(b"begun")
    idle = [await few.connect(REQUEST) for _ in range(2)]
    for reader in idle:
        await reader.readuntil(b"hello")
    assert await few.is_answered()
    assert await rest(idle[0]) == b""
    assert not stream.at_eof()


async def test_a_head_that_does_not_come_ends_the_connection() -> None:
    client = Client(await listening(Guests(head_seconds=0.01)))
    assert await rest(await client.connect(b"GET / HT")) == b""
    await client.close()
