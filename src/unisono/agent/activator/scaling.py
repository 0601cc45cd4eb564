"""How many pods a service needs by the rules of Knative's autoscaler, and how many requests are under way. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from unisono.api.keys import (
    KNATIVE_INITIAL,
    KNATIVE_LEAST,
    KNATIVE_METRIC,
    KNATIVE_MOST,
    KNATIVE_RETENTION,
    KNATIVE_TARGET,
    KNATIVE_UTILIZATION,
    KNATIVE_WINDOW,
)
from unisono.api.knative import MOST_REPLICAS, KnativeService, stated
from unisono.api.times import duration_or_none
from unisono.api.triggers import number

_CONCURRENCY, _RATE = 100.0, 200.0
_UTILIZATION = 70.0
_WINDOW, _SHORTEST_WINDOW = 60.0, 6.0
_PANIC_PART, _PANIC_LOAD = 0.1, 2.0
_FASTEST_UP, _FASTEST_DOWN = 1000.0, 2.0
_LEAST_TARGET = 0.01
LONGEST_WINDOW = 3600.0
"""What is remembered, in seconds."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a service asks for.

    Attributes:
        target: load of one pod: requests at a time, or per second.
        by_rate: the target is a number of requests per second.
        window: seconds over which the load is averaged.
        least, most: bounds of the number of pods.
        initial: pods of a revision that was never ready.
        retention: seconds for which the last pod stays longer than it must.

    """

    target: float
    by_rate: bool = False
    window: float = _WINDOW
    least: int = 0
    most: int = MOST_REPLICAS
    initial: int = 1
    retention: float = 0.0


def rules_of(service: KnativeService) -> Rules:
    """As annotations of the revision and ``containerConcurrency`` say; what cannot be read counts as not said."""
    template = service.spec.template
    notes, limit = template.metadata.annotations or {}, template.spec.container_concurrency or 0
    by_rate = notes.get(KNATIVE_METRIC) == "rps"
    used = next((number(notes[key]) for key in KNATIVE_UTILIZATION if key in notes), None) or _UTILIZATION
    target = number(notes.get(KNATIVE_TARGET, "")) or (_RATE if by_rate else limit or _CONCURRENCY)
    if limit and not by_rate:
        target = min(target, limit)
    window = duration_or_none(notes.get(KNATIVE_WINDOW)) or _WINDOW
    retention = next((duration_or_none(notes[key]) for key in KNATIVE_RETENTION if key in notes), None) or 0.0
    least = stated(notes, KNATIVE_LEAST, 0)
    return Rules(
        target=max(target * min(used, 100.0) / 100.0, _LEAST_TARGET),
        by_rate=by_rate,
        window=min(max(window, _SHORTEST_WINDOW), LONGEST_WINDOW),
        least=least,
        most=max(stated(notes, KNATIVE_MOST, MOST_REPLICAS), least, 1),
        initial=stated(notes, KNATIVE_INITIAL, 1),
        retention=max(0.0, retention),
    )


class Scaler:
    """Decides for one service; remembers whether there is a panic."""

    def __init__(self) -> None:
        self._panic_at: float | None = None
        self._most_in_panic = 0

    @property
    def panics(self) -> bool:
        """Whether pods are only added."""
        return self._panic_at is not None

    def wanted(self, now: float, load: Load, rules: Rules, ready: int, *, proven: bool) -> int:
        """The number of pods.

        Args:
            now: monotonic time in seconds.
            load: the service's.
            rules: the service's.
            ready: pods that take requests.
            proven: its present revision was ready once; before that it keeps its first pods.

        """
        average = load.rate if rules.by_rate else load.concurrency
        long = math.ceil(average(now, rules.window) / rules.target - 1e-9)
        short = math.ceil(average(now, rules.window * _PANIC_PART) / rules.target - 1e-9)
        if short >= _PANIC_LOAD * max(ready, 1):
            if self._panic_at is None:
                self._most_in_panic = 0
            self._panic_at = now
        elif self._panic_at is not None and now >= self._panic_at + rules.window:
            self._panic_at = None
        wanted = long
        if self._panic_at is not None:
            self._most_in_panic = max(self._most_in_panic, short, ready)
            wanted = self._most_in_panic
        wanted = min(wanted, math.ceil(max(ready, 1) * _FASTEST_UP))
        wanted = max(wanted, math.floor(ready / _FASTEST_DOWN))
        if load.count or load.idle(now) < rules.window + rules.retention:
            wanted = max(wanted, 1)
        if not proven:
            wanted = max(wanted, rules.initial)
        return min(max(wanted, rules.least), rules.most)


class Load:
    """The requests of one service.

    Args:
        now: monotonic time in seconds, as in all methods.

    """

    def __init__(self, now: float) -> None:
        self.count = 0
        self._born = self._last = self._busy = now
        # Of each second that is not over or was not idle: its number, request seconds, and requests that began.
        self._seconds: deque[list[float]] = deque()

    def begin(self, now: float) -> None:
        """A request came."""
        self._advance(now)
        self._second(int(now))[2] += 1
        self.count += 1

    def end(self, now: float) -> None:
        """One is answered."""
        self._advance(now)
        self.count -= 1

    def idle(self, now: float) -> float:
        """For how many seconds no request has been there."""
        return 0.0 if self.count else now - self._busy

    def concurrency(self, now: float, window: float) -> float:
        """Requests under way at a time, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 1)

    def rate(self, now: float, window: float) -> float:
        """Requests that came per second, on average over the last seconds, or since there is a service."""
        return self._sum(now, window, 2)

    def _sum(self, now: float, window: float, field: int) -> float:
        self._advance(now)
        start = now - window
        # Of the second in which the window begins, what is inside of it.
        total = sum(each[field] * min(1.0, max(0.0, each[0] + 1.0 - start)) for each in self._seconds)
        return total / max(1.0, min(window, now - self._born))

    def _advance(self, now: float) -> None:
        start = max(self._last, float(int(now - LONGEST_WINDOW)))
        while self.count and start < now:
            end = min(now, int(start) + 1.0)
            self._second(int(start))[1] += self.count * (end - start)
            start = end
        if self.count:
            self._busy = now
        self._last = now
        while self._seconds and self._seconds[0][0] + 1.0 < now - LONGEST_WINDOW:
            self._seconds.popleft()

    def _second(self, number: int) -> list[float]:
        if not self._seconds or self._seconds[-1][0] != number:
            self._seconds.append([number, 0.0, 0.0])
        return self._seconds[-1]
