"""Lists as they are sent: in pieces, each encoded when the client has taken the ones before.

A page holds the stored objects and not copies of them, so a list that is not read costs a piece and no more, however
long it is. What changes meanwhile is not seen: entries of the store are replaced, never changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from unisono.api.kind import Kind
from unisono.api.yaml import dump
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.http import protobuf
from unisono.apiserver.http.accept import Form
from unisono.apiserver.http.openapi import is_core
from unisono.apiserver.http.protobuf import MAGIC, write_bytes, write_head
from unisono.apiserver.tables import IncludeObject, TableWriter, partial_metadata
from unisono.apiserver.types import Page

# Bytes of objects that are encoded at a time.
_PIECE = 64 * 1024
# Protobuf up to this size is encoded once and kept; longer lists are encoded twice, because sizes go first.
_KEPT = 128 * 1024

Document = dict[str, Any]
Render = Callable[[Sequence[bytes]], list[Any]]


def list_pieces(
    kind: Kind[Any], page: Page, form: Form, include: IncludeObject, clock: Callable[[], float]
) -> AsyncIterator[bytes]:
    """The encoded list, in pieces.

    Args:
        kind: what is listed, as it was asked for.
        page: the objects.
        form: how the client reads them.
        include: what the rows of a table carry.
        clock: Unix seconds, for the ages in tables.

    """
    if not form.transform and form.media == "json":
        return _joined(kind, page)
    key, head, render = "items", _head(kind, page), _whole(kind)
    if form.transform == "Table":
        writer, now = TableWriter(kind, form.version, include), clock()
        key, head = "rows", writer.table([], _metadata(page), now)
        render = _rows(writer, now)
    elif form.transform:
        api_version = f"meta.k8s.io/{form.version}"
        head = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": _metadata(page)}
        render = _partial(form.version)
    if form.media == "protobuf":
        return _protobuf(head, page, render)
    head.pop(key, None)
    return (_yaml if form.media == "yaml" else _json)(head, key, page, render)


def _head(kind: Kind[Any], page: Page) -> Document:
    name = kind.list_kind if isinstance(kind, CustomKind) else f"{kind.kind}List"
    return {"kind": name, "apiVersion": kind.api_version, "metadata": _metadata(page)}


def _metadata(page: Page) -> Document:
    metadata: Document = {"resourceVersion": str(page.resource_version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _portions(items: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Objects of about a piece's size, or one that is larger."""
    portion: list[bytes] = []
    size = 0
    for item in items:
        if portion and size + len(item) > _PIECE:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += len(item)
    if portion:
        yield portion


async def _joined(kind: Kind[Any], page: Page) -> AsyncIterator[bytes]:
    """Stored objects are JSON already: nothing is decoded."""
    # The list says what its items are; they begin with it, as the encoder writes them.
    start = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode() if is_core(kind) else b""
    lead = msgspec.json.encode(_head(kind, page))[:-1] + b',"items":['
    for portion in _portions(page.items):
        shown: Iterable[bytes] = portion
        if start:
            shown = (b"{" + item.removeprefix(start) if item.startswith(start) else item for item in portion)
        yield lead + b",".join(shown)
        lead = b","
    yield (b"" if lead == b"," else lead) + b"]}\n"


async def _rendered(page: Page, render: Render) -> AsyncIterator[list[Any]]:
    """Documents of each portion, made in a thread where there is more than one, so that others are served."""
    portions = _portions(page.items)
    first, second = next(portions, []), next(portions, None)
    if second is None:
        yield render(first)
        return
    for portion in chain((first, second), portions):
        yield await asyncio.to_thread(render, portion)


async def _json(head: Document, key: str, page: Page, render: Render) -> AsyncIterator[bytes]:
    lead = msgspec.json.encode(head)[:-1] + f',"{key}":['.encode()
    async for values in _rendered(page, render):
        yield lead + msgspec.json.encode(values)[1:-1]
        lead = b","
    yield b"]}"


async def _yaml(head: Document, key: str, page: Page, render: Render) -> AsyncIterator[bytes]:
    yield _dumped(head)
    if not page.items:
        yield _dumped({key: []})
        return
    yield f"{key}:\n".encode()
    for portion in _portions(page.items):
        yield await asyncio.to_thread(_dump_rendered, render, portion)


def _dump_rendered(render: Render, portion: Sequence[bytes]) -> bytes:
    return _dumped(render(portion))


def _dumped(value: Any) -> bytes:
    return dump(value).encode()


async def _protobuf(head: Document, page: Page, render: Render) -> AsyncIterator[bytes]:
    item = str(head["kind"]).removesuffix("List")

    def encode(portion: list[bytes]) -> bytes:
        return protobuf.encode_items(head["apiVersion"], item, render(portion))

    size, kept = 0, []
    for portion in _portions(page.items):
        encoded = await asyncio.to_thread(encode, portion)
        size += len(encoded)
        if size <= _KEPT:
            kept.append(encoded)
    metadata = protobuf.list_metadata(head["metadata"])
    named = write_bytes(1, head["apiVersion"].encode()) + write_bytes(2, head["kind"].encode())
    lead = MAGIC + write_bytes(1, named) + write_head(2, len(metadata) + size) + metadata
    if size <= _KEPT:
        yield lead + b"".join(kept)
        return
    yield lead
    kept.clear()
    for portion in _portions(page.items):
        yield await asyncio.to_thread(encode, portion)


def _whole(kind: Kind[Any]) -> Render:
    strip = is_core(kind)

    def render(portion: Sequence[bytes]) -> list[Any]:
        values = [msgspec.json.decode(item) for item in portion]
        for value in values if strip else ():
            value.pop("apiVersion", None)
            value.pop("kind", None)
        return values

    return render


def _partial(version: str) -> Render:
    return lambda portion: [partial_metadata(msgspec.json.decode(item), version) for item in portion]


def _rows(writer: TableWriter, now: float) -> Render:
    return lambda portion: writer.rows([msgspec.json.decode(item) for item in portion], now)
