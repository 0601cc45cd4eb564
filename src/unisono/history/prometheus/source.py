"""What Prometheus knows of the past: use by queue and by day, waiting times, ends, evictions, shares over time.

It answers the questions of ``unisono.history.reading.StoredHistory`` as far as samples of the scheduler's metrics can.
Of single jobs, users and namespaces they hold nothing: who asks for that is told where it is kept.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from unisono.errors import ApiError
from unisono.history.prometheus.api import Labels, PrometheusApi
from unisono.history.queue_shares import Line, Series, steps, without_zeros
from unisono.history.records import CLUSTER, HOUR, is_gpu, pieces
from unisono.history.report import (
    BY,
    MOST_ROWS,
    Report,
    Row,
    Window,
    bad_request,
    day_of,
    points_of,
    unit,
    waiting,
    window_of,
)
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# Questions in PromQL about the scheduler's metrics (pure).
#
# Several replicas and restarts are one series: of each moment the largest value counts, standbys tell none.

POINTS = 1000
"""Samples that an amount over a time is made of; of short times one every 15 seconds."""
_LEAST_STEP = 15
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_AMOUNTS = ("milli_cpu", "memory_bytes", "scalar_resources")
NOTHING = "vector(0) < 0"
"""Has no series."""


class Queries:
    """Queries about one cluster.

    Args:
        labels: that all its series have in this Prometheus; none where it scrapes one cluster alone.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = [f"{name}={_quoted(value)}" for name, value in sorted(labels.items())]

    def _of(self, metric: str, *matchers: str) -> str:
        return f"{metric}{{{','.join([*self._labels, *matchers])}}}"

    def selector(self, metric: str) -> str:
        """All series of a metric."""
        return self._of(metric)

    def amounts(self, what: str, queue: str = "") -> list[str]:
        """CPU, memory and all other resources that queues hold, deserve or may hold, by queue (and resource).

        Args:
            what: ``allocated``, ``deserved``, ``capacity`` or ``request``.
            queue: only of this one.
        """
        matchers = [f"queue_name={_quoted(queue)}"] if queue else []
        by = ("queue_name", "queue_name", "queue_name, resource")
        return [
            f"max by ({labels}) ({self._of(f'volcano_queue_{what}_{each}', *matchers)})"
            for each, labels in zip(_AMOUNTS, by, strict=True)
        ]

    def used(self, queue: str = "") -> list[str]:
        """What pods of each queue itself hold; what a parent holds is its children's, and it asks for nothing."""
        pairs = zip(self.amounts("allocated", queue), self.amounts("request", queue), strict=True)
        return [f"(({held} <= {asked}) or ({asked} < {held}))" for held, asked in pairs]

    def capacity(self) -> str:
        """What all nodes have, by resource, as kube-state-metrics names it."""
        of_node = f"max by (node, resource) ({self._of('kube_node_status_allocatable')})"
        return f"sum by (resource) ({of_node})"

    def waits(self, seconds: int, start: float, queue: str, namespaces: Collection[str] | None) -> str:
        """Milliseconds that each job waited which got its places in the time, by queue.

        Args:
            seconds: length of the time, which ends when the query is asked.
            start: of the time, seconds since 1970.
            queue: only of this one; empty for all.
            namespaces: only of these; None for all.
        """
        if namespaces is not None and not (namespaces := _names(namespaces)):
            return NOTHING
        matchers = [f"queue={_quoted(queue)}"] if queue else []
        if namespaces is not None:
            matchers.append(f'job_namespace=~"{"|".join(namespaces)}"')
        job = "job_namespace, job_name, queue"

        def last(what: str) -> str:
            series = self._of(f"volcano_e2e_job_scheduling_{what}", *matchers)
            return f"max by ({job}) (last_over_time({series}[{seconds}s]))"

        return f"{last('duration')} and ({last('last_time')} >= {start:.3f})"

    def ended(self, phase: str, seconds: int, queue: str, namespaces: Collection[str] | None) -> str:
        """Jobs that ended so in the time, by queue.

        Args:
            phase: ``completed`` or ``failed``.
            seconds: length of the time, which ends when the query is asked.
            queue: only of this one; empty for all.
            namespaces: only of these; None for all.
        """
        if namespaces is not None and not (namespaces := _names(namespaces)):
            return NOTHING
        matchers = [f"queue_name={_quoted(queue)}"] if queue else []
        if namespaces is not None:
            matchers.append(f'job_name=~"({"|".join(namespaces)})/.*"')
        series = self._of(f"volcano_job_{phase}_phase_count", *matchers)
        by = "max by (job_name, queue_name)"
        most = f"{by} (max_over_time({series}[{seconds}s]))"
        # A series begins with the first end of its job.
        before = f"({by} ({series} offset {seconds}s) or 0 * {most})"
        return f"sum by (queue_name) (clamp_min({most} - {before}, 0))"

    def evictions(self, seconds: int) -> str:
        """Evictions in the time."""
        return f"sum(increase({self._of('volcano_eviction_transactions_total')}[{seconds}s]))"


