"""Event, core v1."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.refs import ObjectReference
from unisono.api.fields import Int32, MicroTime, Time


class EventSource(Base):
    """Who reports."""

    component: str | None = None
    host: str | None = None


class EventSeries(Base):
    """How often an event was seen since the first one."""

    count: Int32 | None = None
    last_observed_time: MicroTime | None = None


class Event(Object):
    """Something that happened to an object; types are Normal and Warning."""

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str | None = None
    message: str | None = None
    source: EventSource = msgspec.field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: Int32 | None = None
    type: str | None = None
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None
