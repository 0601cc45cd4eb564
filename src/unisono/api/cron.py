"""Schedules of cron jobs: five fields, descriptors such as ``@daily``, and ``@every <duration>``.

The times of five fields are computed by cronsim. What is accepted is what Volcano's parser (robfig/cron) accepts: its
syntax is narrower than cronsim's in some places and wider in others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from unisono.api.times import parse_duration

DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY = "@every "
_MOST_MISSED = 101
HINT = "write five fields such as '30 2 * * 1-5', or @hourly, @daily, @weekly, @monthly, @yearly or @every 90m"

_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_VALUE = r"(?:[0-9]{1,2}|[a-z]{3})"
_PART = re.compile(rf"(?:[*?]|{_VALUE}(?:-{_VALUE})?)(?:/[0-9]+)?", re.IGNORECASE)
# Every n-th day is a choice of days, and not "any day": the other day field then counts as well.
_DAY_STEPS = {2: re.compile(r"^\*(/(?!1$)[0-9]+)$"), 4: re.compile(r"^\*(/(?!1$)[0-9]+)$")}
_DAY_RANGES = {2: "1-31", 4: "0-6"}
_SINGLE = re.compile(r"^(\w+)-\1/[0-9]+$")
# The least that @every can mean: a schedule in whole seconds.
_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something happens again and again.

    Attributes:
        fields: five cron fields as cronsim reads them; empty with ``every``.
        every: seconds between two times, counted from the last one; 0 with ``fields``.
    """

    fields: str = ""
    every: float = 0.0

    def next(self, after: float, zone: tzinfo = UTC) -> float | None:
        """The first time after ``after`` (seconds since 1970); None when there is none within fifty years."""
        if self.every:
            return after + self.every
        # From the second before: cronsim starts with the second that follows.
        upcoming = next(CronSim(self.fields, _local(math.floor(after), zone)), None)
        return None if upcoming is None else upcoming.timestamp()

    def upcoming(self, since: float, now: float, zone: tzinfo = UTC) -> float | None:
        """The first time after ``now``, when the last one was ``since``; None when there is none."""
        if self.every:
            return since + (math.floor((now - since) / self.every) + 1) * self.every
        return self.next(now, zone)

    def latest(self, since: float, until: float, zone: tzinfo = UTC) -> float | None:
        """The last time that is after ``since`` and not after ``until``."""
        return next(self._backwards(since, until, zone), None)

    def missed(self, since: float, until: float, zone: tzinfo = UTC) -> int:
        """How many times there are after ``since`` and not after ``until``; counting ends at 101."""
        if self.every:
            return min(_MOST_MISSED, max(0, math.floor((until - since) / self.every)))
        return sum(1 for _, _ in zip(range(_MOST_MISSED), self._backwards(since, until, zone), strict=False))

    def _backwards(self, since: float, until: float, zone: tzinfo) -> Iterator[float]:
        if self.every:
            for count in range(math.floor((until - since) / self.every), 0, -1):
                yield since + count * self.every
            return
        for moment in CronSim(self.fields, _local(math.floor(until) + 1, zone), reverse=True):
            time = moment.timestamp()
            if time <= since:
                return
            # A time that a change of clocks moved forward may lie beyond.
            if time <= until:
                yield time


@lru_cache(maxsize=4096)
def parse_schedule(text: str) -> Schedule:
    """Read a schedule; time zones stand elsewhere.

    Raises:
        ValueError: the text is none; the message says which part.
    """
    text = text.strip()
    if text.startswith(EVERY):
        return Schedule(every=_interval(text.removeprefix(EVERY).strip()))
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: {text}")
    for name, part in zip(_FIELDS, parts, strict=True):
        for one in part.split(","):
            if not _PART.fullmatch(one):
                raise ValueError(f"failed to parse {one!r} of the field {name}")
    fields = " ".join(_field(place, part.replace("?", "*")) for place, part in enumerate(parts))
    try:
        CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(str(error)) from error
    return Schedule(fields)


@lru_cache(maxsize=1024)
def parse_zone(name: str) -> ZoneInfo:
    """A time zone of the IANA database. Raises ValueError when it has none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(place: int, text: str) -> str:
    step = _DAY_STEPS[place].match(text) if place in _DAY_STEPS else None
    if step:
        return f"{_DAY_RANGES[place]}{step[1]}"
    # A range of one value with a step is that value; cronsim would go on to the end of the field.
    return ",".join(_SINGLE.sub(r"\1", part) for part in text.split(","))


def _interval(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < _LEAST_SECONDS:
        raise ValueError(f"failed to parse duration {text!r}: it must be one second or more")
    return float(math.floor(seconds))


def _local(seconds: int, zone: tzinfo) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)
