"""Answers of an API server as objects: pages of lists, events of watches, and objects that break their schema."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, MutableSequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.kind import Kind
from unisono.errors import Unavailable
from unisono.lazy_logs import LazyLogger

T = TypeVar("T", bound=Object)
D = TypeVar("D")

_log = LazyLogger(__name__)

# No object is as large by far: who sends a longer line of a watch means harm.
_LONGEST_LINE = 64 * 1024 * 1024
CUT: Final = b'"unisono.io/nested-too-deep"'
"""What stands in the place of a value that was cut out."""
DEEPEST: Final = 200
"""Levels that are left. Objects of Kubernetes' own kinds have about 20."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct, Generic[D]):
    """A part of a list."""

    metadata: _ListMeta
    items: list[D] | None = None


class RawEvent(msgspec.Struct):
    """An event of a watch, whose object is decoded as its kind says."""

    type: str
    object: msgspec.Raw


class BookmarkObject(msgspec.Struct):
    """As much of an object as a bookmark has."""

    metadata: ObjectMeta


class Decoding:
    """Decodes what one server sends.

    Args:
        server: its address, for messages.

    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def _decoder(self, struct: type[D]) -> msgspec.json.Decoder[D]:
        decoder = self._decoders.get(struct)
        if decoder is None:
            decoder = self._decoders[struct] = msgspec.json.Decoder(struct)
        return decoder

    def whole(self, struct: type[D], data: bytes | msgspec.Raw) -> D:
        """One value.

        Raises:
            Unavailable: it is no JSON, or not such a value.

        """
        try:
            try:
                return self._decoder(struct).decode(data)
            except RecursionError:
                return self._decoder(struct).decode(cut_deep(bytes(data)))
        except msgspec.DecodeError as error:
            raise Unavailable(f"The API server at {self._server} sent what is not understood: {error}.") from error

    def page(self, kind: Kind[T], data: bytes, unread: MutableSequence[tuple[T, str]]) -> Page[T]:
        """A part of a list; objects that are not as their kind says go to ``unread``, with what is wrong.

        Raises:
            Unavailable: it is no list.

        """
        struct = kind.struct
        try:
            return self._decoder(Page[struct]).decode(data)  # type: ignore[valid-type]
        except (msgspec.ValidationError, RecursionError):
            # One object is not what its kind says, or nested too deep; the others must not suffer for it.
            raw = self.whole(Page[msgspec.Raw], data)
            items = []
            for value in raw.items or ():
                obj, problem = self.one(kind, value)
                if not problem:
                    items.append(obj)
                elif obj.metadata.name:
                    unread.append((obj, problem))
            return Page(raw.metadata, items)
        except msgspec.DecodeError as error:
            raise Unavailable(f"The API server at {self._server} sent what is not JSON: {error}.") from error

    def one(self, kind: Kind[T], data: msgspec.Raw) -> tuple[T, str]:
        """The object, or what of it is as its kind says and what is not."""
        try:
            obj, problem = self._decoder(kind.struct).decode(data), ""
            if CUT in bytes(data):
                problem = f"it is nested more than {DEEPEST} levels deep"
        except msgspec.ValidationError as error:
            from unisono.api.decode import decode

            obj, problem = decode(kind, msgspec.json.decode(data)).obj, str(error)
        if problem:
            meta = obj.metadata
            _log.warning(
                "object.undecodable",
                resource=kind.resource,
                namespace=meta.namespace,
                name=meta.name,
                error=problem,
            )
        return obj, problem


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines of a byte stream without their newline; a last line that the connection cut off is dropped.

    Raises:
        Unavailable: a line has no end for longer than any object is.

    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start:end])
            line = b"".join(parts)
            parts.clear()
            size = 0
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            parts.append(chunk[start:])
            size += len(chunk) - start
            if size > _LONGEST_LINE:
                raise Unavailable(f"the server sends a line of more than {_LONGEST_LINE} bytes")


def cut_deep(data: bytes, deepest: int = DEEPEST) -> bytes:
    """The JSON text with every array and object below ``deepest`` levels replaced by `CUT`; takes linear time.

    A Kubernetes API server takes 10,000 levels where a field may hold any JSON, such as the parameters of a
    ResourceClaim; a decoder that recurses reads fewer than 1,000.
    """
    parts: list[bytes] = []
    depth = begun = kept = 0
    for found in _TOKEN.finditer(data):
        token = data[found.start()]
        if token in b"[{":
            depth += 1
            if depth == deepest + 1:
                begun = found.start()
        elif token in b"]}":
            if depth == deepest + 1:
                parts += (data[kept:begun], CUT)
                kept = found.end()
            depth -= 1
    return b"".join((*parts, data[kept:]))
