"""Connections of applications that know no users: those that say nothing, or nothing more, give way to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

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
