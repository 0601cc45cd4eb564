"""Streams of one SPDY connection, as the server sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from unisono.apiserver.http import spdy
from unisono.apiserver.http.spdy import Data, Frame, Headers
from unisono.apiserver.http.wires import Wire

_READ_AHEAD = 256 * 1024
_PIECE = 32 * 1024
_MOST_STREAMS = 400
# What a frame counts for when turns are given: one with headers is unpacked, and may make a stream.
_WITH_HEADERS = 4


class SpdyStream:
    """A stream that the client opened."""

    def __init__(self, session: SpdySession, number: int, headers: Headers) -> None:
        self.number, self.headers = number, headers
        self._session = session
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = self._closed = self._dropped = False
        self._changed = asyncio.Condition()

    async def read(self) -> bytes:
        """The next bytes of the client; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._pieces or self._ended)
            data = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            self._changed.notify_all()
            return data

    async def write(self, data: bytes) -> None:
        """Send bytes to the client; a stream that the client gave up takes none.

        Raises:
            ConnectionError: the connection is gone, or the stream.
        """
        if self._closed:
            raise ConnectionResetError("the stream is closed")
        for start in range(0, len(data), _PIECE):
            await self._session.send_data(self.number, data[start : start + _PIECE], fin=False)

    async def end(self) -> None:
        """Nothing more is written."""
        if not self._closed:
            self._closed = True
            await self._session.send_data(self.number, b"", fin=True)
        if self._ended:
            self._session.forget(self.number)

    async def reset(self, status: int = spdy.CANCEL) -> None:
        """Give the stream up in both directions."""
        self._closed = True
        self._session.forget(self.number)
        await self._session.send(Frame(spdy.RST_STREAM, self.number, status=status))
        await self.lost()

    async def drop_input(self) -> None:
        """Whatever the client still sends on this stream is thrown away."""
        self._dropped = True
        await self.take(b"", False)

    async def take(self, data: bytes, fin: bool) -> None:
        """The session has bytes of the client; waits while too many are unread."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._size < _READ_AHEAD or self._ended or self._dropped)
            if self._dropped:
                self._pieces, self._size = [], 0
            elif data and not self._ended:
                self._pieces.append(data)
                self._size += len(data)
            self._ended = self._ended or fin
            self._changed.notify_all()

    async def lost(self) -> None:
        """The client gave the stream up, or is gone."""
        async with self._changed:
            self._ended = self._closed = True
            self._changed.notify_all()


class SpdySession:
    """Reads frames and hands the streams out.

    Args:
        wire: the connection.
        opened: called with every new stream; a ``ValueError`` refuses it.
    """

    def __init__(self, wire: Wire, opened: Callable[[SpdyStream], None]) -> None:
        self._wire, self._opened = wire, opened
        self._decoder, self._encoder = spdy.Decoder(), spdy.Encoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        # Headers are compressed in the order in which their frames leave.
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Serve the connection until the client closes it.

        Raises:
            ValueError: the client does not speak SPDY/3.1.
            ConnectionError: the client is gone.
        """
        try:
            while data := await self._wire.receive():
                for frame in self._decoder.feed(data):
                    # A client packs a million frames into one message.
                    await self._wire.turn(_WITH_HEADERS if isinstance(frame, Frame) and frame.headers else 1)
                    if frame is None:
                        continue
                    if isinstance(frame, Data):
                        await self._data(frame)
                    elif frame.kind == spdy.GOAWAY:
                        return
                    else:
                        await self._control(frame)
        finally:
            for stream in list(self._streams.values()):
                await stream.lost()
            self._streams.clear()

    async def go_away(self) -> None:
        """Tell the client that the server ends the connection."""
        await self.send(Frame(spdy.GOAWAY, self._last))

    async def send(self, frame: Frame) -> None:
        """Send a control frame."""
        async with self._sending:
            await self._wire.send(self._encoder.frame(frame))

    async def send_data(self, number: int, data: bytes, *, fin: bool) -> None:
        """Send a data frame."""
        async with self._sending:
            await self._wire.send(self._encoder.data(number, data, fin))

    def forget(self, number: int) -> None:
        """Nothing more is expected of a stream."""
        self._streams.pop(number, None)

    async def _data(self, frame: Data) -> None:
        # Bytes of a stream that was given up meanwhile are dropped.
        if (stream := self._streams.get(frame.stream)) is not None:
            await stream.take(frame.data, frame.fin)

    async def _control(self, frame: Frame) -> None:
        if frame.kind == spdy.SYN_STREAM:
            await self._open(frame)
        elif frame.kind == spdy.PING:
            # Odd numbers are the client's questions; even ones would be answers to ours.
            if frame.stream % 2:
                await self.send(frame)
        elif frame.kind == spdy.RST_STREAM:
            if (stream := self._streams.pop(frame.stream, None)) is not None:
                await stream.lost()
        elif frame.fin and (stream := self._streams.get(frame.stream)) is not None:
            await stream.take(b"", True)

    async def _open(self, frame: Frame) -> None:
        number = frame.stream
        if number % 2 == 0 or number <= self._last:
            await self.send(Frame(spdy.RST_STREAM, number, status=spdy.PROTOCOL_ERROR))
            return
        self._last = number
        stream = SpdyStream(self, number, frame.headers)
        if frame.fin:
            await stream.take(b"", True)
        try:
            if len(self._streams) >= _MOST_STREAMS:
                raise ValueError("too many streams")
            self._streams[number] = stream
            self._opened(stream)
        except ValueError:
            self._streams.pop(number, None)
            await self.send(Frame(spdy.RST_STREAM, number, status=spdy.REFUSED_STREAM))
        else:
            await self.send(Frame(spdy.SYN_REPLY, number))
