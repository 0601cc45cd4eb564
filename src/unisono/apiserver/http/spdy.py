"""SPDY/3.1 as far as Kubernetes' clients speak it: frames, and the streams of one connection."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from unisono.apiserver.http.wires import Wire

# The text with which SPDY primes the compression of headers: a constant of the protocol (chapter 2.6.10.1).

# Written one behind the other, each with its length in front.
_WORDS = (
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding",
    "accept-language", "accept-ranges", "age", "allow", "authorization", "cache-control", "connection",
    "content-base", "content-encoding", "content-language", "content-length", "content-location", "content-md5",
    "content-range", "content-type", "date", "etag", "expect", "expires", "from", "host", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified", "location",
    "max-forwards", "pragma", "proxy-authenticate", "proxy-authorization", "range", "referer", "retry-after",
    "server", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning",
    "www-authenticate", "method", "get", "status", "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie",
    "keep-alive", "origin",
)  # fmt: skip
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritat"
    "ive Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found5"
    "00 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct N"
    "ov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,applic"
    "ation/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf"
    "-8charset=iso-8859-1,utf-,*,enq=0."
)

DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS) + _TEXT.encode()

# Frames of SPDY/3.1 as far as Kubernetes' clients send them (pure): streams with headers over one connection.
#
# Clients tunnel it through a WebSocket to forward ports, and older ones speak it for everything that streams. Format:
# draft-mbelshe-httpbis-spdy-00, chapter 2. Windows (2.6.8) are not kept by those clients, and so not here either.

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 1
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, INTERNAL_ERROR = 1, 3, 5, 6
# Clients send three headers, of less than 100 bytes together.
_HEADER_BYTES = 4 * 1024
_MOST_HEADERS = 16
_CONTROL_BYTES = 64 * 1024
_MOST_DATA = (1 << 24) - 1

Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class Frame:
    """A control frame.

    Attributes:
        kind: its type, such as ``SYN_STREAM``.
        stream: the stream that it is about, 0 for the connection; of a ping its number.
        fin: the sender says no more on the stream.
        headers: of the kinds that have some.
        status: of ``RST_STREAM`` and ``GOAWAY``.
    """

    kind: int
    stream: int = 0
    fin: bool = False
    headers: Headers = field(default_factory=dict)
    status: int = 0


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream, as far as they have come of their frame; ``fin`` with the last of all."""

    stream: int
    data: bytes
    fin: bool = False


