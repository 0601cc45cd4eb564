"""Writes answers as protobuf, for clients that read nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from unisono.apiserver.http.protobuf import MAGIC
from unisono.apiserver.http.protobuf_fields import protocol
from unisono.apiserver.http.protobuf_wire import write_bytes, write_number


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
    return MAGIC + write_bytes(1, named) + write_bytes(2, _message(value, message))


def encode_items(api_version: str, kind: str, values: Iterable[Mapping[str, Any]]) -> bytes:
    """The ``items`` of a list of ``kind``; their bytes go behind each other."""
    message = str(protocol().find(api_version, kind))
    return b"".join(write_bytes(2, _message(each, message)) for each in values)


def list_metadata(value: Mapping[str, Any]) -> bytes:
    """The ``metadata`` of a list, which goes before its items."""
    return write_bytes(1, _message(value, "meta.ListMeta"))


def _message(value: Mapping[str, Any], name: str) -> bytes:
    pieces = []
    for number, field in protocol().messages[name].items():
        if field.inline:
            pieces.append(write_bytes(number, _message(value, field.type)))
            continue
        found = value.get(field.name)
        if found is None:
            continue
        if field.shape == "map":
            pieces.extend(
                write_bytes(number, write_bytes(1, key.encode()) + _one(2, each, field.type))
                for key, each in found.items()
            )
        elif field.shape == "many":
            pieces.extend(_one(number, each, field.type) for each in found)
        else:
            pieces.append(_one(number, found, field.type))
    return b"".join(pieces)


def _one(number: int, value: Any, kind: str) -> bytes:
    if kind in ("int", "bool"):
        return write_number(number, int(value))
    if kind.startswith("list:"):
        inner = kind.removeprefix("list:")
        return write_bytes(number, b"".join(_one(1, each, inner) for each in value))
    writer = _WRITERS.get(kind)
    return write_bytes(number, writer(value) if writer is not None else _message(value, kind))


def _time(text: str) -> bytes:
    moment = datetime.fromisoformat(text)
    return write_number(1, int(moment.timestamp() // 1)) + write_number(2, moment.microsecond * 1000)


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return write_number(1, 1) + write_bytes(3, value.encode())
    return write_number(1, 0) + write_number(2, int(value))


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "string": lambda value: str(value).encode(),
    "bytes": base64.b64decode,
    "time": _time,
    "microtime": _time,
    "json": lambda value: write_bytes(1, json.dumps(value, separators=(",", ":")).encode()),
    "quantity": lambda value: write_bytes(1, str(value).encode()),
    "intstr": _int_or_string,
}
