"""Between bytes, JSON values and structs, and between the versions of a kind."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from unisono.api import field_error
from unisono.api.base import Object, OwnerReference
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.decode import Decoded, decode, encode
from unisono.api.kind import Kind
from unisono.apiserver.custom.definitions import decode_definition
from unisono.apiserver.custom.kinds import CustomKind, CustomObject, stored_bytes
from unisono.apiserver.encoding.views import view_of
from unisono.apiserver.failures import bad_request, invalid
from unisono.apiserver.types import WriteOptions

T = TypeVar("T", bound=Object)

json_value = msgspec.json.Decoder().decode


@lru_cache(maxsize=256)
def _decoder(struct: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct)


def read(kind: Kind[T], data: bytes) -> T:
    """The struct of stored bytes."""
    if isinstance(kind, CustomKind):
        return cast("T", kind.read(data))
    obj: T = _decoder(kind.struct).decode(data)
    return obj


def write(obj: Object, revision: int) -> bytes:
    """Stored bytes of ``obj`` under ``revision``; sets ``metadata.resourceVersion``."""
    obj.metadata.resource_version = str(revision)
    return render(obj)


def render(obj: Object) -> bytes:
    """The bytes of an object that is answered but not stored."""
    return stored_bytes(obj) if isinstance(obj, CustomObject) else encode(obj)


def decode_body(kind: Kind[T], body: dict[str, Any]) -> Decoded[T]:
    """Decode a JSON object as ``kind``, built in or user-defined; see ``api.decode.decode``."""
    if isinstance(kind, CustomKind):
        return cast("Decoded[T]", kind.decode(body))
    return decode_definition(kind, body) if kind.struct is CustomResourceDefinition else decode(kind, body)


def _decode_as(kind: Kind[Any], stored: Kind[T], body: dict[str, Any]) -> Decoded[T]:
    """Decode a body of ``kind`` for storing; ``clean`` stays in the words of ``kind``."""
    view = view_of(kind)
    if view is None:
        return decode_body(stored, body)
    seen = decode(kind, body)
    return Decoded(decode(stored, view.to_stored(seen.clean)).obj, seen.unknown_fields, seen.type_errors, seen.clean)


def accept(
    kind: Kind[T], stored: Kind[T], body: dict[str, Any], options: WriteOptions, name: str
) -> tuple[T, list[str]]:
    """Turn a request's body into a struct of the stored version, with warnings about unknown fields.

    Args:
        kind: as the URL names it (an alias version, perhaps).
        stored: the kind under its stored version.
        body: decoded JSON object.
        options: says how strict to be.
        name: of the object, for the message of a 422.

    Raises:
        ApiError: 400 for a foreign kind or apiVersion, or unknown fields under Strict.
        Invalid: a field has the wrong type.

    """
    _check_type(kind, body)
    decoded = _decode_as(kind, stored, body)
    if decoded.unknown_fields and options.field_validation == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in decoded.unknown_fields)
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {listed}"
        )
    if decoded.type_errors:
        raise invalid(stored, name, decoded.type_errors)
    obj = decoded.obj
    obj.api_version, obj.kind = stored.api_version, stored.kind
    if options.field_validation == "Ignore":
        return obj, []
    return obj, [f'unknown field "{path}"' for path in decoded.unknown_fields]


def accept_configuration(
    kind: Kind[Any], stored: Kind[Any], body: dict[str, Any], namespace: str | None, name: str
) -> dict[str, Any]:
    """The body of a server-side apply as plain JSON: aliases normalised, nulls dropped.

    Raises:
        ApiError: 400 for another kind or version, ``managedFields``, or a field that the kind does not have.
        Invalid: a field has the wrong type.

    """
    if body.get("apiVersion") != kind.api_version:
        raise bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {body.get('apiVersion') or ''}, "
            f"expected: {kind.api_version}"
        )
    _check_type(kind, body)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    decoded = _decode_as(kind, stored, body)
    if decoded.unknown_fields:
        # Applying a field means owning it, so that unknown ones cannot be dropped, however lenient the client is.
        listed = ", ".join(f".{path}: field not declared in schema" for path in decoded.unknown_fields)
        raise bad_request(
            f"failed to create typed patch object ({namespace or ''}/{name}; {kind.group}/{kind.version}, "
            f"Kind={kind.kind}): {listed}"
        )
    if decoded.type_errors:
        raise invalid(stored, name, decoded.type_errors)
    return decoded.clean


def _check_type(kind: Kind[Any], body: dict[str, Any]) -> None:
    found = body.get("apiVersion")
    if found != kind.api_version:
        raise bad_request(
            f"the API version in the data ({found or ''}) does not match the expected API version ({kind.api_version})"
        )
    if body.get("kind") != kind.kind:
        if isinstance(kind, CustomKind) and body.get("kind"):
            error = field_error.invalid("kind", body["kind"], f"must be {kind.kind}")
            raise invalid(kind, "", [error])
        raise bad_request(
            f"the kind in the data ({body.get('kind') or ''}) does not match the expected kind ({kind.kind})"
        )


def as_version(data: bytes, stored: Kind[Any], asked: Kind[Any]) -> bytes:
    """Stored bytes as the version that was asked for shows them; the fields of all versions of a kind are equal."""
    if isinstance(stored, CustomKind):
        return stored.view(data)
    view = view_of(asked)
    if view is not None:
        return view.show(data)
    if asked.version == stored.version:
        return data
    # The encoder writes apiVersion first, so the first occurrence is the object's own.
    old = f'"apiVersion":"{stored.api_version}"'.encode()
    return data.replace(old, f'"apiVersion":"{asked.api_version}"'.encode(), 1)


def bookmark(kind: Kind[Any], revision: int, annotations: dict[str, str] | None = None) -> bytes:
    """The object of a BOOKMARK event."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    return msgspec.json.encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})


# The few fields of any object that the garbage collector and the namespace controller look at.


class Meta(msgspec.Struct, rename="camel"):
    """The part of metadata that decides about life and death."""

    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Partial(msgspec.Struct, rename="camel"):
    """Any object, only as far as ``Meta`` goes."""

    metadata: Meta


read_partial = msgspec.json.Decoder(Partial).decode


def read_meta(data: bytes) -> Meta:
    """``Meta`` of stored bytes."""
    return read_partial(data).metadata