class Decoder:
    """Takes a connection's bytes apart; one per connection, because headers are compressed over all frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        # The data frame whose bytes are still coming: stream, what is missing, whether it ends the stream.
        self._open: tuple[int, int, bool] | None = None

    def feed(self, raw: bytes) -> Iterator[Frame | Data | None]:
        """The frames that ``raw`` completes, each taken apart when it is asked for; None for one that changes nothing.

        Bytes of data frames are handed out as they come.

        Raises:
            ValueError: these are no frames, or larger ones than anybody needs.
        """
        self._buffer += raw
        return self._pieces()

    def _pieces(self) -> Iterator[Frame | Data | None]:
        while True:
            if self._open is not None:
                if (piece := self._data()) is None:
                    return
                yield piece
                continue
            if len(self._buffer) < 8:
                return
            word, rest = struct.unpack_from(">II", self._buffer)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if not word >> 31:
                del self._buffer[:8]
                self._open = word, length, bool(flags & FIN)
                continue
            if length > _CONTROL_BYTES:
                raise ValueError(f"a control frame has {length} bytes")
            if len(self._buffer) < 8 + length:
                return
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if word >> 16 & 0x7FFF != VERSION:
                raise ValueError(f"SPDY version {word >> 16 & 0x7FFF} is not spoken here")
            yield self._control(word & 0xFFFF, flags, body)

    def _data(self) -> Data | None:
        stream, missing, fin = self._open or (0, 0, False)
        if missing and not self._buffer:
            return None
        data = bytes(self._buffer[:missing])
        del self._buffer[: len(data)]
        missing -= len(data)
        self._open = (stream, missing, fin) if missing else None
        return Data(stream, data, fin and not missing)

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        try:
            if kind == SYN_STREAM:
                return Frame(kind, _stream(body), bool(flags & FIN), self._headers(body[10:]))
            if kind in {SYN_REPLY, HEADERS}:
                return Frame(kind, _stream(body), bool(flags & FIN), self._headers(body[4:]))
            if kind in {RST_STREAM, GOAWAY}:
                stream, status = struct.unpack(">II", body)
                return Frame(kind, stream, status=status)
            if kind == PING:
                return Frame(kind, *struct.unpack(">I", body))
        except struct.error:
            raise ValueError(f"a frame of type {kind} is cut short") from None
        return None  # settings, windows and types that we do not know change nothing

    def _headers(self, block: bytes) -> Headers:
        try:
            text = self._inflate.decompress(block, _HEADER_BYTES)
        except zlib.error as error:
            raise ValueError(f"headers cannot be decompressed: {error}") from None
        if self._inflate.unconsumed_tail:
            raise ValueError(f"headers have more than {_HEADER_BYTES} bytes")
        (count,), at = struct.unpack_from(">I", text), 4
        if count > _MOST_HEADERS:
            raise ValueError(f"a frame has {count} headers")
        headers: Headers = {}
        for _ in range(count):
            name, at = _text(text, at)
            value, at = _text(text, at)
            # Several values of one header are kept apart by NUL; none of ours has more than one.
            headers[name.lower()] = value.partition("\0")[0]
        return headers


class Encoder:
    """Makes frames; one per connection."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def frame(self, frame: Frame) -> bytes:
        """A control frame as bytes."""
        if frame.kind == PING:
            body = struct.pack(">I", frame.stream)
        elif frame.kind in {RST_STREAM, GOAWAY}:
            body = struct.pack(">II", frame.stream, frame.status)
        else:
            unused = b"\0" * 6 if frame.kind == SYN_STREAM else b""
            body = struct.pack(">I", frame.stream) + unused + self._headers(frame.headers)
        flags = FIN if frame.fin else 0
        return struct.pack(">HHI", 0x8000 | VERSION, frame.kind, flags << 24 | len(body)) + body

    def data(self, stream: int, data: bytes, fin: bool = False) -> bytes:
        """A data frame.

        Raises:
            ValueError: more than a frame can hold.
        """
        if len(data) > _MOST_DATA:
            raise ValueError("a frame holds less than 16 MiB")
        return struct.pack(">II", stream, (FIN if fin else 0) << 24 | len(data)) + data

    def _headers(self, headers: Headers) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += [struct.pack(">I", len(text)), text]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _stream(body: bytes) -> int:
    (word,) = struct.unpack_from(">I", body)
    return int(word) & 0x7FFFFFFF


def _text(block: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", block, at)
    if at + 4 + length > len(block):
        raise struct.error
    return block[at + 4 : at + 4 + length].decode("utf-8", "replace"), at + 4 + length


# Streams of one SPDY connection, as the server sees them.

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

    async def reset(self, status: int = CANCEL) -> None:
        """Give the stream up in both directions."""
        self._closed = True
        self._session.forget(self.number)
        await self._session.send(Frame(RST_STREAM, self.number, status=status))
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
        self._decoder, self._encoder = Decoder(), Encoder()
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
                    elif frame.kind == GOAWAY:
                        return
                    else:
                        await self._control(frame)
        finally:
            for stream in list(self._streams.values()):
                await stream.lost()
            self._streams.clear()

    async def go_away(self) -> None:
        """Tell the client that the server ends the connection."""
        await self.send(Frame(GOAWAY, self._last))

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
        if frame.kind == SYN_STREAM:
            await self._open(frame)
        elif frame.kind == PING:
            # Odd numbers are the client's questions; even ones would be answers to ours.
            if frame.stream % 2:
                await self.send(frame)
        elif frame.kind == RST_STREAM:
            if (stream := self._streams.pop(frame.stream, None)) is not None:
                await stream.lost()
        elif frame.fin and (stream := self._streams.get(frame.stream)) is not None:
            await stream.take(b"", True)

    async def _open(self, frame: Frame) -> None:
        number = frame.stream
        if number % 2 == 0 or number <= self._last:
            await self.send(Frame(RST_STREAM, number, status=PROTOCOL_ERROR))
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
            await self.send(Frame(RST_STREAM, number, status=REFUSED_STREAM))
        else:
            await self.send(Frame(SYN_REPLY, number))
