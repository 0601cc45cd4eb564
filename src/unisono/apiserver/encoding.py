"""Stored bytes, structs and versions: decoding objects, and kinds that are served as another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from unisono.api import field_error
from unisono.api.base import Int32, MicroTime, Object, OwnerReference, Time
from unisono.api.core.cluster import EventSeries, EventSource
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.core.refs import ObjectReference
from unisono.api.decode import Decoded, decode, encode
from unisono.api.field_error import UNREADABLE
from unisono.api.kind import Kind, served
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS as V2
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS_V1 as V1
from unisono.api.kinds import EVENTS
from unisono.apiserver.custom.definitions import decode_definition
from unisono.apiserver.custom.kinds import CustomKind, CustomObject, stored_bytes
from unisono.apiserver.failures import bad_request, invalid
from unisono.apiserver.types import WriteOptions

# Kinds that are stored as another one: the same objects under another group or version, in other words.

# HorizontalPodAutoscalers in the words of ``autoscaling/v1``, which knows of one metric: the use of processors.
#
# Everything else that ``autoscaling/v2`` says goes through annotations, under the names that Kubernetes gives them, so
# that an object that is read and written by a client of v1 keeps all of it.

Document = dict[str, Any]
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CONDITIONS, _CURRENT = f"{_PREFIX}conditions", f"{_PREFIX}current-metrics"
_ANNOTATIONS = frozenset({_METRICS, _BEHAVIOR, _CONDITIONS, _CURRENT})


def from_stored(value: Document) -> Document:
    """An autoscaler of v2, which is not changed, as v1 tells it."""
    spec, status = dict(value.get("spec") or {}), dict(value.get("status") or {})
    metadata = dict(value.get("metadata") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        percent = _processor(metric, "target")
        if percent is None or "targetCPUUtilizationPercentage" in spec:
            others.append(metric)
        else:
            spec["targetCPUUtilizationPercentage"] = percent
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        percent = _processor(metric, "current")
        if percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
    # v1 always tells both numbers.
    status = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    preserved: dict[str, Any] = {
        _METRICS: others,
        _BEHAVIOR: spec.pop("behavior", None),
        _CONDITIONS: status.pop("conditions", None),
        _CURRENT: current,
    }
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _ANNOTATIONS}
    annotations |= {key: msgspec.json.encode(each).decode() for key, each in preserved.items() if each}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**value, "apiVersion": V1.api_version, "metadata": metadata, "spec": spec, "status": status}


def to_stored(value: Document) -> Document:
    """An autoscaler of v1, which is not changed, as v2 tells it; annotations that cannot be read are left alone."""
    result = {**value, "apiVersion": V2.api_version}
    spec, status = dict(value.get("spec") or {}), dict(value.get("status") or {})
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    preserved = {key: _read(annotations.pop(key)) for key in _ANNOTATIONS & annotations.keys()}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    status.pop("currentCPUUtilizationPercentage", None)
    metrics = list(preserved.get(_METRICS) or ())
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    for where, name, content in (
        (spec, "metrics", metrics),
        (spec, "behavior", preserved.get(_BEHAVIOR)),
        (status, "conditions", preserved.get(_CONDITIONS)),
        (status, "currentMetrics", preserved.get(_CURRENT)),
    ):
        if content:
            where[name] = content
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    for name, content in (("metadata", metadata), ("spec", spec), ("status", status)):
        if name in value or content:
            result[name] = content
    return result


def _processor(metric: Any, side: str) -> int | None:
    """The percentage of a metric of the processors, where it is one."""
    if not isinstance(metric, dict) or metric.get("type") != "Resource":
        return None
    resource = metric.get("resource") or {}
    percent: int | None = (resource.get(side) or {}).get("averageUtilization")
    return percent if resource.get("name") == "cpu" else None


def _read(text: Any) -> Any:
    try:
        return msgspec.json.decode(text)
    except (*UNREADABLE, TypeError):
        return None


# Events of group ``events.k8s.io``: the same objects as core events, under other names of fields.


class EventV1(Object):
    """Something that happened to an object, as ``events.k8s.io/v1`` names its parts."""

    event_time: MicroTime | None = None
    series: EventSeries | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    action: str | None = None
    reason: str | None = None
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    note: str | None = None
    type: str | None = None
    deprecated_source: EventSource | None = None
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_count: Int32 | None = None


EVENTS_V1 = served("events.k8s.io", "v1", EventV1, kind="Event", short_names=("ev",))

# Name in events.k8s.io/v1 to name in core v1; all others are the same.
_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}


def to_core(body: dict[str, Any]) -> dict[str, Any]:
    """An ``events.k8s.io`` event as a core one."""
    renamed = {_TO_CORE.get(name, name): value for name, value in body.items()}
    return {**renamed, "apiVersion": EVENTS.api_version}


def from_core(found: dict[str, Any]) -> dict[str, Any]:
    """A core event as an ``events.k8s.io`` one; parts that hold nothing are left out."""
    renamed = {_FROM_CORE.get(name, name): value for name, value in found.items() if value != {}}
    return {**renamed, "apiVersion": EVENTS_V1.api_version}


def core_selector(fields: str) -> str:
    """A field selector in the names that core events have."""
    return ",".join(_core_part(part) for part in fields.split(","))


def _core_part(part: str) -> str:
    for name in ("regarding", "reportingController"):
        if part.startswith(name):
            return _TO_CORE[name] + part.removeprefix(name)
    return part


@dataclass(frozen=True, slots=True)
class KindView:
    """One such kind.

    Attributes:
        kind: as clients see it.
        stored: what its objects are stored as.
        to_stored: a decoded object of ``kind`` as one of ``stored``.
        from_stored: a decoded stored object as one of ``kind``.
        selector: a field selector of ``kind`` in the words of ``stored``.
    """

    kind: Kind[Any]
    stored: Kind[Any]
    to_stored: Callable[[Document], Document]
    from_stored: Callable[[Document], Document]
    selector: Callable[[str], str] = str

    def show(self, data: bytes) -> bytes:
        """Stored bytes as clients see them."""
        return msgspec.json.encode(self.from_stored(msgspec.json.decode(data)))


VIEWS: tuple[KindView, ...] = (
    KindView(EVENTS_V1, EVENTS, to_core, from_core, core_selector),
    KindView(HORIZONTAL_POD_AUTOSCALERS_V1, HORIZONTAL_POD_AUTOSCALERS, to_stored, from_stored),
)
_BY_STRUCT: dict[type[Object], KindView] = {view.kind.struct: view for view in VIEWS}


def view_of(kind: Kind[Any]) -> KindView | None:
    """The view that a kind is; None for kinds that are stored as they are."""
    return _BY_STRUCT.get(kind.struct)


def selector_for(kind: Kind[Any], fields: str) -> str:
    """A field selector in the names that the stored objects have."""
    view = view_of(kind)
    return fields if view is None else view.selector(fields)


# Between bytes, JSON values and structs, and between the versions of a kind.

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
    return replace(seen, obj=decode(stored, view.to_stored(seen.clean)).obj)


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
        listed = ", ".join(decoded.unknown_texts())
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
    return obj, decoded.unknown_texts()


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
    version = body.get("apiVersion")
    if version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version "
            f"({kind.api_version})"
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
