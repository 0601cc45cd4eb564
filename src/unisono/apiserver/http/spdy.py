"""Frames of SPDY/3.1 as far as Kubernetes' clients send them (pure): streams with headers over one connection.

Clients tunnel it through a WebSocket to forward ports, and older ones speak it for everything that streams. Format:
draft-mbelshe-httpbis-spdy-00, chapter 2. Windows (2.6.8) are not kept by those clients, and so not here either.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from unisono.apiserver.http.spdy_dictionary import DICTIONARY

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
        found: Headers = {}
        for _ in range(count):
            name, at = _text(text, at)
            value, at = _text(text, at)
            # Several values of one header are kept apart by NUL; none of ours has more than one.
            found[name.lower()] = value.partition("\0")[0]
        return found


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
