"""The network between one component and its API server, as a TCP proxy: it can fall silent, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

from unisono.kube.kubeconfig import ClusterConfig

_PIECE = 1 << 16


class Link:
    """Carries bytes as they are, so that TLS is between the two ends.

    A network that is cut says nothing: connections stay open, new ones are taken, and no byte arrives. What was sent
    meanwhile is lost with its connections when the network is back, as after the resets of a router.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._whole = asyncio.Event()
        self._whole.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._since_cut: set[asyncio.StreamWriter] = set()
        self.connections = 0

    def cut(self) -> None:
        """No byte arrives from now on."""
        self._whole.clear()
        self._since_cut = set(self._writers)

    def mend(self) -> None:
        """The network is back; connections of the time before are reset."""
        for writer in self._since_cut:
            writer.transport.abort()
        self._since_cut = set()
        self._whole.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        self.connections += 1
        self._writers.add(writer)
        if not self._whole.is_set():
            self._since_cut.add(writer)
        try:
            await self._whole.wait()
            there, back = await asyncio.open_connection(*self._target)
            self._writers.add(back)
            try:
                await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except OSError:
            pass  # The server is down: so it looks to who asks.
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._whole.wait()
                writer.write(piece)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def linked(config: ClusterConfig) -> AsyncIterator[tuple[ClusterConfig, Link]]:
    """The cluster as it is reached through the link, and the link."""
    address = urlsplit(config.server)
    link = Link(address.hostname or "", address.port or 443)
    carried: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(link.serve(reader, writer))
        carried.add(task)
        task.add_done_callback(carried.discard)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield replace(config, server=f"{address.scheme}://127.0.0.1:{port}"), link
    finally:
        server.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        await server.wait_closed()
