"""Schedules: what is accepted, and when it is time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.times import parse_time, rfc3339

BOUNDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def allowed(place: int, field: str) -> tuple[set[int], bool]:
    """Values of a field and whether it stands for any, written from the description of robfig/cron."""
    low, high = BOUNDS[place]
    values: set[int] = set()
    star = False
    for part in field.split(","):
        span, _, step = part.partition("/")
        number = int(step) if step else 1
        if span in ("*", "?"):
            first, last = low, high
            star |= number == 1
        else:
            start, _, end = span.partition("-")
            first, last = int(start), int(end or start)
            if step and not end:
                last = high
        values |= set(range(first, last + 1, number))
    return values, star


def fits(text: str, moment: datetime) -> bool:
    (minute, _), (hour, _), (day, any_day), (month, _), (week, any_week) = (
        allowed(place, field) for place, field in enumerate(text.split())
    )
    if moment.minute not in minute or moment.hour not in hour or moment.month not in month:
        return False
    of_month, of_week = moment.day in day, moment.isoweekday() % 7 in week
    return (of_month and of_week) if any_day or any_week else (of_month or of_week)


def field(place: int) -> st.SearchStrategy[str]:
    low, high = BOUNDS[place]
    value = st.integers(low, high)
    span = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    stepped = st.tuples(st.sampled_from(["*", "?"]) | span, st.integers(1, 12)).map(lambda p: f"{p[0]}/{p[1]}")
    single = value.map(str)
    listed = st.lists(single | span, min_size=1, max_size=3).map(",".join)
    return st.just("*") | st.just("?") | listed | stepped


expressions = st.tuples(field(0), field(1), field(2), st.just("*"), field(4)).map(" ".join)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)).map(lambda d: d.replace(microsecond=0, tzinfo=UTC))


@settings(max_examples=examples(150), deadline=None)
@given(expressions, moments)
def test_times_are_those_that_the_fields_allow(text, start):
    schedule = parse_schedule(text)
    until = start + timedelta(days=3)
    found = []
    time = schedule.next(start.timestamp())
    while time is not None and time <= until.timestamp() and len(found) < 40:
        found.append(datetime.fromtimestamp(time, UTC))
        time = schedule.next(time)
    minute = start.replace(second=0) + timedelta(minutes=1)
    wanted = []
    while minute <= until and len(wanted) < 40:
        if fits(text, minute):
            wanted.append(minute)
        minute += timedelta(minutes=1)
    assert found == wanted


@settings(max_examples=examples(150), deadline=None)
@given(expressions | st.just("@every 90s") | st.just("@every 7h"), moments, st.integers(0, 200_000))
def test_looking_back_agrees_with_looking_ahead(text, start, seconds):
    schedule, since = parse_schedule(text), start.timestamp()
    until = since + seconds
    ahead = []
    time = schedule.next(since)
    while time is not None and time <= until and len(ahead) < 5000:
        ahead.append(time)
        time = schedule.next(time)
    assert schedule.latest(since, until) == (ahead[-1] if ahead else None)
    assert schedule.missed(since, until) == min(101, len(ahead))


@pytest.mark.parametrize(
    ("text", "zone", "after", "due"),
    [
        ("@hourly", "UTC", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"),
        ("@daily", "Europe/Berlin", "2026-07-01T10:00:00Z", "2026-07-01T22:00:00Z"),
        ("@weekly", "UTC", "2026-01-01T10:00:00Z", "2026-01-04T00:00:00Z"),
        ("@monthly", "UTC", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@yearly", "UTC", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@every 90m", "UTC", "2026-01-01T10:00:30Z", "2026-01-01T11:30:30Z"),
        ("0 9 * * mon-fri", "America/New_York", "2026-01-02T20:00:00Z", "2026-01-05T14:00:00Z"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        # Either day will do when both are chosen; "every other day" is a choice as well.
        ("0 0 */2 * 1", "UTC", "2026-01-03T12:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        # Clocks go from 2:00 to 3:00 on 29 March 2026: what was due in between is due right after.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        # They go back from 3:00 to 2:00 on 25 October: what is due in between is due once.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
    ],
)
def test_next(text, zone, after, due):
    time = parse_schedule(text).next(parse_time(after), parse_zone(zone))
    assert time is not None
    assert rfc3339(time) == due


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected exactly 5 fields, found 0"),
        ("* * * *", "expected exactly 5 fields, found 4"),
        ("0 0 0 1 1 *", "expected exactly 5 fields, found 6"),
        ("60 * * * *", "Bad minute"),
        ("* 24 * * *", "Bad hour"),
        ("* * 0 * *", "Bad day-of-month"),
        ("* * * 13 *", "Bad month"),
        ("* * 30 2 *", "Bad day-of-month"),
        ("5-1 * * * *", "Bad minute"),
        ("*/0 * * * *", "Bad minute"),
        ("* * L * *", "failed to parse 'L' of the field day of month"),
        ("* * * * 5#2", "failed to parse '5#2' of the field day of week"),
        ("x * * * *", "failed to parse 'x' of the field minute"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", "invalid duration"),
        ("@every 10ms", "it must be one second or more"),
        ("@every -5m", "it must be one second or more"),
    ],
)
def test_what_is_no_schedule(text, message):
    with pytest.raises(ValueError, match=message.replace("*", r"\*")):
        parse_schedule(text)


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "Europe", "\0"])
def test_what_is_no_time_zone(name):
    with pytest.raises(ValueError, match="unknown time zone"):
        parse_zone(name)
