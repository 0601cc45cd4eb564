"""One request and its answer: bodies, bounded and decoded, and headers that every answer has."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from unisono.api.annotations import tenant
from unisono.api.yaml import dump, load_all
from unisono.apiserver.access.user import User
from unisono.apiserver.failures import bad_request, unsupported_media_type
from unisono.apiserver.flow_control import DEEPEST, Limits, Turns, aside, too_deep, weigh
from unisono.apiserver.http import protobuf
from unisono.apiserver.http.status import (
    BODY_TYPES,
    PATCH_TYPES,
    PROTOBUF,
    Form,
    accepts_gzip,
    encode_failure,
    retry_after,
    too_large,
)
from unisono.apiserver.types import PatchType
from unisono.errors import ApiError, ConfigError

# Request bodies: bounded in size and time, decoded by content type, duplicate keys found.

_PATCHES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class Body:
    """A decoded body and the paths of keys that it gives twice (``spec.queue``)."""

    value: Any
    duplicates: tuple[str, ...] = ()


async def read_body(request: web.BaseRequest, limits: Limits) -> bytes:
    """The raw body.

    Raises:
        ApiError: 413 when it is too long, 408 when it does not arrive in time.
    """
    declared = request.content_length
    if declared is not None and declared > limits.body_bytes:
        raise too_large(limits.body_bytes)
    if request.content.is_eof():
        # It has come as a whole, as small ones do: nothing to wait for.
        data = b""
        while not request.content.at_eof():
            data += request.content.read_nowait()
            if len(data) > limits.body_bytes:
                raise too_large(limits.body_bytes)
        return data
    pieces, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.content.iter_any():
                size += len(piece)
                if size > limits.body_bytes:
                    raise too_large(limits.body_bytes)
                pieces.append(piece)
    except TimeoutError:
        message = f"the request body did not arrive within {limits.body_seconds:g} seconds"
        raise ApiError(message, code=408, reason="Timeout") from None
    return b"".join(pieces)


def content_type(request: web.BaseRequest) -> str:
    """Media type of the body, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def patch_type(media_type: str) -> PatchType:
    """The patch type behind a content type.

    Raises:
        ApiError: 415 for any other content type.
    """
    patch_kind = _PATCHES.get(media_type)
    if patch_kind is None:
        raise unsupported_media_type(PATCH_TYPES)
    return patch_kind


async def read_object(request: web.BaseRequest, data: bytes, kind: str) -> Body:
    """``decode_object`` of a request's body; large ones are decoded beside the event loop."""
    weigh(len(data))
    return await aside(decode_object, data, content_type(request), kind)


async def read_patch(data: bytes, wanted: PatchType) -> Body:
    """A decoded patch; large ones are decoded beside the event loop.

    Raises:
        ApiError: 400 when it cannot be read.
    """
    weigh(len(data))
    if wanted == "apply":
        return await aside(decode_yaml, data)
    return await aside(decode_json, data, "error decoding patch: ")


def decode_object(data: bytes, media_type: str, kind: str) -> Body:
    """Decode an object of ``kind``; no content type means JSON.

    Raises:
        ApiError: 400 when it cannot be read or is no object, 415 for a content type that is not known.
    """
    if media_type in {"", "application/json", "*/*"}:
        body = decode_json(data, f"the object provided is unrecognized (must be of type {kind}): ")
    elif media_type in {"application/yaml", "application/x-yaml", "text/yaml"}:
        body = decode_yaml(data)
    elif media_type == protobuf.MEDIA_TYPE:
        body = Body(protobuf.decode(data))
        _check_depth(body.value)
    else:
        raise unsupported_media_type(BODY_TYPES)
    if not isinstance(body.value, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): not an object")
    return body


def decode_json(data: bytes, context: str = "") -> Body:
    """Decode JSON and find duplicate keys; ``context`` goes in front of an error's text."""
    try:
        value = msgspec.json.decode(data)
        _check_depth(value)
        return Body(value, _duplicates(data, value))
    except (ValueError, RecursionError) as error:  # decoding and Unicode errors are ValueErrors
        raise bad_request(f"{context}json parse error: {error}") from None


def decode_yaml(data: bytes) -> Body:
    """Decode YAML, of which JSON is a part."""
    try:
        documents = load_all(data)
    except ConfigError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None
    if len(documents) != 1:
        raise bad_request(f"the body must hold exactly one YAML document, not {len(documents)}")
    _check_depth(documents[0].value)
    return Body(documents[0].value)


def _check_depth(value: Any) -> None:
    if too_deep(value):
        raise bad_request(f"the body is nested more than {DEEPEST} levels deep")


