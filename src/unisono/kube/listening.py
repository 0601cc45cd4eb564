"""Sockets that take connections: closed so that none which came at the last moment is left open."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiohttp import web


async def stop_listening(server: asyncio.Server) -> None:
    """Take no more connections; those that were taken go on.

    A connection is accepted in one turn of the event loop and handed over in the next. asyncio cannot hand over what
    it accepted just before ``close``: the socket would stay open until the garbage collector finds it. So nothing is
    accepted any more first, and the server is closed a turn later.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    try:
        await asyncio.sleep(0)
    finally:
        server.close()


class AppListener:
    """An HTTP application at an address, until it is closed.

    Attributes:
        address: host and port that it listens on.

    """

    def __init__(self, runner: web.AppRunner, server: asyncio.Server, handshakes: set[asyncio.Task[Any]]) -> None:
        self._runner, self._server, self._handshakes = runner, server, handshakes
        self.address: tuple[str, int] = server.sockets[0].getsockname()[:2]

    @classmethod
    async def open(
        cls, app: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None, patience: float = 60.0
    ) -> AppListener:
        """Listen.

        Args:
            app: answers the requests.
            host: address of this machine; empty for every one.
            port: 0 takes any that is free.
            tls: speaks HTTPS with this; plain HTTP without.
            patience: seconds that requests have to end when the listener is closed.

        Raises:
            OSError: nothing can listen there.

        """
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=patience)
        await runner.setup()
        handshakes: set[asyncio.Task[Any]] = set()

        def taken() -> asyncio.BaseProtocol:
            # Until TLS is agreed upon, a connection is known to nobody but the task that asks for its protocol.
            if (task := asyncio.current_task()) is not None:
                handshakes.add(task)
                task.add_done_callback(handshakes.discard)
            assert runner.server is not None  # set by setup
            return runner.server()

        server: asyncio.Server | None = None
        try:
            # In two steps: who is cancelled while it begins to listen must still be able to close what listens.
            loop = asyncio.get_running_loop()
            server = await loop.create_server(taken, host or None, port, ssl=tls, start_serving=False)
            await server.start_serving()
        except BaseException:
            if server is not None:
                server.close()
            await runner.cleanup()
            raise
        return cls(runner, server, handshakes)

    async def close(self) -> None:
        """Take no more connections, let requests end, and close what is left."""
        await stop_listening(self._server)
        begun = list(self._handshakes)
        for handshake in begun:
            handshake.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await self._runner.cleanup()
