"""Request bodies: bounded in size and time, decoded by content type, duplicate keys found."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from unisono.api.yaml import load_all
from unisono.apiserver.flow_control import DEEPEST, Limits, aside, too_deep, weigh
from unisono.apiserver.http import protobuf
from unisono.apiserver.http.status import (
    BODY_TYPES,
    PATCH_TYPES,
    bad_request,
    too_large,
    unsupported_media_type,
)
from unisono.apiserver.types import PatchType
from unisono.errors import ApiError, ConfigError

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
    found = _PATCHES.get(media_type)
    if found is None:
        raise unsupported_media_type(PATCH_TYPES)
    return found


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
    found: list[str] = []
    _paths(json.loads(data, object_pairs_hook=_Pairs), "", found)
    return tuple(dict.fromkeys(found))


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