def _duplicates(data: bytes, value: Any) -> tuple[str, ...]:
    # Decoding and encoding again keeps the number of quote characters, unless a duplicate key was dropped. Only a
    # body that lost some (or hides quotes as \\u0022) is worth the slow walk.
    if b"\\u0022" not in data and data.count(b'"') == msgspec.json.encode(value).count(b'"'):
        return ()
    duplicates: list[str] = []
    _paths(json.loads(data, object_pairs_hook=_Pairs), "", duplicates)
    return tuple(dict.fromkeys(duplicates))


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, duplicates included."""


def _paths(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, child in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found.append(here)
            seen.add(key)
            _paths(child, here, found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _paths(child, f"{path}[{index}]", found)


# One request and its answer: headers that every answer has, compression, and pieces that a slow client cannot hold.


JSON = "application/json"
_GZIP_FROM = 128 * 1024
_GZIPPED = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
_PIECE = 64 * 1024
_LINES = 32
# Encrypting and sending this many bytes of output costs about as much as the frames below.
_PART, _FRAMES_OF_A_PART = 32 * 1024, 4
_WARNINGS_TOTAL = 4096
_WARNING_LENGTH = 256


@dataclass(slots=True)
class Exchange:
    """One request, who sent it, and how it wants to be answered.

    Attributes:
        request: the HTTP request.
        user: who sent it.
        audit_id: identifies the exchange in the answer and in logs.
        form: negotiated form of the answer.
        limits: bounds that hold for it.
        code: HTTP status that was answered, 0 before.
        verb: Kubernetes verb, for metrics; empty until the request is understood.
        resource: resource, for metrics.
        streaming: the answer of unknown length, once it has begun.
        notes: warnings that every answer to this request carries.
        last: the connection ends with the answer.
        held: what the request counts against until it is answered.
        frames: turns of the messages and frames of a client that has left HTTP.
    """

    request: web.BaseRequest
    user: User
    audit_id: str
    limits: Limits
    frames: Turns
    form: Form = field(default_factory=Form)
    code: int = 0
    verb: str = ""
    resource: str = ""
    streaming: web.StreamResponse | None = None
    notes: tuple[str, ...] = ()
    last: bool = False
    held: ExitStack = field(default_factory=ExitStack)

    @property
    def query(self) -> Any:
        """Query parameters; of a repeated one the first counts."""
        return self.request.query

    @property
    def own(self) -> bool:
        """Whether it came from a component of this control plane, by the socket that has no TLS."""
        transport = self.request.transport
        return transport is not None and transport.get_extra_info("ssl_object") is None

    async def turn(self, weight: int = 1) -> None:
        """Wait until a message or frame of this client may be worked on, which counts as ``weight`` of them."""
        await self.take(self.frames, weight)

    async def turn_to_send(self, size: int) -> None:
        """Wait until ``size`` bytes of output may be sent to this client: logs and sessions give without a pause."""
        await self.turn(_FRAMES_OF_A_PART * (1 + size // _PART))

    async def take(self, turns: Turns, weight: int = 1) -> None:
        """Wait for this request's turn."""
        await turns.take(weight, *self.caller)

    @property
    def caller(self) -> tuple[str, str]:
        """User and tenant for whom this is worked on, as they stand in lines."""
        if self.own:
            # The control plane's own components work for all users, and have many lines.
            return "", str(id(self) % _LINES)
        return self.user.name, f":{tenant(self.user.name)}"

    async def body(self) -> bytes:
        """The raw request body, bounded."""
        return await read_body(self.request, self.limits)

    def headers(self, content_type: str, warnings: Iterable[str] = ()) -> list[tuple[str, str]]:
        """Headers of an answer."""
        pairs = [
            ("Audit-Id", self.audit_id),
            ("Cache-Control", "no-cache, private"),
            ("Content-Type", content_type),
            ("Server", "unisono"),
        ]
        pairs.extend(("Warning", f"299 - {text}") for text in _warning_texts((*self.notes, *warnings)))
        return pairs

    async def error(self, error: ApiError) -> web.StreamResponse:
        """Answer with a ``Status``."""
        seconds = retry_after(error)
        extra = [] if seconds is None else [("Retry-After", str(seconds))]
        body = encode_failure(error)
        if self.form.media == "protobuf":
            return await self.send(
                error.code, protobuf.encode(msgspec.json.decode(body)), error.warnings, PROTOBUF, extra
            )
        return await self.send(error.code, body, error.warnings, extra=extra)

    async def document(
        self, value: Any, status: int = 200, warnings: Iterable[str] = (), content_type: str = JSON
    ) -> web.StreamResponse:
        """Answer with a value, encoded as JSON or, where the client asks, as YAML or protobuf."""
        if self.form.media == "yaml":
            return await self.send(status, await aside(_yaml, value), warnings, "application/yaml")
        if self.form.media == "protobuf":
            return await self.send(status, await aside(protobuf.encode, value), warnings, PROTOBUF)
        return await self.send(status, await aside(msgspec.json.encode, value), warnings, content_type)

    async def send(
        self,
        status: int,
        body: bytes,
        warnings: Iterable[str] = (),
        content_type: str = JSON,
        extra: Iterable[tuple[str, str]] = (),
        packed: Callable[[], Awaitable[bytes]] | None = None,
    ) -> web.StreamResponse:
        """Answer with encoded bytes; ``packed`` gives them as gzip where they are kept in that form."""
        self.code = status
        headers = [*self.headers(content_type, warnings), *extra]
        if len(body) > _GZIP_FROM and self._gzip:
            body = await (packed() if packed else asyncio.to_thread(gzip.compress, body, 1))
            headers += _GZIPPED
        if len(body) <= _PIECE:
            return web.Response(status=status, body=body, headers=_multi(headers))
        response = web.StreamResponse(status=status, headers=_multi(headers))
        response.content_length = len(body)
        await response.prepare(self.request)
        await self.write(response, body)
        return response

    async def send_pieces(self, pieces: AsyncIterator[bytes], content_type: str) -> web.StreamResponse:
        """Answer with bytes that are made piece by piece, each when the client has taken the one before.

        A short answer is sent as a whole. One that fails in the middle breaks the connection off, so that the client
        does not take it for complete.
        """
        first, size = [], 0
        async for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > _GZIP_FROM:
                break
        else:
            return await self.send(200, b"".join(first), content_type=content_type)
        packer = zlib.compressobj(1, wbits=31) if self._gzip else None
        response = await self.stream(content_type, extra=_GZIPPED if packer else ())
        try:
            for piece in first:
                await self._send_piece(response, piece, packer)
            first.clear()
            async for piece in pieces:
                await self._send_piece(response, piece, packer)
            if packer is not None:
                await self.write(response, packer.flush())
        except Exception:
            self._abort()
            raise
        return response

    async def _send_piece(self, response: web.StreamResponse, piece: bytes, packer: Any) -> None:
        if packer is not None:
            piece = await asyncio.to_thread(packer.compress, piece)
        await self.write(response, piece)

    @property
    def _gzip(self) -> bool:
        return accepts_gzip(self.request.headers.get("Accept-Encoding", ""))

    def _abort(self) -> None:
        transport = self.request.transport
        if transport is not None:
            transport.abort()

    async def stream(
        self, content_type: str, length: int | None = None, extra: Iterable[tuple[str, str]] = ()
    ) -> web.StreamResponse:
        """Begin an answer that is sent in pieces, of unknown length or of ``length`` bytes."""
        self.code = 200
        response = web.StreamResponse(status=200, headers=_multi([*self.headers(content_type), *extra]))
        if length is not None:
            response.content_length = length
        elif self.request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        await response.prepare(self.request)
        self.streaming = response
        return response

    async def finish(self, response: web.StreamResponse) -> None:
        """Send what is left of an answer; a client that does not take it in time loses its connection.

        Raises:
            ConnectionResetError: the client is gone, or too slow.
        """
        if self.last:
            response.force_close()
        await self._in_time(self._to_end(response))

    async def _to_end(self, response: web.StreamResponse) -> None:
        await response.prepare(self.request)
        await response.write_eof()

    async def write(self, response: web.StreamResponse, piece: bytes | memoryview) -> None:
        """Send a piece; a client that does not take it in time loses its connection.

        Raises:
            ConnectionResetError: the client is gone, or too slow.
        """
        if len(piece) <= _PIECE:
            await self._in_time(response.write(piece))
            return
        # Transports copy what they can't send at once.
        view = memoryview(piece)
        for start in range(0, len(view), _PIECE):
            await self._in_time(response.write(view[start : start + _PIECE]))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self.limits.write_seconds):
                await sending
        except TimeoutError:
            self._abort()
            raise ConnectionResetError("the client is too slow") from None


def _yaml(value: Any) -> bytes:
    return dump(value).encode()


def _multi(headers: list[tuple[str, str]]) -> CIMultiDict[str]:
    return CIMultiDict(headers)


def _warning_texts(warnings: Iterable[str]) -> list[str]:
    """Quoted warnings without repetition, cut as Kubernetes cuts them: clients bound the headers that they read."""
    texts = [_printable(warning) for warning in dict.fromkeys(warnings)]
    if sum(map(len, texts)) > _WARNINGS_TOTAL:
        texts = [text[:_WARNING_LENGTH] for text in texts[: _WARNINGS_TOTAL // _WARNING_LENGTH]]
    return [_quoted(text[:_WARNINGS_TOTAL]) for text in texts]


def _printable(text: str) -> str:
    # A field name may hold anything, a header may not.
    cleaned = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cleaned)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
