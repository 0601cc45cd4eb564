"""Kinds that are stored as another one: the same objects under another group or version, in other words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import Int32, MicroTime, Object, Time
from unisono.api.core.cluster import EventSeries, EventSource
from unisono.api.core.refs import ObjectReference
from unisono.api.field_error import UNREADABLE
from unisono.api.kind import Kind
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS as V2
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS_V1 as V1
from unisono.api.kinds import EVENTS

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
    told: dict[str, Any] = {
        _METRICS: others,
        _BEHAVIOR: spec.pop("behavior", None),
        _CONDITIONS: status.pop("conditions", None),
        _CURRENT: current,
    }
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _ANNOTATIONS}
    annotations |= {key: msgspec.json.encode(each).decode() for key, each in told.items() if each}
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
    found = {key: _read(annotations.pop(key)) for key in _ANNOTATIONS & annotations.keys()}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    status.pop("currentCPUUtilizationPercentage", None)
    metrics = list(found.get(_METRICS) or ())
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    for where, name, content in (
        (spec, "metrics", metrics),
        (spec, "behavior", found.get(_BEHAVIOR)),
        (status, "conditions", found.get(_CONDITIONS)),
        (status, "currentMetrics", found.get(_CURRENT)),
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


EVENTS_V1: Kind[EventV1] = Kind("events.k8s.io", "v1", "Event", "events", EventV1, short_names=("ev",))

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
    KindView(
        HORIZONTAL_POD_AUTOSCALERS_V1,
        HORIZONTAL_POD_AUTOSCALERS,
        to_stored,
        from_stored,
    ),
)
_BY_STRUCT: dict[type[Object], KindView] = {view.kind.struct: view for view in VIEWS}


def view_of(kind: Kind[Any]) -> KindView | None:
    """The view that a kind is; None for kinds that are stored as they are."""
    return _BY_STRUCT.get(kind.struct)


def selector_for(kind: Kind[Any], fields: str) -> str:
    """A field selector in the names that the stored objects have."""
    view = view_of(kind)
    return fields if view is None else view.selector(fields)
