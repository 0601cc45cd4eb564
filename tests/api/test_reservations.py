"""When Reservations have windows, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.groups.calendar import Reservation
from unisono.api.kinds import RESERVATIONS
from unisono.api.reservations import Window, booking_of
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation import validate

ANY = {"nodes": ["*"], "queues": ["q"]}


def made(**spec: Any) -> Reservation:
    return msgspec.convert({"metadata": {"name": "r"}, "spec": {**ANY, **spec}}, Reservation)


@pytest.mark.parametrize(
    ("spec", "at", "window"),
    [
        (
            {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T10:00:00Z"},
            "2026-02-01T00:00:00Z",
            "2026-03-01T08:00:00Z to 2026-03-01T10:00:00Z",
        ),
        (
            {"start": "2026-03-01T08:00:00+02:00", "duration": "30m"},
            "2026-03-01T06:10:00Z",
            "2026-03-01T06:00:00Z to 2026-03-01T06:30:00Z",
        ),
        ({"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T10:00:00Z"}, "2026-03-01T10:00:00Z", ""),
        # Every night, over midnight; within the window, and at its end.
        (
            {"schedule": "0 22 * * *", "duration": "4h"},
            "2026-03-02T01:00:00Z",
            "2026-03-01T22:00:00Z to 2026-03-02T02:00:00Z",
        ),
        (
            {"schedule": "0 22 * * *", "duration": "4h"},
            "2026-03-01T22:00:00Z",
            "2026-03-01T22:00:00Z to 2026-03-02T02:00:00Z",
        ),
        (
            {"schedule": "0 22 * * *", "duration": "4h"},
            "2026-03-02T02:00:00Z",
            "2026-03-02T22:00:00Z to 2026-03-03T02:00:00Z",
        ),
        (
            {"schedule": "0 22 * * *", "duration": "4h", "timeZone": "Europe/Berlin"},
            "2026-07-01T12:00:00Z",
            "2026-07-01T20:00:00Z to 2026-07-02T00:00:00Z",
        ),
        # Bounded: from start on, and none that would begin at the end or later.
        (
            {"schedule": "0 22 * * *", "duration": "4h", "start": "2026-03-05T22:00:00Z"},
            "2026-03-02T12:00:00Z",
            "2026-03-05T22:00:00Z to 2026-03-06T02:00:00Z",
        ),
        (
            {"schedule": "0 22 * * *", "duration": "4h", "end": "2026-03-02T22:00:00Z"},
            "2026-03-02T01:00:00Z",
            "2026-03-01T22:00:00Z to 2026-03-02T02:00:00Z",
        ),
        ({"schedule": "0 22 * * *", "duration": "4h", "end": "2026-03-02T22:00:00Z"}, "2026-03-02T02:00:00Z", ""),
    ],
)
def test_windows(spec: dict[str, Any], at: str, window: str) -> None:
    found = booking_of(made(**spec)).times.window(parse_time(at))
    assert (found.text if found is not None else "") == window


def test_every_moment_of_a_year_is_in_the_window_that_was_told_before() -> None:
    """Whatever clocks do: windows follow one another, and the one that is told next is the one that then holds."""
    times = booking_of(made(schedule="30 2 * * *", duration="90m", timeZone="Europe/Berlin")).times
    now = parse_time("2026-01-01T00:00:00Z")
    for _ in range(366):
        window = times.window(now)
        assert window is not None and window.start >= now, rfc3339(now)
        assert times.window(window.start) == times.window(window.end - 1.0) == window
        now = window.end


def test_windows_overlap_when_they_share_a_moment() -> None:
    one = Window(10.0, 20.0)
    shared = {(0.0, 10.0): False, (0.0, 11.0): True, (19.0, 30.0): True, (20.0, 30.0): False, (12.0, 13.0): True}
    for (start, end), yes in shared.items():
        assert one.overlaps(Window(start, end)) is Window(start, end).overlaps(one) is yes


ONCE = {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T10:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({}, "spec.start", "say when it begins"),
        ({"start": "tomorrow", "duration": "1h"}, "spec.start", "must be a time such as"),
        ({"start": ONCE["start"]}, "spec.end", "set one of end and duration"),
        ({**ONCE, "duration": "1h"}, "spec.duration", "set one of end and duration"),
        ({"start": ONCE["end"], "end": ONCE["start"]}, "spec.end", "must be after start"),
        ({"start": ONCE["start"], "duration": "1 hour"}, "spec.duration", "must be a duration such as 90m"),
        ({"start": ONCE["start"], "duration": "0s"}, "spec.duration", "from 1s to a year"),
        ({**ONCE, "timeZone": "UTC"}, "spec.timeZone", "is for schedule"),
        ({"schedule": "0 22 * * *"}, "spec.duration", "say how long each window is"),
        ({"schedule": "every night", "duration": "1h"}, "spec.schedule", "expected exactly 5 fields"),
        ({"schedule": "@every 8h", "duration": "1h"}, "spec.schedule", "@every has no time of day"),
        (
            {"schedule": "0 22 * * *", "duration": "1h", "timeZone": "Berlin"},
            "spec.timeZone",
            "unknown time zone Berlin",
        ),
        ({**ONCE, "nodes": []}, "spec.nodes", "name nodes"),
        ({**ONCE, "count": 2, "amounts": {"cpu": 1}}, "spec.amounts", "beside count"),
        ({**ONCE, "amounts": {"cpu": "many"}}, "spec.amounts", ""),
        ({**ONCE, "count": 0}, "spec.count", ""),
        ({**ONCE, "queues": []}, "spec.users", "say who may use the nodes"),
        ({**ONCE, "namespaces": ["a*b"]}, "spec.namespaces[0]", "at the end"),
        ({**ONCE, "purpose": "Maintenance"}, "spec.queues", "nobody may use the nodes"),
        ({**ONCE, "purpose": "Maintenance", "queues": None, "running": "Stay"}, "spec.running", "all pods leave"),
        ({**ONCE, "purpose": "Fun"}, "spec.purpose", "Maintenance"),
        ({**ONCE, "running": "Maybe"}, "spec.running", "Evict"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], field: str, text: str) -> None:
    errors = [error for error in validate(RESERVATIONS, made(**spec)) if error.path.startswith(field)]
    assert errors, validate(RESERVATIONS, made(**spec))
    assert text in errors[0].message()


def test_what_is_in_order() -> None:
    for spec in (
        ONCE,
        {"schedule": "0 22 * * *", "duration": "4h", "timeZone": "Europe/Berlin", **{"start": ONCE["start"]}},
        {**ONCE, "purpose": "Maintenance", "queues": None},
        {**ONCE, "amounts": {"nvidia.com/gpu": 16}, "running": "Evict"},
    ):
        assert validate(RESERVATIONS, made(**spec)) == []
