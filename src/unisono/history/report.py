"""Reports from records: who used how much, who waited how long; and what they answer, as JSON carries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from unisono.api.kinds import NODE_CHECKS
from unisono.api.resources import is_bytes
from unisono.api.times import rfc3339
from unisono.errors import ApiError
from unisono.history import records

# What reports answer, as JSON carries it.

By = Literal["queue", "namespace", "user", "job", "day"]
BY: tuple[By, ...] = ("queue", "namespace", "user", "job", "day")
PATH = "/unisono/v1/history"
"""Where the API server answers them: ``/report`` and ``/jobs`` below."""


class Waiting(msgspec.Struct, omit_defaults=True):
    """How long jobs waited for their first pod, in seconds.

    Attributes:
        jobs: that started.
        p50: half of them waited no longer.
        p95: nineteen of twenty.
        max: the longest.
    """

    jobs: int = 0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Row(msgspec.Struct, omit_defaults=True):
    """One queue, namespace, user, job or day.

    Attributes:
        key: its name; a job's as ``namespace/name``, a day's as ``2026-11-01``.
        ended: jobs that ended, by outcome.
        hours: use by resource: cards and CPUs in hours, bytes in byte-hours.
        gpu_hours: of all kinds of cards.
        cpu_hours: of CPUs.
        waiting: of jobs that started.
        evictions: pods that had to go.
        failures: pods that failed.
        kind: of a job.
        capacity: of the cluster on a day, as of the report; of days alone.
        pending: jobs that wait at the end of the time and have not started yet.
        on: use by node and resource, in the units of ``hours``, where it was asked for; of sums of older records no
            node is known.
    """

    key: str
    ended: dict[str, int] = {}
    hours: dict[str, float] = {}
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    waiting: Waiting = msgspec.field(default_factory=Waiting)
    evictions: int = 0
    failures: int = 0
    kind: str = ""
    capacity: dict[str, float] = {}
    pending: int = 0
    on: dict[str, dict[str, float]] = {}


class SizeRow(msgspec.Struct, omit_defaults=True):
    """Waiting times of jobs of one queue and size; ``size`` such as ``2-8 GPUs``."""

    queue: str
    size: str
    waiting: Waiting


class Report(msgspec.Struct, omit_defaults=True):
    """A report of a time.

    Attributes:
        start: seconds since 1970.
        end: seconds since 1970.
        by: what a row stands for.
        rows: most use first, days in their order.
        total: of all rows but `CHECKS`.
        sizes: waiting times by queue and size.
        capacity: of the cluster by resource, in the units of ``Row.hours``; empty where the viewer may not list nodes.
        summed: a part of the time is known as sums of hours alone: without jobs and without waiting times.
        more: there are more rows than are shown.
        since: when the history begins, in seconds since 1970; 0 where it is empty or not known.
        unknown: fields of the rows that the source does not keep; the total may have them.
    """

    start: float
    end: float
    by: By
    rows: list[Row]
    total: Row
    sizes: list[SizeRow] = []
    capacity: dict[str, float] = {}
    summed: bool = False
    more: bool = False
    since: float = 0.0
    unknown: list[str] = []


class JobLine(msgspec.Struct, omit_defaults=True):
    """One job, as accounting shows it; times in seconds since 1970, 0 for none yet."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue: str
    user: str
    state: str
    created: float
    started: float = 0.0
    ended: float = 0.0
    elapsed: float = 0.0
    gpus: float = 0.0
    cpus: float = 0.0
    pods: int = 0
    exit_code: int | None = None
    message: str = ""
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    evictions: int = 0
    failures: int = 0
    restarts: int = 0
    memory: int = 0


class Accounts(msgspec.Struct, omit_defaults=True):
    """Jobs that were there in a time, the latest last."""

    start: float
    end: float
    jobs: list[JobLine]
    more: bool = False


_DAY = 24 * records.HOUR
MOST_ROWS = 10_000
"""Rows of one answer."""
NOBODY = "(unknown)"
"""Stands for the user of jobs of which the server did not say who submitted them."""
CHECKS = "(node checks)"
"""The row of the pods of NodeChecks, whatever a row stands for: they are no jobs, and the total is without them."""
_SIZES = ((1, "1 GPU"), (8, "2-8 GPUs"), (64, "9-64 GPUs"), (512, "65-512 GPUs"))
_WEEK_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Window:
    """A time, in milliseconds since 1970; what goes on lasts until ``now``."""

    start: int
    end: int
    now: int

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """What of an interval is in the window; the end is before the start where nothing is."""
        return max(start, self.start), min(end or self.now, self.end, self.now)

    def has(self, moment: int) -> bool:
        """Whether a moment is in the window."""
        return moment > 0 and self.start <= moment < self.end


