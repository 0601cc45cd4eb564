"""Connections that have left HTTP: bytes in, bytes out, at the pace of the slower reader."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from typing import Protocol, Self

from aiohttp import WSCloseCode, WSMsgType, web
from multidict import CIMultiDict

from unisono.apiserver.http.exchange import Exchange

_READ_AHEAD = 256 * 1024
_PIECE = 64 * 1024
# Clients send pieces of 32 KiB. What has come of a message is in memory, and so is the one behind it.
_LARGEST = 1 << 20


class Wire(Protocol):
    """Bytes in both directions."""

    async def receive(self) -> bytes:
        """The next bytes; empty when the client is gone."""
        ...

    async def turn(self, weight: int = 1) -> None:
        """Let others run before the next message or frame is worked on, which counts as ``weight`` of them."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; returns when the connection takes more.

        Raises:
            ConnectionError: the client is gone.
        """
        ...


class _Idle:
    """Ends a connection on which nothing has moved for long, as a context around its use.

    Args:
        exchange: whose connection it is, and how long it may be idle.
    """

    def __init__(self, exchange: Exchange) -> None:
        transport = exchange.request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        self._transport = transport
        self._seconds, self.turn = exchange.limits.session_idle_seconds, exchange.turn
        self._turn_to_send = exchange.turn_to_send
        self._loop = asyncio.get_running_loop()
        self._moved = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._look()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _move(self) -> None:
        self._moved = self._loop.time()

    def _look(self) -> None:
        if self._loop.time() >= self._moved + self._seconds:
            self._transport.abort()
        else:
            self._timer = self._loop.call_at(self._moved + self._seconds, self._look)


class WebSocketWire(_Idle):
    """The messages of a WebSocket, one after the other."""

    def __init__(self, exchange: Exchange, socket: web.WebSocketResponse) -> None:
        super().__init__(exchange)
        self._socket = socket

    async def receive(self) -> bytes:
        """The next message."""
        while True:
            # What has come is handed out without a pause, and a message may be empty.
            await self.turn()
            message = await self._socket.receive()
            self._move()
            if message.type is WSMsgType.BINARY:
                data = bytes(message.data)
            elif message.type is WSMsgType.TEXT:
                data = str(message.data).encode()
            else:
                return b""
            if data:
                return data

    async def send(self, data: bytes) -> None:
        """Send a message."""
        await self._turn_to_send(len(data))
        await self._socket.send_bytes(data)
        self._move()


class RawWire(_Idle):
    """The connection itself, after ``101 Switching Protocols``.

    aiohttp hands what comes to a parser; this one keeps the bytes for ``receive`` and stops the transport while no one
    takes them.
    """

    def __init__(self, exchange: Exchange, response: web.StreamResponse) -> None:
        super().__init__(exchange)
        self._response = response
        self._buffer = bytearray()
        self._ended = False
        self._news = asyncio.Event()
        exchange.request.protocol.keep_alive(False)
        exchange.request.protocol.set_parser(self)  # type: ignore[arg-type]  # anything that is fed will do

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by aiohttp with what came."""
        self._buffer += data
        self._move()
        if len(self._buffer) >= _READ_AHEAD:
            self._transport.pause_reading()
        self._news.set()
        return False, b""

    def feed_eof(self) -> None:
        """Called by aiohttp at the end of the connection."""
        self._ended = True
        self._news.set()

    async def receive(self) -> bytes:
        """What came since the last call."""
        while not self._buffer and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if len(data) >= _READ_AHEAD and not self._transport.is_closing():
            self._transport.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        if self._ended or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        for start in range(0, len(data), _PIECE):
            await self._turn_to_send(min(len(data) - start, _PIECE))
            await self._response.write(data[start : start + _PIECE])
            self._move()


async def open_web_socket(exchange: Exchange, protocol: str) -> web.WebSocketResponse:
    """Answer a WebSocket's handshake; every message is given as bytes."""
    socket = web.WebSocketResponse(protocols=[protocol] if protocol else [], compress=False, max_msg_size=_LARGEST)
    socket.headers.update(CIMultiDict([("Audit-Id", exchange.audit_id)]))
    await socket.prepare(exchange.request)
    exchange.code, exchange.streaming = 101, socket
    return socket


async def close_web_socket(socket: web.WebSocketResponse, *, broken: str = "") -> None:
    """Send a close frame; ``broken`` tells a client what it did wrong."""
    if broken:
        await socket.close(code=WSCloseCode.PROTOCOL_ERROR, message=broken.encode()[:120])
    else:
        await socket.close()


async def open_raw(exchange: Exchange, upgrade: str, protocol: str) -> tuple[web.StreamResponse, RawWire]:
    """Answer ``101`` and take the connection over for ``upgrade``."""
    response = web.StreamResponse(status=101)
    response.headers["Connection"] = "Upgrade"
    response.headers["Upgrade"] = upgrade
    response.headers["Audit-Id"] = exchange.audit_id
    if protocol:
        response.headers["X-Stream-Protocol-Version"] = protocol
    wire = RawWire(exchange, response)
    await response.prepare(exchange.request)
    exchange.code, exchange.streaming = 101, response
    return response, wire


# The ``channel.k8s.io`` protocols: numbered streams in the messages of a WebSocket (pure).
#
# A message begins with the number of its channel: a byte, or in the ``base64`` protocols a digit before base64 text.
# From version 5 on, a message of channel 255 says that the channel in its second byte is closed.

ERROR, RESIZE, CLOSE = 3, 4, 255
# Largest first: a client that offers several is given the best. Of versions 2 and 3 there were SPDY streams only.
REMOTE_COMMAND = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io",
                  "base64.channel.k8s.io")  # fmt: skip
PORT_FORWARD = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes of one channel; ``closed`` says that no more come."""

    channel: int
    data: bytes
    closed: bool = False


@dataclass(frozen=True, slots=True)
class ChannelProtocol:
    """One of the protocols, by its name; no name is version 1."""

    name: str

    @property
    def is_text(self) -> bool:
        """Messages are base64 text."""
        return "base64" in self.name

    @property
    def has_status(self) -> bool:
        """The error channel carries a ``Status`` with the exit code; before version 4 it carries words."""
        return self.name.startswith(("v4.", "v5."))

    @property
    def has_close(self) -> bool:
        """Channels can be closed one by one."""
        return self.name.startswith("v5.")

    def decode(self, raw: bytes) -> Message | None:
        """Read a message; None for an empty one, which says nothing.

        Raises:
            ValueError: it is not of this protocol.
        """
        if not raw:
            return None
        if self.is_text:
            if not 48 <= raw[0] <= 57:
                raise ValueError("the first character of a message must be the number of its channel")
            try:
                return Message(raw[0] - 48, base64.b64decode(raw[1:], validate=True))
            except binascii.Error as error:
                raise ValueError(f"a message is not base64: {error}") from None
        if raw[0] == CLOSE and self.has_close:
            if len(raw) != 2:
                raise ValueError("a close message must name one channel")
            return Message(raw[1], b"", closed=True)
        return Message(raw[0], raw[1:])

    def encode(self, channel: int, data: bytes) -> bytes:
        """A message to the client."""
        if self.is_text:
            return bytes((48 + channel,)) + base64.b64encode(data)
        return bytes((channel,)) + data


def choose(offered: list[str], served: tuple[str, ...]) -> ChannelProtocol | None:
    """The first protocol of the client's list that is served; no list means version 1. None when there is none."""
    if not offered:
        return ChannelProtocol("")
    return next((ChannelProtocol(name) for name in offered if name in served), None)
