"""Schemas of definitions, compiled once per content: the request that writes one does it beside the event loop."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from unisono.api.core.crd import CustomResourceDefinitionVersion
from unisono.api.structural import Node, compile_schema
from unisono.api.structural.dialect import read_schema

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Schemas that are on their way to the store, and so held by no definition that is served.
_MOST_ON_THEIR_WAY = 4


@dataclass(frozen=True)
class Compiled:
    """A schema without unknown words, and its node."""

    schema: dict[str, Any]
    node: Node


_lock = threading.Lock()
_known: WeakValueDictionary[bytes, Compiled] = WeakValueDictionary()
_latest: deque[Compiled] = deque(maxlen=_MOST_ON_THEIR_WAY)


def compiled(version: CustomResourceDefinitionVersion) -> Compiled:
    """The schema of a version; equal schemas are compiled once, as long as one of them is in use."""
    raw = (version.schema.open_apiv3_schema if version.schema else None) or _ANY
    key = hashlib.sha256(msgspec.json.encode(raw)).digest()
    with _lock:
        found = _known.get(key)
    if found is None:
        schema, _, _ = read_schema(raw, "")
        found = Compiled(schema, compile_schema(schema))
        with _lock:
            found = _known.setdefault(key, found)
            _latest.append(found)
    return found
