"""Reads the protobuf bodies of Kubernetes clients into the same values that JSON bodies give.

kubectl's typed commands (``create namespace``, ``create configmap``, ...) send nothing else. Only decoding is needed:
every such client reads JSON answers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from unisono.api.times import rfc3339, rfc3339_micro
from unisono.apiserver.http.protobuf_fields import MESSAGES, TOP_LEVEL, Field
from unisono.apiserver.http.status import BODY_TYPES, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 32
_INT_BITS = 1 << 64


class _Malformed(Exception):
    """The bytes are no message."""


def decode(data: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as its JSON form would decode.

    Raises:
        ApiError: 400 when the bytes make no sense, 415 for a kind that must be sent as JSON.

    """
    if not data.startswith(_MAGIC):
        raise bad_request("the body is not a Kubernetes protobuf message: it does not begin with k8s")
    try:
        api_version, kind, raw = _envelope(data[len(_MAGIC) :])
        if kind not in TOP_LEVEL:
            raise unsupported_media_type(BODY_TYPES[:2], f"send a {kind or 'body of that kind'} as JSON")
        value = _message(raw, kind, 0)
    except (_Malformed, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise bad_request(f"cannot decode the protobuf body: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **value}


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            for inner, text in _fields(value):
                if inner == 1 and isinstance(text, bytes):
                    api_version = text.decode()
                elif inner == 2 and isinstance(text, bytes):
                    kind = text.decode()
        elif number == 2 and isinstance(value, bytes):
            raw = value
        elif number == 3 and value:
            raise _Malformed("an encoded body inside the envelope")
    return api_version, kind, raw


def _message(data: bytes, name: str, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise _Malformed("messages are nested too deeply")
    known = MESSAGES[name]
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.type in {"map", "bytesmap"}:
            result.setdefault(field.name, {}).update([_entry(value, field.type)])
        elif field.repeated:
            result.setdefault(field.name, []).append(_value(value, field, depth))
        else:
            result[field.name] = _value(value, field, depth)
    # Go writes empty texts of fields that JSON leaves out; a reader of JSON must not see them.
    return {key: value for key, value in result.items() if value not in ("", None, {}) or key == "spec"}


def _value(value: int | bytes, field: Field, depth: int) -> Any:
    if field.type in {"int", "bool"}:
        if not isinstance(value, int):
            raise _Malformed(f"{field.name} is not a number")
        return bool(value) if field.type == "bool" else _signed(value)
    if not isinstance(value, bytes):
        raise _Malformed(f"{field.name} is a number")
    reader = _READERS.get(field.type)
    return reader(value) if reader is not None else _message(value, field.type, depth + 1)


def _entry(value: int | bytes, kind: str) -> tuple[str, str]:
    if not isinstance(value, bytes):
        raise _Malformed("a map entry is a number")
    parts = {number: part for number, part in _fields(value) if isinstance(part, bytes)}
    key, content = parts.get(1, b"").decode(), parts.get(2, b"")
    return key, content.decode() if kind == "map" else base64.b64encode(content).decode()


def _seconds(data: bytes) -> tuple[int, int]:
    parts = {number: part for number, part in _fields(data) if isinstance(part, int)}
    return _signed(parts.get(1, 0)), _signed(parts.get(2, 0))


def _time(data: bytes) -> str | None:
    seconds, nanos = _seconds(data)
    return rfc3339(seconds) if data and (seconds or nanos) else None


def _micro_time(data: bytes) -> str | None:
    seconds, nanos = _seconds(data)
    return rfc3339_micro(seconds + nanos / 1e9) if data and (seconds or nanos) else None


def _raw_json(data: bytes) -> Any:
    raw = next((part for number, part in _fields(data) if number == 1 and isinstance(part, bytes)), b"")
    return json.loads(raw) if raw else None


_READERS: dict[str, Callable[[bytes], Any]] = {
    "string": lambda data: data.decode(),
    "bytes": lambda data: base64.b64encode(data).decode(),
    "time": _time,
    "microtime": _micro_time,
    "json": _raw_json,
}


def _signed(value: int) -> int:
    return value - _INT_BITS if value >= _INT_BITS >> 1 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with their raw values: numbers, or the bytes of everything that has a length."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise _Malformed(f"unknown wire type {wire}")
        if size > end - position:
            raise _Malformed("it ends in the middle of a field")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise _Malformed("it ends in the middle of a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % _INT_BITS, position
        shift += 7
