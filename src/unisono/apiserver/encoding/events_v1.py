"""Events of group ``events.k8s.io``: the same objects as core events, under other names of fields."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object
from unisono.api.core.event import EventSeries, EventSource
from unisono.api.core.refs import ObjectReference
from unisono.api.fields import Int32, MicroTime, Time
from unisono.api.kind import Kind
from unisono.api.kinds import EVENTS


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
