"""What holds from a time to a time: windows, who may use the nodes of a Reservation, TemporaryQuotas (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import NamedTuple

from unisono.api.cron import EVERY, Schedule, parse_schedule, parse_zone
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.groups import calendar
from unisono.api.resources import resource_list
from unisono.api.selecting import is_one_of
from unisono.api.times import duration_or_none, is_time, parse_time, rfc3339

_LONGEST_SECONDS = 366 * 86_400.0
EVERY_NODE = "*"


class Window(NamedTuple):
    """From when to when, seconds since the epoch; the end is no part of it."""

    start: float
    end: float

    def holds(self, now: float) -> bool:
        """Whether a moment is inside."""
        return self.start <= now < self.end

    def overlaps(self, other: Window) -> bool:
        """Whether they have a moment in common."""
        return self.start < other.end and other.start < self.end

    @property
    def text(self) -> str:
        """``2026-01-01T08:00:00Z to 2026-01-01T10:00:00Z``."""
        return f"{rfc3339(self.start)} to {rfc3339(self.end)}"


@dataclass(frozen=True, slots=True)
class Times:
    """When a reservation has windows.

    Attributes:
        since: no window begins before.
        until: the end of the only window; with a schedule none begins at this time or later.
        seconds: how long a window is.
        schedule: when one begins; None: there is one, at ``since``.
        zone: where that is meant.
    """

    since: float
    until: float
    seconds: float
    schedule: Schedule | None = None
    zone: tzinfo = UTC

    @property
    def only(self) -> Window | None:
        """The window of one that has no schedule."""
        return Window(self.since, self.until) if self.schedule is None else None

    def window(self, now: float) -> Window | None:
        """The one that holds now, or the next one; None when there is none any more."""
        if self.schedule is None:
            return self.only if now < self.until else None
        # The first one that has not ended; a moment more than its length ago, because `next` wants a later one.
        start = self.schedule.next(max(now - self.seconds, self.since - 1.0), self.zone)
        return None if start is None or start >= self.until else Window(start, start + self.seconds)


@dataclass(frozen=True, slots=True)
class Booking:
    """A Reservation as it is read.

    Attributes:
        name, created: of the object, seconds since the epoch.
        times: its windows.
        nodes: names, empty where any; ``labels`` and ``hyper_node`` bound them further.
        count, amounts: how many of these nodes; None and empty where all.
        users, namespaces, queues: who may use them.
        maintenance: nobody may use them.
        evicts: pods of others leave before a window begins.
    """

    name: str
    created: float
    times: Times
    nodes: frozenset[str]
    labels: Mapping[str, str]
    hyper_node: str
    count: int | None
    amounts: Mapping[str, int]
    users: frozenset[str]
    namespaces: tuple[str, ...]
    queues: frozenset[str]
    maintenance: bool
    evicts: bool

    def admits(self, account: str, namespace: str, queues: Iterator[str]) -> bool:
        """Whether a job may use the nodes.

        Args:
            account: of who submitted it, and ``namespace`` its namespace.
            namespace: of the job.
            queues: the job's queue and those above it.
        """
        if self.maintenance:
            return False
        return is_one_of(self.users, self.namespaces, self.queues, account, namespace, queues)


def booking_of(obj: calendar.Reservation) -> Booking:
    """Read an object.

    Raises:
        ValueError: it breaks a rule; the message names the field.
    """
    wrong = next(mistakes(obj.spec), None)
    if wrong is not None:
        raise ValueError(wrong.message())
    spec, meta = obj.spec, obj.metadata
    names = frozenset(spec.nodes or ())
    return Booking(
        meta.name,
        parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        times_of(spec),
        frozenset() if EVERY_NODE in names else names,
        dict(spec.node_selector or {}),
        spec.hyper_node or "",
        spec.count,
        resource_list(spec.amounts),
        frozenset(spec.users or ()),
        tuple(spec.namespaces or ()),
        frozenset(spec.queues or ()),
        spec.purpose == calendar.MAINTENANCE,
        spec.purpose == calendar.MAINTENANCE or spec.running == calendar.EVICT,
    )


@dataclass(frozen=True, slots=True)
class Numbers:
    """A TemporaryQuota as it is read.

    Attributes:
        name, created: of the object, seconds since the epoch.
        times: its windows.
        queue: whose numbers they are.
        amounts: by ``capability``, ``deserved`` and ``guarantee``, and by resource, in engine units.
        weight: None where it stays.
    """

    name: str
    created: float
    times: Times
    queue: str
    amounts: Mapping[str, Mapping[str, int]]
    weight: int | None


AMOUNTS = ("capability", "deserved", "guarantee")


def numbers_of(obj: calendar.TemporaryQuota) -> Numbers:
    """Read an object.

    Raises:
        ValueError: it breaks a rule; the message names the field.
    """
    wrong = next(quota_mistakes(obj.spec), None)
    if wrong is not None:
        raise ValueError(wrong.message())
    spec, meta = obj.spec, obj.metadata
    amounts = {name: resource_list(given) for name in AMOUNTS if (given := getattr(spec, name))}
    created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    return Numbers(meta.name, created, times_of(spec), spec.queue, amounts, spec.weight)


def times_of(spec: calendar.Timed) -> Times:
    """When something without mistakes has windows."""
    since = parse_time(spec.start) if spec.start else 0.0
    seconds = duration_or_none(spec.duration) or 0.0
    if spec.schedule:
        until = parse_time(spec.end) if spec.end else float("inf")
        return Times(since, until, seconds, parse_schedule(spec.schedule), parse_zone(spec.time_zone or "UTC"))
    until = parse_time(spec.end) if spec.end else since + seconds
    return Times(since, until, until - since)


def quota_mistakes(spec: calendar.TemporaryQuotaSpec) -> Iterator[FieldError]:
    """What is wrong with when, and for which queue."""
    yield from _wrong_times(spec)
    if not spec.queue:
        yield required("spec.queue", "name the queue")
    if spec.weight is None and not any(getattr(spec, name) for name in AMOUNTS):
        yield required("spec.capability", "say what holds: capability, deserved, guarantee or weight")


def mistakes(spec: calendar.ReservationSpec) -> Iterator[FieldError]:
    """What is wrong with when, where and for whom."""
    yield from _wrong_times(spec)
    if not (spec.nodes or spec.node_selector or spec.hyper_node or spec.count or spec.amounts):
        yield required("spec.nodes", 'name nodes, or ["*"] for all; or set nodeSelector, hyperNode, count or amounts')
    if spec.count and spec.amounts:
        yield forbidden("spec.amounts", "may not be set beside count: either says how many nodes")
    for index, name in enumerate(spec.namespaces or ()):
        if "*" in name[:-1]:
            yield invalid(f"spec.namespaces[{index}]", name, "a * may only stand at the end")
    someone = spec.users or spec.namespaces or spec.queues
    if spec.purpose == calendar.MAINTENANCE and (someone or spec.running):
        field = (
            "running"
            if spec.running
            else next(name for name in ("users", "namespaces", "queues") if getattr(spec, name))
        )
        yield forbidden(f"spec.{field}", "may not be set for Maintenance: nobody may use the nodes, and all pods leave")
    elif spec.purpose != calendar.MAINTENANCE and not someone:
        yield required("spec.users", "say who may use the nodes: users, namespaces or queues")


def _wrong_times(spec: calendar.Timed) -> Iterator[FieldError]:
    for field, text in (("start", spec.start), ("end", spec.end)):
        if text is not None and not is_time(text):
            yield invalid(f"spec.{field}", text, "must be a time such as 2026-11-20T16:30:00Z")
            return
    seconds = duration_or_none(spec.duration)
    if spec.duration is not None and (seconds is None or not 1.0 <= seconds <= _LONGEST_SECONDS):
        yield invalid("spec.duration", spec.duration, "must be a duration such as 90m, from 1s to a year")
        return
    yield from _repetition(spec) if spec.schedule is not None else _once(spec)


def _once(spec: calendar.Timed) -> Iterator[FieldError]:
    if spec.time_zone:
        yield forbidden("spec.timeZone", "is for schedule; start and end have their offsets")
    if not spec.start:
        yield required("spec.start", "say when it begins, such as 2026-11-20T16:30:00Z, or set schedule")
    elif bool(spec.end) == bool(spec.duration):
        detail = "set one of end and duration"
        yield required("spec.end", detail) if not spec.end else forbidden("spec.duration", detail)
    elif spec.end and parse_time(spec.end) <= parse_time(spec.start):
        yield invalid("spec.end", spec.end, "must be after start")


def _repetition(spec: calendar.Timed) -> Iterator[FieldError]:
    text = spec.schedule or ""
    try:
        if text.startswith(EVERY):
            raise ValueError("@every has no time of day")
        parse_schedule(text)
    except ValueError as error:
        yield invalid(
            "spec.schedule", text, f"{error}; write five fields such as '30 2 * * 1-5', or @daily, for example"
        )
    try:
        parse_zone(spec.time_zone or "UTC")
    except ValueError as error:
        yield invalid("spec.timeZone", spec.time_zone, f"{error}; write Europe/Berlin, for example")
    if not spec.duration:
        yield required("spec.duration", "say how long each window is, such as 2h")
    if spec.start and spec.end and parse_time(spec.end) <= parse_time(spec.start):
        yield invalid("spec.end", spec.end, "must be after start")
