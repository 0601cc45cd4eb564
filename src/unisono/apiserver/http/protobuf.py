"""Reads the protobuf bodies of Kubernetes clients into the same values that JSON bodies give.

kubectl's typed commands (``create namespace``, ``create deployment``, ...) and Go controllers send nothing else for
built-in kinds.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from unisono.api.times import rfc3339, rfc3339_micro
from unisono.apiserver.http.protobuf_fields import Field, protocol
from unisono.apiserver.http.protobuf_wire import Malformed, fields, signed, varints
from unisono.apiserver.http.status import BODY_TYPES, bad_request, unsupported_media_type

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
        value = _message(raw, message, 0)
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


def _message(data: bytes, name: str, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise Malformed("messages are nested too deeply")
    known = protocol().messages[name]
    result: dict[str, Any] = {}
    for number, raw in fields(data):
        field = known.get(number)
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
    return reader(raw) if reader is not None else _message(raw, kind, depth + 1)


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


def _time(data: bytes) -> str | None:
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


def _int_or_string(data: bytes) -> int | str:
    parts = _numbers(data)
    return _first(data, 3).decode() if parts.get(1) else parts.get(2, 0)


_READERS: dict[str, Callable[[bytes], Any]] = {
    "string": bytes.decode,
    "bytes": lambda data: base64.b64encode(data).decode(),
    "time": _time,
    "microtime": _micro_time,
    "json": _raw_json,
    "quantity": lambda data: _first(data).decode() or "0",
    "intstr": _int_or_string,
}
