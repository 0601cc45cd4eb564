"""How a simulated pod goes: what its annotations say, and how it looks at a time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from unisono.agent.lifecycle import ContainerView, Exit, PodView, Reason
from unisono.api.annotations import EXIT_CODE, RUN_SECONDS
from unisono.api.core import Pod
from unisono.kube.clock import Clock, Timer

# One timer for the ends of all simulated pods.


@dataclass(slots=True)
class Alarms:
    """One timer for all pods: a heap of (time, key)."""

    clock: Clock
    wake: Callable[[str], None]
    heap: list[tuple[float, int, str]] = field(default_factory=list)
    serial: itertools.count[int] = field(default_factory=itertools.count)
    timer: Timer | None = None

    def at(self, when: float, key: str) -> None:
        """Wake ``key`` at ``when``."""
        first = not self.heap or when < self.heap[0][0]
        heapq.heappush(self.heap, (when, next(self.serial), key))
        if first:
            self._arm()

    def _arm(self) -> None:
        self.close()
        if self.heap:
            self.timer = self.clock.call_later(max(0.0, self.heap[0][0] - self.clock.time()), self._ring)

    def _ring(self) -> None:
        self.timer = None
        while self.heap and self.heap[0][0] <= self.clock.time():
            self.wake(heapq.heappop(self.heap)[2])
        self._arm()

    def close(self) -> None:
        """Stop waking callers."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Script:
    """How a simulated pod goes: seconds (infinite: until deleted) and exit code."""

    seconds: float
    exit_code: int


def script_of(pod: Pod) -> Script:
    """What the pod's annotations say; values that are not numbers count as absent."""
    annotations = pod.metadata.annotations or {}
    seconds = _number(annotations.get(RUN_SECONDS), math.inf)
    return Script(max(0.0, seconds), int(_number(annotations.get(EXIT_CODE), 0)) & 0xFF)


def simulated_view(pod: Pod, started_at: float, now: float) -> PodView:
    """A pod as if its containers had run since ``started_at``: all main containers end together by the script.

    Init containers are done at once, and containers are not started again: a simulated pod goes through its script
    once, whatever its restart policy.
    """
    script = script_of(pod)
    end, failure, ended = end_of(pod, started_at), None, None
    if now >= end:
        ended = Exit(script.exit_code, started_at, end)
        if end < started_at + script.seconds:
            ended = Exit(_TERMINATED, started_at, end, 15)
            failure = Reason("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
    done = Exit(0, started_at, started_at)
    inits = [
        ContainerView(c.name, "init", "exited", runs=1, started_at=started_at, last=done)
        for c in pod.spec.init_containers or ()
    ]
    deleting = pod.metadata.deletion_timestamp is not None
    if deleting and ended is None:
        ended = Exit(_TERMINATED, started_at, now, 15)
    mains = [
        ContainerView(
            c.name,
            "main",
            "running" if ended is None else "exited",
            runs=1,
            started_at=started_at,
            last=ended,
        )
        for c in pod.spec.containers or ()
    ]
    return PodView(
        name=pod.metadata.name,
        restart_policy="Never",
        containers=(*inits, *mains),
        deleting=deleting,
        failure=failure,
    )


def refused(pod: Pod, why: Reason) -> PodView:
    """A pod that the node does not take."""
    return PodView(name=pod.metadata.name, restart_policy="Never", containers=(), failure=why, rejected=True)


def end_of(pod: Pod, started_at: float) -> float:
    """When the pod ends by its script or by its deadline, whichever comes first."""
    deadline = pod.spec.active_deadline_seconds
    return started_at + min(script_of(pod).seconds, math.inf if deadline is None else deadline)


def _number(text: str | None, default: float) -> float:
    try:
        value = float(text) if text is not None else default
    except ValueError:
        return default
    return default if math.isnan(value) else value