def over_time(query: str, seconds: int) -> str:
    """What a query says, summed over the time that ends when it is asked: amount times hours. Gaps count as nothing."""
    step = max(_LEAST_STEP, -(-seconds // POINTS))
    return f"sum_over_time(({query})[{seconds}s:{step}s]) * {step * 1000 / HOUR!r}"


def _names(namespaces: Collection[str]) -> list[str]:
    """What can be a namespace, and so needs no escaping."""
    return sorted(each for each in namespaces if _NAMESPACE.fullmatch(each))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


Place = tuple[str, str]

POD_GROUPS = "podgroups.scheduling.volcano.sh"
"""The scheduler's metrics name jobs by their PodGroups: who may list those of a namespace sees what is said of them."""
MOST_DAYS = 400
_DAY = 24 * HOUR
# Namespaces are looked for in series of this time.
_LOOKED_SECONDS = 90 * 86400.0
_BY: tuple[str, ...] = ("queue", "day")
_KEPT_ELSEWHERE = "this history is read from Prometheus, which keeps {0}: a database does ('--history-dsn-secret')"
_RESOURCES = ("cpu", "memory", "")


class _Asked(NamedTuple):
    """A report that is asked for."""

    window: Window
    queue: str
    namespaces: Collection[str] | None
    capacity: bool


class PrometheusHistory:
    """Reads the metrics of one cluster's scheduler.

    Args:
        api: the server.
        labels: that all series of this cluster have there.
        clock: of this process.
    """

    def __init__(
        self, api: PrometheusApi, labels: Mapping[str, str] | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._api, self._queries, self._clock = api, Queries(labels or {}), clock
        self._turn = asyncio.Lock()

    async def places(self) -> Sequence[Place]:
        """Namespaces whose jobs got their places in the last 90 days.

        Raises:
            ApiError: Prometheus cannot be asked now.
        """
        now = self._clock.time()
        match = self._queries.selector("volcano_e2e_job_scheduling_duration")
        async with self._turn:
            names = await self._api.label("job_namespace", match, now - _LOOKED_SECONDS, now)
        return [(name, POD_GROUPS) for name in names]

    async def answer(
        self, what: str, query: Mapping[str, str], shown: Collection[Place], *, capacity: bool, queues: bool
    ) -> bytes | None:
        """The answer as JSON; None where there is no such question.

        Args:
            what: ``report`` or ``shares``; ``jobs`` are not kept.
            query: as of ``StoredHistory.answer``.
            shown: places that the user may see.
            capacity: the user may see how large the cluster is.
            queues: the user may see what queues use; there is nothing for others.

        Raises:
            ApiError: 400 for what cannot be read or is not kept there, 403 for users who may not list queues.
        """
        window = window_of(query, self._clock.time())
        if what not in ("report", "jobs", "shares"):
            return None
        if what == "jobs":
            raise bad_request(_KEPT_ELSEWHERE.format("no single jobs"))
        if not queues:
            raise ApiError("use of queues is for users that can list queues", code=403, reason="Forbidden")
        if what == "shares":
            points = points_of(query)
            async with self._turn:
                shares = await self._shares(
                    window, query.get("queue", ""), query.get("resource", ""), points, capacity=capacity
                )
            return msgspec.json.encode(shares)
        by = query.get("by", "queue")
        if by not in BY:
            raise bad_request(f"by must be one of {', '.join(BY)}, and not {by!r}")
        for name in ("namespace", "user", "name"):
            if by == name or query.get(name):
                raise bad_request(_KEPT_ELSEWHERE.format(f"no use by {'job' if name == 'name' else name}"))
        if by not in _BY:
            raise bad_request(_KEPT_ELSEWHERE.format(f"no use by {by}"))
        async with self._turn:
            namespaces = await self._all_namespaces(window)
            seen = {namespace for namespace, _ in shown}
            asked = _Asked(window, query.get("queue", ""), None if namespaces <= seen else seen, capacity)
            report = await (self._by_queue(asked) if by == "queue" else self._by_day(asked))
        return msgspec.json.encode(report)

    async def _all_namespaces(self, window: Window) -> set[str]:
        match = self._queries.selector("volcano_e2e_job_scheduling_duration")
        end = min(window.end, window.now) / 1000
        return set(await self._api.label("job_namespace", match, min(window.start / 1000, end - _LOOKED_SECONDS), end))

    async def _by_queue(self, asked: _Asked) -> Report:
        window = asked.window
        end, seconds = _span(window)
        rows: dict[str, Row] = {}
        for each, labels, amount in await self._amounts(self._queries.used(asked.queue), end, seconds):
            row = rows.setdefault(labels.get("queue_name", ""), Row(labels.get("queue_name", "")))
            _charge(row, each or labels.get("resource", ""), amount)
        rows = {name: row for name, row in rows.items() if any(row.hours.values())}
        total = Row("total")
        for row in rows.values():
            for name, amount in row.hours.items():
                _charge(total, name, amount * unit(name))
        await self._waits(asked, rows, total)
        await self._ends(asked, rows, total)
        await self._evictions(asked, total)
        ordered = sorted(rows.values(), key=lambda row: (-row.gpu_hours, -row.cpu_hours, row.key))
        whole = await self._capacity(asked, total, end, seconds)
        return self._report(window, "queue", ordered, total, whole)

    async def _by_day(self, asked: _Asked) -> Report:
        window, total = asked.window, Row("total")
        end, seconds = _span(window)
        days = list(pieces(window.start, min(window.end, window.now), _DAY))
        if len(days) > MOST_DAYS:
            raise bad_request(f"ask for at most {MOST_DAYS} days by day")
        rows = []
        for begin, low, high in days:
            row = Row(day_of(begin))
            for each, labels, amount in await self._amounts(
                self._queries.used(asked.queue), high / 1000, (high - low) // 1000
            ):
                for charged in (row, total):
                    _charge(charged, each or labels.get("resource", ""), amount)
            row.capacity = await self._capacity(asked, row, high / 1000, (high - low) // 1000)
            if row.hours or row.capacity:
                rows.append(row)
        await self._waits(asked, {}, total)
        await self._ends(asked, {}, total)
        await self._evictions(asked, total)
        return self._report(window, "day", rows, total, await self._capacity(asked, total, end, seconds))

    @staticmethod
    def _report(window: Window, by: str, rows: list[Row], total: Row, capacity: dict[str, float]) -> Report:
        unknown = ["failures", "evictions"] if by == "queue" else ["failures", "evictions", "waiting", "ended"]
        start, end = window.start / 1000, window.end / 1000
        return msgspec.convert(
            {
                "start": start,
                "end": end,
                "by": by,
                "rows": rows[:MOST_ROWS],
                "total": total,
                "capacity": capacity,
                "more": len(rows) > MOST_ROWS,
                "unknown": unknown,
            },
            Report,
            from_attributes=True,
        )

    async def _amounts(self, queries: Sequence[str], end: float, seconds: int) -> list[tuple[str, Labels, float]]:
        """Engine units times hours of each series, with the resource that its query is about; empty for its label's."""
        amounts = []
        for resource, query in zip(_RESOURCES, queries, strict=True):
            for labels, amount in await self._api.vector(over_time(query, max(1, seconds)), end):
                if math.isfinite(amount):
                    amounts.append((resource, labels, amount))
        return amounts

    async def _capacity(self, asked: _Asked, used: Row, end: float, seconds: int) -> dict[str, float]:
        """Hours of what all nodes had; empty where nothing tells it, or this user may not know it."""
        if not asked.capacity:
            return {}
        amounts = {}
        names = {_as_label(name): name for name in used.hours}
        for labels, amount in await self._api.vector(over_time(self._queries.capacity(), max(1, seconds)), end):
            # Cores and bytes, and whole cards.
            name = names.get(labels.get("resource", ""))
            if name is not None and math.isfinite(amount):
                amounts[name] = amount
        return dict(sorted(amounts.items()))

    async def _waits(self, asked: _Asked, rows: dict[str, Row], total: Row) -> None:
        end, seconds = _span(asked.window)
        query = self._queries.waits(max(1, seconds), asked.window.start / 1000, asked.queue, asked.namespaces)
        of: dict[str, list[int]] = {}
        for labels, value in await self._api.vector(query, end):
            if math.isfinite(value):
                of.setdefault(labels.get("queue", ""), []).append(round(max(0.0, value)))
        total.waiting = waiting([each for waits in of.values() for each in waits])
        for name, waits in of.items():
            rows.setdefault(name, Row(name)).waiting = waiting(waits)

    async def _ends(self, asked: _Asked, rows: dict[str, Row], total: Row) -> None:
        end, seconds = _span(asked.window)
        for phase, outcome in (("completed", "Completed"), ("failed", "Failed")):
            query = self._queries.ended(phase, max(1, seconds), asked.queue, asked.namespaces)
            for labels, value in await self._api.vector(query, end):
                if not math.isfinite(value) or not (number := round(value)):
                    continue
                name = labels.get("queue_name", "")
                total.ended[outcome] = total.ended.get(outcome, 0) + number
                rows.setdefault(name, Row(name)).ended[outcome] = number

    async def _evictions(self, asked: _Asked, total: Row) -> None:
        """Of all queues together, for users who may see all namespaces."""
        if asked.namespaces is not None or asked.queue:
            return
        end, seconds = _span(asked.window)
        for _, value in await self._api.vector(self._queries.evictions(max(1, seconds)), end):
            total.evictions = round(value) if math.isfinite(value) else 0

    async def _shares(self, window: Window, queue: str, resource: str, points: int, *, capacity: bool) -> Series:
        times = steps(window, points)
        if not times:
            return Series([], [])
        highs = [high / 1000 for _, high in times]
        step = (highs[-1] - window.start / 1000) / len(highs)
        lines: dict[tuple[str, str], Line] = {}
        since = highs[-1]
        asked: tuple[tuple[str, list[str]], ...] = (
            ("used", self._queries.used(queue)),
            ("deserved", self._queries.amounts("deserved", queue)),
            ("capability", self._queries.amounts("capacity", queue)),
        )
        for field, queries in asked:
            for kind, query in zip(_RESOURCES, queries, strict=True):
                if resource and kind not in (resource, ""):
                    continue
                for labels, values in await self._api.matrix(query, highs[0], highs[-1], step):
                    key = labels.get("queue_name", ""), kind or labels.get("resource", "")
                    since = min((since, *values))
                    if resource in ("", key[1]):
                        line = lines.setdefault(key, Line(*key))
                        setattr(line, field, _at(highs, values, step))
        if capacity:
            names = {_as_label(name): name for _, name in lines}
            for labels, values in await self._api.matrix(self._queries.capacity(), highs[0], highs[-1], step):
                if name := names.get(labels.get("resource", "")):
                    amounts = [round(each * unit(name)) for each in _at(highs, values, step)]
                    lines[CLUSTER, name] = Line(CLUSTER, name, capacity=amounts)
        filled = [without_zeros(_padded(line, len(highs))) for _, line in sorted(lines.items())]
        shown = [each for each in filled if any(each.used) or each.deserved or each.queue == CLUSTER]
        return Series(highs, shown, since if shown and since >= highs[0] + step / 2 else 0.0)


def _span(window: Window) -> tuple[float, int]:
    """End of the time in seconds since 1970, and its length in seconds."""
    end = min(window.end, window.now)
    return end / 1000, max(0, end - window.start) // 1000


def _charge(row: Row, resource: str, amount: float) -> None:
    """Add amount times hours, in engine units."""
    used = amount / unit(resource)
    row.hours[resource] = row.hours.get(resource, 0.0) + used
    if is_gpu(resource):
        row.gpu_hours += used
    elif resource == "cpu":
        row.cpu_hours += used


def _as_label(resource: str) -> str:
    """A resource's name as kube-state-metrics writes it: ``nvidia_com_gpu``."""
    return "".join(each if each.isalnum() else "_" for each in resource)


def _at(times: Sequence[float], values: Mapping[float, float], step: float) -> list[int]:
    """Values at these times; zero where there is none."""
    nearest = {round(at / step): value for at, value in values.items() if math.isfinite(value)}
    return [round(nearest.get(round(at / step), 0.0)) for at in times]


def _padded(line: Line, number: int) -> Line:
    for name in ("used", "deserved", "capability", "capacity"):
        if not getattr(line, name):
            setattr(line, name, [0] * number)
    return line


def pairs_of(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Labels of ``NAME=VALUE``.

    Raises:
        ValueError: one is none.
    """
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isascii() or not name.replace("_", "a").isalnum() or name[0].isdigit():
            raise ValueError(f"{text!r} is no label: give one such as cluster=a")
        yield name, value