@dataclass(slots=True)
class _Sum:
    """Of one row, in whole numbers."""

    held: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    waits: list[int] = field(default_factory=list)
    evictions: float = 0.0
    failures: float = 0.0
    older: dict[str, float] = field(default_factory=dict)
    kind: str = ""
    pending: int = 0
    on: dict[str, Counter[str]] = field(default_factory=dict)

    def row(self, key: str) -> Row:
        """The row of that name."""
        hours = {
            name: (self.held[name] / records.HOUR + self.older.get(name, 0.0) / 3600) / unit(name)
            for name in sorted({*self.held, *self.older})
        }
        return Row(
            key,
            ended={name: number for name, number in sorted(self.ended.items()) if number},
            hours=hours,
            gpu_hours=sum(amount for name, amount in hours.items() if records.is_gpu(name)),
            cpu_hours=hours.get("cpu", 0.0),
            waiting=waiting(self.waits),
            evictions=round(self.evictions),
            failures=round(self.failures),
            kind=self.kind,
            pending=self.pending,
            on={node: _in_hours(held) for node, held in sorted(self.on.items())},
        )


class Counting:
    """Counts records, in whatever order they come.

    Args:
        window: the time.
        by: what a row stands for.
        nodes: whether rows say what was used on which node.
    """

    def __init__(self, window: Window, by: By, *, nodes: bool = False) -> None:
        self._window, self._by, self._nodes = window, by, nodes
        self._rows: dict[str, _Sum] = {}
        self._total = _Sum()
        self._sizes: dict[tuple[str, int, str], list[int]] = {}
        self._capacity: Counter[str] = Counter()
        self._of_day: dict[str, Counter[str]] = {}
        self._summed = False

    def job(self, job: records.JobRecord) -> None:
        """A job that ended or started in the window, or waits at its end."""
        if self._window.has(job.ended):
            for each in self._sums(job.queue, job, job.ended):
                each.ended[records.ended_as(job)] += 1
        if self._window.has(job.started):
            wait = max(0, job.started - job.created)
            for each in self._sums(job.queue, job, job.started):
                each.waits.append(wait)
            if not _is_check(job):
                self._sizes.setdefault((job.queue, *size_of(job)), []).append(wait)
        last = min(self._window.end, self._window.now + 1)
        if job.created < last and not 0 < job.started < last and not 0 < job.ended < last:
            for each in self._sums(job.queue, job, last - 1):
                each.pending += 1

    def interval(self, interval: records.Interval, job: records.JobRecord) -> None:
        """A pod of a job."""
        start, end = self._window.clip(interval.start, interval.end)
        parts: Iterable[tuple[int, int, int]] = ((start, start, end),)
        if self._by == "day":
            parts = records.pieces(start, end, _DAY)
        for at, low, high in parts:
            if high <= low:
                continue
            for each in self._sums(interval.queue, job, at):
                for name, amount in interval.resources.items():
                    each.held[name] += amount * (high - low)
                    if self._nodes:
                        each.on.setdefault(interval.node, Counter())[name] += amount * (high - low)
        if self._window.has(interval.end) and interval.outcome in (records.EVICTED, "Failed"):
            for each in self._sums(interval.queue, job, interval.end):
                each.evictions += interval.outcome == records.EVICTED
                each.failures += interval.outcome == "Failed"

    def hour(self, hour: records.Hour, amount: float) -> None:
        """A sum of older records; of an hour at the window's edge the part that is within."""
        part = records.overlap(hour.hour, hour.hour + records.HOUR, self._window.start, self._window.end) / records.HOUR
        if not part:
            return
        self._summed = True
        stands_for = records.JobRecord("", "", "", hour.resource, hour.namespace, "", user=hour.user)
        for each in self._sums(hour.queue, stands_for, hour.hour):
            if hour.measure.startswith(records.ENDED):
                each.ended[hour.measure.removeprefix(records.ENDED)] += (
                    round(amount) if self._window.has(hour.hour) else 0
                )
            elif hour.measure == records.EVICTIONS:
                each.evictions += amount * part
            elif hour.measure == records.FAILURES:
                each.failures += amount * part
            else:
                each.older[hour.measure] = each.older.get(hour.measure, 0.0) + amount * part

    def capacity(self, shares: Sequence[records.Share]) -> None:
        """The cluster's capacity of one resource, in the order of time; each holds until the next."""
        for share, following in zip(shares, [*shares[1:], None], strict=True):
            start, end = self._window.clip(share.at, following.at if following else 0)
            for begin, low, high in records.pieces(start, end, _DAY):
                amount = share.capacity * (high - low)
                self._capacity[share.resource] += amount
                if self._by == "day":
                    self._of_day.setdefault(day_of(begin), Counter())[share.resource] += amount

    def report(self, since: int) -> Report:
        """All of it.

        Args:
            since: when the history begins.
        """
        rows = [each.row(key) for key, each in self._rows.items()]
        for row in rows:
            row.capacity = _in_hours(self._of_day.get(row.key, {}))
        if self._by == "day":
            rows.sort(key=lambda row: row.key)
        else:
            rows.sort(key=lambda row: (-row.gpu_hours, -row.cpu_hours, row.key))
        sizes = [SizeRow(queue, size, waiting(waits)) for (queue, _, size), waits in sorted(self._sizes.items())]
        return Report(
            self._window.start / 1000,
            self._window.end / 1000,
            self._by,
            rows[:MOST_ROWS],
            self._total.row("total"),
            sizes[:MOST_ROWS],
            _in_hours(self._capacity),
            self._summed,
            len(rows) > MOST_ROWS,
            since / 1000,
        )

    def _sums(self, queue: str, job: records.JobRecord, moment: int) -> Iterator[_Sum]:
        key = self._key(queue, job, moment)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Sum(kind=job.kind if self._by == "job" else "")
        yield row
        if not _is_check(job):
            yield self._total

    def _key(self, queue: str, job: records.JobRecord, moment: int) -> str:
        if _is_check(job):
            return CHECKS
        match self._by:
            case "queue":
                return queue
            case "namespace":
                return job.namespace
            case "user":
                return job.user or NOBODY
            case "day":
                return day_of(moment)
        return f"{job.namespace}/{job.name}" if job.name else "(older jobs)"


