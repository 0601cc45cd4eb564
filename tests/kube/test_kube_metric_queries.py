"""Asking servers of metrics over the network: Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from unisono.controllers.metrics import MetricError
from unisono.kube.fetching import NetworkMetrics

ASKED = b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*2\r\n$4\r\nLLEN\r\n$4\r\nwork\r\n"


@asynccontextmanager
async def redis(*answers: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that reads one question and says these; without any it says nothing."""
    heard: list[bytes] = []
    served: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        heard.append(await reader.readexactly(len(ASKED)))
        writer.write(b"".join(answers))
        await writer.drain()
        if not answers:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        await asyncio.gather(*filter(None, served), return_exceptions=True)


async def test_the_length_of_a_list() -> None:
    async with redis(b"+OK\r\n", b":42\r\n") as (port, heard):
        assert await NetworkMetrics(MetricError).redis_length("127.0.0.1", port, 2, "work") == 42.0
        assert heard == [ASKED]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((b"-ERR DB index is out of range\r\n", b":0\r\n"), "DB index is out of range"),
        ((b"+OK\r\n", b"-WRONGTYPE Operation against a key\r\n"), "WRONGTYPE"),
        ((b"-NOAUTH Authentication required.\r\n", b"-NOAUTH\r\n"), "NOAUTH"),
        ((b"+OK\r\n", b"+hello\r\n"), "answers no number"),
        ((b"+OK\r\n",), "cannot be reached"),
        ((b"x" * 100_000,), "cannot be reached"),
        ((), "does not answer within"),
    ],
)
async def test_what_is_no_length(answers: tuple[bytes, ...], told: str) -> None:
    failed: Callable[[str], Exception] = MetricError
    async with redis(*answers) as (port, _):
        with pytest.raises(MetricError, match=told):
            await NetworkMetrics(failed, timeout_seconds=0.3).redis_length("127.0.0.1", port, 2, "work")


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (403, b"token=secret", "answers status 403: no answer of Prometheus"),
        (200, b"token=secret", "answers no JSON"),
        (400, b'{"token":"secret"}', "answers status 400: no answer of Prometheus"),
        (400, b'{"status":"error","error":"bad query","token":"secret"}', "answers status 400: bad query"),
    ],
)
async def test_nothing_is_told_of_what_is_no_prometheus(status: int, body: bytes, told: str) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        with pytest.raises(MetricError, match=told) as caught:
            await NetworkMetrics(MetricError).prometheus(address, "up")
        assert "secret" not in str(caught.value)
        await ended.wait()
    finally:
        server.close()
