"""The event table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unisono.apiserver.tables.columns import NAME, Column, Layout, Row, wide
from unisono.apiserver.tables.values import UNKNOWN, age, duration, get, seconds_of, text


def _first(event: Row) -> Any:
    return get(event, "firstTimestamp") or get(event, "eventTime")


def _last_seen(event: Row, now: float) -> str:
    series = get(event, "series")
    if series:
        return age(series.get("lastObservedTime"), now)
    last = get(event, "lastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _first_seen(event: Row, now: float) -> str:
    first = seconds_of(_first(event))
    return UNKNOWN if first is None else duration(now - first)


def _object(event: Row) -> str:
    return f"{text(event, 'involvedObject', 'kind').lower()}/{text(event, 'involvedObject', 'name')}"


def _source(event: Row) -> str:
    component = text(event, "source", "component") or text(event, "reportingComponent")
    host = text(event, "source", "host") or text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def _cells(event: Row, now: float) -> list[Any]:
    count = get(event, "series", "count") or get(event, "count") or 1
    return [
        _last_seen(event, now),
        text(event, "type"),
        text(event, "reason"),
        _object(event),
        text(event, "involvedObject", "fieldPath"),
        _source(event),
        text(event, "message").strip(),
        _first_seen(event, now),
        count,
        text(event, "metadata", "name"),
    ]


EVENTS = Layout(
    (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        wide("Subobject"),
        wide("Source"),
        Column("Message"),
        wide("First Seen"),
        wide("Count"),
        replace(NAME, priority=1),
    ),
    _cells,
)