def _is_check(job: records.JobRecord) -> bool:
    return job.resource == NODE_CHECKS.resource


def accounts(
    window: Window, jobs: Iterable[tuple[records.JobRecord, Sequence[records.Interval]]], *, more: bool = False
) -> Accounts:
    """Jobs with their use in a window."""
    return Accounts(window.start / 1000, window.end / 1000, [_line(window, *each) for each in jobs], more)


def _line(window: Window, job: records.JobRecord, intervals: Sequence[records.Interval]) -> JobLine:
    counting = Counting(window, "job")
    for interval in intervals:
        counting.interval(interval, job)
    report = counting.report(0)
    used = next(iter(report.rows), report.total)
    ended = job.ended or window.now
    return JobLine(
        job.uid,
        job.kind,
        job.namespace,
        job.name,
        job.queue,
        job.user,
        records.ended_as(job) or ("Running" if job.started else "Pending"),
        job.created / 1000,
        job.started / 1000,
        job.ended / 1000,
        max(0, ended - job.started) / 1000 if job.started else 0.0,
        job.gpus / 1000,
        job.cpus / 1000,
        job.pods,
        job.exit_code,
        job.message,
        used.gpu_hours,
        used.cpu_hours,
        used.evictions,
        used.failures,
        sum(each.restarts for each in intervals),
        job.memory,
    )


def waiting(waits: list[int]) -> Waiting:
    """Of waiting times in milliseconds; each percentile is the time of a job (nearest rank)."""
    if not waits:
        return Waiting()
    ranked = sorted(waits)

    def rank(percent: int) -> float:
        return ranked[max(0, -(-len(ranked) * percent // 100) - 1)] / 1000

    return Waiting(len(ranked), rank(50), rank(95), ranked[-1] / 1000)


def size_of(job: records.JobRecord) -> tuple[int, str]:
    """The class of a job's size, and its name."""
    if not job.gpus:
        return 0, "no GPU"
    for number, (most, name) in enumerate(_SIZES, start=1):
        if job.gpus <= most * 1000:
            return number, name
    return len(_SIZES) + 1, "more than 512 GPUs"


def day_of(moment: int) -> str:
    """The day (of UTC) of a moment, as ``2026-11-01``."""
    return rfc3339(moment / 1000)[:10]


def _in_hours(amounts: Mapping[str, int]) -> dict[str, float]:
    return {name: amount / records.HOUR / unit(name) for name, amount in sorted(amounts.items())}


def unit(name: str) -> int:
    """Engine units in one of what people count."""
    return 1 if is_bytes(name) or name == "pods" else 1000


def window_of(query: Mapping[str, str], now: float) -> Window:
    """The time of ``from`` and ``to``, by default the last week.

    Args:
        query: parameters of the question.
        now: seconds since 1970.

    Raises:
        ApiError: 400 where they cannot be read.
    """
    end = _seconds(query, "to", now)
    start = _seconds(query, "from", end - _WEEK_SECONDS)
    if start >= end:
        raise bad_request("from must be before to")
    return Window(round(start * 1000), round(end * 1000), round(now * 1000))


def points_of(query: Mapping[str, str]) -> int:
    """How many points a chart wants.

    Raises:
        ApiError: 400 where that is no number.
    """
    text = query.get("points", "") or "120"
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text)):
        raise bad_request(f"points must be a number from 1 on, and not {text!r}")
    return int(text)


def bad_request(message: str) -> ApiError:
    """The error of a question that cannot be answered as it is."""
    return ApiError(message, code=400, reason="BadRequest")


def _seconds(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        raise bad_request(f"{name} must be seconds since 1970, and not {text!r}") from None
    # As far as a time can be written on the wire.
    if not 0 <= seconds < 253_402_300_800:
        raise bad_request(f"{name} must be seconds between 1970 and the year 10000, and not {text}")
    return seconds
