"""Protobuf bodies of clients: read into the values that JSON bodies give, and written for those that read no JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from unisono.api.times import rfc3339, rfc3339_micro
from unisono.apiserver.failures import bad_request, unsupported_media_type
from unisono.apiserver.http.status import BODY_TYPES

# Protobuf's wire format: tagged numbers and pieces of bytes, without their meaning.

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


# The protobuf messages of Kubernetes' built-in kinds: field numbers, names and types.
#
# The numbers are part of Kubernetes' public protocol and never change; ``protobuf_fields.txt`` lists them. A line there
# is one message, ``group.Name: number name type, ...``; lines that begin with ``@`` say which messages stand at the top
# of a body: ``@group apiVersion: kind kind ...``. A type is a scalar (``string``, ``int``, ``bool``, ``bytes``), a
# well-known message (``time``, ``microtime``, ``quantity``, ``intstr``, ``json``), or another message; ``[]T`` is a
# list, ``map:T`` a map from text, ``list:T`` a message that holds nothing but a list. Marks after a type:
#
# * ``?`` the field may be absent, and an empty value means something (a pointer in Go);
# * ``!`` zero is written out in JSON; without a mark zero and empty are the same as absent;
# * ``^`` the fields of the message stand in the JSON of the one around it.

Shape = Literal["one", "many", "map"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: in JSON.
        type: of the value, of a list's items or of a map's values.
        shape: one value, a list or a map.
        optional: an empty value is told from none.
        zero: JSON has the field even when it is zero.
        inline: the fields of the message stand in the JSON of the one around it.
    """

    name: str
    type: str
    shape: Shape
    optional: bool
    zero: bool
    inline: bool


Message = dict[int, Field]


@dataclass(frozen=True, slots=True)
class Protocol:
    """All messages, and those at the top of a body by apiVersion and kind."""

    messages: dict[str, Message]
    top: dict[tuple[str, str], str]

    def find(self, api_version: str, kind: str) -> str | None:
        """The message of a kind; None for a kind that has none, such as every custom one."""
        if kind in ("DeleteOptions", "Status"):
            # Clients send these under the version of the group that they talk to.
            return f"meta.{kind}"
        return self.top.get((api_version, kind))


@cache
def protocol() -> Protocol:
    """The table, read when first needed."""
    messages: dict[str, Message] = {}
    top: dict[tuple[str, str], str] = {}
    text = files("unisono.apiserver.http").joinpath("protobuf_fields.txt").read_text("utf-8")
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.startswith("@"):
            group, api_version = name[1:].split(" ")
            top.update({(api_version, kind): f"{group}.{kind}" for kind in rest.split()})
        elif not line.startswith("#"):
            messages[name] = dict(_field(each) for each in rest.strip().split(", ") if each)
    return Protocol(messages, top)


def _field(text: str) -> tuple[int, Field]:
    number, name, kind = text.split(" ")
    bare = kind.rstrip("?!^")
    marks = kind[len(bare) :]
    shape: Shape = "many" if bare.startswith("[]") else "map" if bare.startswith("map:") else "one"
    bare = bare.removeprefix("[]").removeprefix("map:")
    return int(number), Field(name, bare, shape, "?" in marks, "!" in marks, "^" in marks)


# Reads the protobuf bodies of Kubernetes clients into the same values that JSON bodies give.
#
# kubectl's typed commands (``create namespace``, ``create deployment``, ...) and Go controllers send nothing else for
# built-in kinds.

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_MAX_DEPTH = 32
_NUMBERS = frozenset({"int", "bool"})


