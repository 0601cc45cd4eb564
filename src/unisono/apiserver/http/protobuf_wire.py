"""Protobuf's wire format: tagged numbers and pieces of bytes, without their meaning."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_INT_BITS = 1 << 64


class Malformed(Exception):
    """The bytes are no message."""


def signed(value: int) -> int:
    """A number of the wire as the two's complement that it is."""
    return value - _INT_BITS if value >= _INT_BITS >> 1 else value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with their raw values: numbers, or the bytes of everything that has a length.

    Raises:
        Malformed: the bytes are no message.

    """
    position, end = 0, len(data)
    while position < end:
        tag, position = varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, position = varint(data, position)
            yield number, value
            continue
        if wire == BYTES:
            size, position = varint(data, position)
        elif wire in {FIXED64, FIXED32}:
            size = 8 if wire == FIXED64 else 4
        else:
            raise Malformed(f"unknown wire type {wire}")
        if size > end - position:
            raise Malformed("it ends in the middle of a field")
        yield number, data[position : position + size]
        position += size


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it.

    Raises:
        Malformed: it does not end.

    """
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise Malformed("it ends in the middle of a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % _INT_BITS, position
        shift += 7


def varints(data: bytes) -> Iterator[int]:
    """Numbers one after the other, as a packed list holds them."""
    position = 0
    while position < len(data):
        value, position = varint(data, position)
        yield value


def write_varint(value: int) -> bytes:
    """A number."""
    value %= _INT_BITS
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return write_varint(field << 3 | VARINT) + write_varint(value)


def write_head(field: int, size: int) -> bytes:
    """The beginning of a field whose ``size`` bytes follow."""
    return write_varint(field << 3 | BYTES) + write_varint(size)


def write_bytes(field: int, value: bytes) -> bytes:
    """A field that holds text, bytes or a message."""
    return write_head(field, len(value)) + value
