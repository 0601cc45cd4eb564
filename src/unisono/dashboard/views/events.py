"""Events of a job and of what belongs to it (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from unisono.api.times import time_or
from unisono.dashboard.views.wire import EventRow

_MOST = 100
_LONGEST = 1000


def event_rows(events: Iterable[Mapping[str, Any]], uids: Collection[str]) -> list[EventRow]:
    """Those events that are about the objects with these UIDs, the newest first."""
    found = [_row(event) for event in events if (event.get("involvedObject") or {}).get("uid") in uids]
    return sorted(found, key=lambda row: (-row.time, row.key))[:_MOST]


def _row(event: Mapping[str, Any]) -> EventRow:
    about, meta = event.get("involvedObject") or {}, event.get("metadata") or {}
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        meta.get("creationTimestamp"),
    )
    return EventRow(
        key=str(meta.get("uid") or meta.get("name") or ""),
        time=time_or(next((str(time) for time in times if time), "")),
        type=str(event.get("type") or "Normal"),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or "")[:_LONGEST],
        about=f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        count=int(series.get("count") or event.get("count") or 1),
    )
