"""Sockets that take connections: none is lost at the end, silent ones give way, and files suffice for all."""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import resource
import select
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from unisono.errors import system_reason

# The limit on open files of this process: raised for a server, and given back to the programs that it starts.

_given = resource.getrlimit(resource.RLIMIT_NOFILE)


def open_files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def raise_open_files() -> int:
    """Raise the soft limit to the hard one, and return what holds now.

    Programs that use ``select`` break where descriptors are above 1023, so the soft limit is low by default; an event
    loop doesn't use it.
    """
    _, hard = _given
    with contextlib.suppress(OSError, ValueError):  # some systems refuse "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return open_files()


def give_back(pid: int) -> None:
    """Give a child process the limit that this one was started with."""
    # It may have ended; where there is no prlimit (macOS), it keeps the raised one.
    with contextlib.suppress(OSError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _given)


# Connections of applications that know no users: those that say nothing, or nothing more, give way to others.

MOST = 1000
"""Open connections of one application."""
HEAD_SECONDS = 10.0
"""Time in which the head of the first request must have come."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guests:
    """The open connections of one application."""

    def __init__(self, most: int = MOST, head_seconds: float = HEAD_SECONDS) -> None:
        self._most, self._head_seconds = most, head_seconds
        # Oldest first; what has ended is found when there is no room.
        self._open: dict[asyncio.BaseProtocol, None] = {}
        self._silent: set[asyncio.BaseProtocol] = set()
        self._busy: set[asyncio.BaseProtocol] = set()

    def watch(self, app: web.Application) -> None:
        """Hear of the application's requests; before it is set up."""
        app.middlewares.insert(0, self._heard)

    def admit(self, protocol: asyncio.BaseProtocol) -> None:
        """Take a connection, in the place of another one where there are too many."""
        if len(self._open) >= self._most:
            self._make_room()
        self._open[protocol] = None
        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(self._head_seconds, self._judge, protocol, True)

    @web.middleware
    async def _heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        protocol = request.protocol
        self._silent.discard(protocol)
        self._busy.add(protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(protocol)

    def _judge(self, protocol: asyncio.BaseProtocol, again: bool) -> None:
        if protocol not in self._silent:
            return
        if again and getattr(protocol, "transport", None) is None:
            # It may be about to agree on TLS, which has a time limit of its own.
            asyncio.get_running_loop().call_later(self._head_seconds, self._judge, protocol, False)
        else:
            self._end(protocol)

    def _make_room(self) -> None:
        for protocol in [each for each in self._open if each not in self._busy and _has_ended(each)]:
            self._forget(protocol)
        if len(self._open) < self._most:
            return
        idle = (each for each in self._open if each not in self._busy)
        spare = next((each for each in self._open if each in self._silent), None) or next(idle, None)
        self._end(spare or next(iter(self._open)))

    def _end(self, protocol: asyncio.BaseProtocol) -> None:
        self._forget(protocol)
        transport = getattr(protocol, "transport", None)
        if transport is not None:
            transport.abort()

    def _forget(self, protocol: asyncio.BaseProtocol) -> None:
        self._open.pop(protocol, None)
        self._silent.discard(protocol)


def _has_ended(protocol: asyncio.BaseProtocol) -> bool:
    """Also of one that has not agreed on TLS yet: that has a time limit of its own."""
    transport = getattr(protocol, "transport", None)
    return transport is None or transport.is_closing()


# Sockets that take connections: closed so that none which came at the last moment is left open.

_BACKLOG = 1024
# Connections accepted in one turn of the event loop.
_AT_ONCE = 32
# Pause after the system had no descriptor or memory for a connection.
_SHORTAGE_SECONDS = 1.0
# Time in which a client of an application must agree on TLS.
_HANDSHAKE_SECONDS = 10.0

# asyncio gives each TLS connection a buffer of 256 KiB, which is most of what an idle connection costs.
_TLS_BUFFER = 32 * 1024

_log = structlog.get_logger(__name__)


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


class Listener:
    """Accepts connections at a socket, a few per turn of the event loop.

    asyncio's own loop goes on accepting when no file descriptor is left, a hundred times a second and more; this one
    says so once and looks again after a second.

    Args:
        bound: where to accept; closed with the listener.
        take: gives the protocol for a connection from an address, None to refuse it.
        lost: hears of a protocol whose TLS was not agreed: it is never connected.
        tls: speaks TLS with this; plain without.
        room: seconds to wait before another connection is accepted, 0 for none.
        handshake_seconds: time in which TLS must be agreed.
        shutdown_seconds: time in which the end of TLS must be answered.
    """

    def __init__(
        self,
        bound: socket.socket,
        take: Callable[[str], asyncio.BaseProtocol | None],
        *,
        lost: Callable[[Any], None] = lambda protocol: None,
        tls: ssl.SSLContext | None = None,
        room: Callable[[], float] = lambda: 0.0,
        handshake_seconds: float = 10.0,
        shutdown_seconds: float = 5.0,
    ) -> None:
        self._bound, self._take, self._lost, self._room = bound, take, lost, room
        self._tls: dict[str, Any] = {}
        if tls is not None:
            asyncio.sslproto.SSLProtocol.max_size = _TLS_BUFFER
            self._tls = {
                "ssl": tls,
                "ssl_handshake_timeout": handshake_seconds,
                "ssl_shutdown_timeout": shutdown_seconds,
            }
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._begun: dict[asyncio.BaseProtocol, asyncio.Task[Any]] = {}
        self._waiting = select.poll()
        self._short = False
        self._open = False

    def start(self) -> None:
        """Accept connections from now on."""
        self._bound.setblocking(False)
        self._bound.listen(_BACKLOG)
        self._waiting.register(self._bound, select.POLLIN)
        self._open = True
        self._loop.add_reader(self._bound, self._accept)

    def drop(self, protocol: asyncio.BaseProtocol) -> None:
        """End a connection that has not agreed on TLS."""
        if (task := self._begun.get(protocol)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Accept no more, and end what has not agreed on TLS; those that are connected go on."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._bound)
        if self._pause is not None:
            self._pause.cancel()
        self._bound.close()
        begun = list(self._begun.values())
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            # Room is made for a connection that waits, at the cost of others, and for no other.
            if not self._waiting.poll(0):
                return
            if seconds := self._room():
                self._rest(seconds)
                return
            try:
                connection, address = self._bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                if not self._short:
                    _log.error("connections.not_accepted", error=system_reason(error))
                self._short = True
                self._rest(_SHORTAGE_SECONDS)
                return
            self._short = False
            connection.setblocking(False)
            protocol = self._take(address[0] if isinstance(address, tuple) else "")
            if protocol is None:
                connection.close()
                continue
            connecting = self._loop.connect_accepted_socket(partial(_same, protocol), connection, **self._tls)
            task = self._begun[protocol] = self._loop.create_task(connecting)
            task.add_done_callback(partial(self._agreed, protocol, connection))

    def _rest(self, seconds: float) -> None:
        """Leave what comes to the kernel for a while."""
        self._loop.remove_reader(self._bound)
        self._pause = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._bound, self._accept)

    def _agreed(self, protocol: asyncio.BaseProtocol, connection: socket.socket, task: asyncio.Task[Any]) -> None:
        del self._begun[protocol]
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            # One that had not begun has no transport that would close it.
            connection.close()
        if task.cancelled() or error is not None:
            self._lost(protocol)
        if error is not None and not isinstance(error, OSError):  # clients that leave, and what TLS finds wrong
            _log.error("connection.failed", error=f"{type(error).__name__}: {error}")


def _same(protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
    return protocol


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
        cls,
        app: web.Application,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = 60.0,
        bound: socket.socket | None = None,
        guests: Guests | None = None,
    ) -> AppListener:
        """Listen.

        Args:
            app: answers the requests.
            host: address of this machine; empty for every one.
            port: 0 takes any that is free.
            tls: speaks HTTPS with this; plain HTTP without.
            patience: seconds that requests have to end when the listener is closed.
            bound: listen there, and not at host and port.
            guests: bounds the connections.

        Raises:
            OSError: nothing can listen there.
        """
        guests = guests or Guests()
        guests.watch(app)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=patience)
        await runner.setup()
        handshakes: set[asyncio.Task[Any]] = set()

        def taken() -> asyncio.BaseProtocol:
            # Until TLS is agreed upon, a connection is known only to the task that asks for its protocol.
            if (task := asyncio.current_task()) is not None:
                handshakes.add(task)
                task.add_done_callback(handshakes.discard)
            assert runner.server is not None  # set by setup
            protocol = runner.server()
            guests.admit(protocol)
            return protocol

        server: asyncio.Server | None = None
        secured: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
        try:
            # In two steps: who is cancelled while it begins to listen must still be able to close what listens.
            loop = asyncio.get_running_loop()
            if bound is None:
                server = await loop.create_server(taken, host or None, port, start_serving=False, **secured)
            else:
                server = await loop.create_server(taken, sock=bound, start_serving=False, **secured)
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