def decode(data: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as its JSON form would decode.

    Raises:
        ApiError: 400 when the bytes make no sense, 415 for a kind that must be sent as JSON.
    """
    if not data.startswith(MAGIC):
        raise bad_request("the body is not a Kubernetes protobuf message: it does not begin with k8s")
    try:
        api_version, kind, raw = _envelope(data[len(MAGIC) :])
        message = protocol().find(api_version, kind)
        if message is None:
            raise unsupported_media_type(BODY_TYPES[:2], f"send a {kind or 'body of that kind'} as JSON")
        value = _read_message(raw, message, 0)
    except (Malformed, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise bad_request(f"cannot decode the protobuf body: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **value}


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            for inner, text in fields(value):
                if inner == 1 and isinstance(text, bytes):
                    api_version = text.decode()
                elif inner == 2 and isinstance(text, bytes):
                    kind = text.decode()
        elif number == 2 and isinstance(value, bytes):
            raw = value
        elif number == 3 and value:
            raise Malformed("an encoded body inside the envelope")
    return api_version, kind, raw


def _read_message(data: bytes, name: str, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise Malformed("messages are nested too deeply")
    fields_by_number = protocol().messages[name]
    result: dict[str, Any] = {}
    for number, raw in fields(data):
        field = fields_by_number.get(number)
        if field is None:
            continue
        if field.shape == "map":
            key, value = _entry(raw, field, depth)
            result.setdefault(field.name, {})[key] = value
        elif field.shape == "many":
            many = result.setdefault(field.name, [])
            if field.type in _NUMBERS and isinstance(raw, bytes):
                many.extend(_value(each, field.type, field.name, depth) for each in varints(raw))
            else:
                many.append(_value(raw, field.type, field.name, depth))
        else:
            value = _value(raw, field.type, field.name, depth)
            if field.inline:
                result.update(value)
            elif _present(value, field):
                result[field.name] = value
    return result


def _present(value: Any, field: Field) -> bool:
    """Whether JSON would have the field: clients write out every field that is no pointer, empty or not."""
    if value is None:
        return False
    return field.optional or bool(value) or (field.zero and value in (0, False))


def _value(raw: int | bytes, kind: str, name: str, depth: int) -> Any:
    if kind in _NUMBERS:
        if not isinstance(raw, int):
            raise Malformed(f"{name} is not a number")
        return bool(raw) if kind == "bool" else signed(raw)
    if not isinstance(raw, bytes):
        raise Malformed(f"{name} is a number")
    if kind.startswith("list:"):
        inner = kind.removeprefix("list:")
        return [_value(each, inner, name, depth + 1) for number, each in fields(raw) if number == 1]
    reader = _READERS.get(kind)
    return reader(raw) if reader is not None else _read_message(raw, kind, depth + 1)


def _entry(raw: int | bytes, field: Field, depth: int) -> tuple[str, Any]:
    if not isinstance(raw, bytes):
        raise Malformed("a map entry is a number")
    parts = dict(fields(raw))
    key = parts.get(1, b"")
    if not isinstance(key, bytes):
        raise Malformed(f"a key of {field.name} is a number")
    return key.decode(), _value(parts.get(2, 0 if field.type in _NUMBERS else b""), field.type, field.name, depth)


def _numbers(data: bytes) -> dict[int, int]:
    return {number: signed(part) for number, part in fields(data) if isinstance(part, int)}


def _read_time(data: bytes) -> str | None:
    parts = _numbers(data)
    return rfc3339(parts.get(1, 0)) if parts.get(1) or parts.get(2) else None


def _micro_time(data: bytes) -> str | None:
    parts = _numbers(data)
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    return rfc3339_micro(seconds + nanos / 1e9) if seconds or nanos else None


def _first(data: bytes, wanted: int = 1) -> bytes:
    return next((part for number, part in fields(data) if number == wanted and isinstance(part, bytes)), b"")


def _raw_json(data: bytes) -> Any:
    raw = _first(data)
    return json.loads(raw) if raw else None


def _read_int_or_string(data: bytes) -> int | str:
    parts = _numbers(data)
    return _first(data, 3).decode() if parts.get(1) else parts.get(2, 0)


_READERS: dict[str, Callable[[bytes], Any]] = {
    "string": bytes.decode,
    "bytes": lambda data: base64.b64encode(data).decode(),
    "time": _read_time,
    "microtime": _micro_time,
    "json": _raw_json,
    "quantity": lambda data: _first(data).decode() or "0",
    "intstr": _read_int_or_string,
}


# Writes answers as protobuf, for clients that read nothing else.


def encodable(api_version: str, kind: str) -> bool:
    """Whether objects of the kind have a protobuf form; custom resources have none."""
    return protocol().find(api_version, kind) is not None


def encode(value: Mapping[str, Any]) -> bytes:
    """An object or a ``Status`` with its envelope.

    Raises:
        ValueError: the kind has no protobuf form.
    """
    api_version, kind = str(value.get("apiVersion", "")), str(value.get("kind", ""))
    message = protocol().find(api_version, kind)
    if message is None:
        raise ValueError(f"{api_version} {kind} has no protobuf form")
    named = write_bytes(1, api_version.encode()) + write_bytes(2, kind.encode())
    return MAGIC + write_bytes(1, named) + write_bytes(2, _write_message(value, message))


def encode_items(api_version: str, kind: str, values: Iterable[Mapping[str, Any]]) -> bytes:
    """The ``items`` of a list of ``kind``; their bytes go behind each other."""
    message = str(protocol().find(api_version, kind))
    return b"".join(write_bytes(2, _write_message(each, message)) for each in values)


def list_metadata(value: Mapping[str, Any]) -> bytes:
    """The ``metadata`` of a list, which goes before its items."""
    return write_bytes(1, _write_message(value, "meta.ListMeta"))


def _write_message(value: Mapping[str, Any], name: str) -> bytes:
    pieces = []
    for number, field in protocol().messages[name].items():
        if field.inline:
            pieces.append(write_bytes(number, _write_message(value, field.type)))
            continue
        field_value = value.get(field.name)
        if field_value is None:
            continue
        if field.shape == "map":
            pieces.extend(
                write_bytes(number, write_bytes(1, key.encode()) + _one(2, each, field.type))
                for key, each in field_value.items()
            )
        elif field.shape == "many":
            pieces.extend(_one(number, each, field.type) for each in field_value)
        else:
            pieces.append(_one(number, field_value, field.type))
    return b"".join(pieces)


def _one(number: int, value: Any, kind: str) -> bytes:
    if kind in ("int", "bool"):
        return write_number(number, int(value))
    if kind.startswith("list:"):
        inner = kind.removeprefix("list:")
        return write_bytes(number, b"".join(_one(1, each, inner) for each in value))
    writer = _WRITERS.get(kind)
    return write_bytes(number, writer(value) if writer is not None else _write_message(value, kind))


def _write_time(text: str) -> bytes:
    moment = datetime.fromisoformat(text)
    return write_number(1, int(moment.timestamp() // 1)) + write_number(2, moment.microsecond * 1000)


def _write_int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return write_number(1, 1) + write_bytes(3, value.encode())
    return write_number(1, 0) + write_number(2, int(value))


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "string": lambda value: str(value).encode(),
    "bytes": base64.b64decode,
    "time": _write_time,
    "microtime": _write_time,
    "json": lambda value: write_bytes(1, json.dumps(value, separators=(",", ":")).encode()),
    "quantity": lambda value: write_bytes(1, str(value).encode()),
    "intstr": _write_int_or_string,
}
