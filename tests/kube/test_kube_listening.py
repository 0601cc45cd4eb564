"""A listening socket that is closed in the very turn in which a connection came."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings

import pytest
from aiohttp import web

from unisono.kube.listening import AppListener, stop_listening


class _Counting(asyncio.Protocol):
    """Counts connections that were handed over, and closes them."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)
        transport.close()


async def test_a_connection_of_the_last_moment_is_handed_over_and_not_forgotten() -> None:
    made: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(lambda: _Counting(made), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    with warnings.catch_warnings(record=True) as seen, socket.socket() as client:
        warnings.simplefilter("always")
        client.connect(address)
        # The loop polls and accepts in these turns, and would hand over in the next one.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await stop_listening(server)
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()
    assert len(made) == 1
    assert [str(one.message) for one in seen] == []
    assert not server.is_serving()


async def test_nobody_is_taken_any_more() -> None:
    made: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(lambda: _Counting(made), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    await stop_listening(server)
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(address)
    assert made == []


async def test_who_has_not_agreed_upon_tls_yet_is_cut_off_with_the_listener() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        listener = await AppListener.open(web.Application(), "127.0.0.1", 0, tls=tls)
        reader, writer = await asyncio.open_connection(*listener.address)
        for _ in range(5):
            await asyncio.sleep(0)
        await listener.close()
        assert await reader.read() == b"", "closed, though the server still waited for the first word"
        writer.close()
        await writer.wait_closed()
        del reader, writer
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()
    assert [str(one.message) for one in seen] == []


@pytest.mark.parametrize("turns", range(6))
async def test_who_is_cancelled_while_it_begins_to_listen_leaves_the_address_free(turns: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    opening = asyncio.create_task(AppListener.open(web.Application(), "127.0.0.1", port))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    (made,) = await asyncio.gather(opening, return_exceptions=True)
    if isinstance(made, AppListener):
        await made.close()
    with socket.create_server(("127.0.0.1", port)):
        pass
