"""Probes and the postStart hook of one run of a container, tried again and again while it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from unisono.agent.containers.checks import Checks
from unisono.agent.layout import RunDir
from unisono.agent.lifecycle import Reason
from unisono.api.core import Container, Probe
from unisono.kube.clock import Clock

UNHEALTHY = "Unhealthy"
_POLL_SECONDS = 0.02
_HOOK_SECONDS = 3600.0


class Probing:
    """What the probes of one run say; they are tried from its making until ``end``.

    Args:
        spec: the container of the manifest.
        run: the run, whose command may not be executed yet.
        checks: tries a probe once.
        clock: paces the tries.
        changed: called after every change of the answers.
        failed: called with the first failure of each series, and with the one that counts.
    """

    def __init__(
        self,
        spec: Container,
        run: RunDir,
        checks: Checks,
        *,
        clock: Clock,
        changed: Callable[[], None],
        failed: Callable[[Reason], None],
    ) -> None:
        self._spec, self._run, self._checks, self._clock = spec, run, checks, clock
        self._changed, self._failed = changed, failed
        self._startup = ProbeState(spec.startup_probe, passing=False) if spec.startup_probe else None
        self._readiness = ProbeState(spec.readiness_probe, passing=False) if spec.readiness_probe else None
        self._failing: Reason | None = None
        self._tasks: list[asyncio.Task[None]] = []
        if spec.startup_probe or spec.readiness_probe or spec.liveness_probe:
            self._tasks.append(asyncio.create_task(self._probe_all()))
        if spec.lifecycle is not None and spec.lifecycle.post_start is not None and not self._startup:
            self._tasks.append(asyncio.create_task(self._post_start()))

    @property
    def passed(self) -> bool:
        """The startup probe succeeded, or there is none."""
        return self._startup is None or self._startup.passing

    @property
    def ready(self) -> bool:
        """The readiness probe succeeds, or there is none."""
        return self._readiness is None or self._readiness.passing

    @property
    def failing(self) -> Reason | None:
        """Why the container must be ended, once a probe or the hook asks for it."""
        return self._failing

    def end(self) -> None:
        """Try nothing any more; the last answers stay, but none of them ends the container."""
        self._failing = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def _post_start(self) -> None:
        hook = self._spec.lifecycle.post_start if self._spec.lifecycle else None
        if hook is None:
            return
        await self._has_started()
        outcome = await self._checks.hook(hook, _HOOK_SECONDS)
        if not outcome.success:
            self._failing = Reason("FailedPostStartHook", f"PostStartHook failed: {outcome.message}")
            self._changed()

    async def _has_started(self) -> None:
        while self._run.started() is None:
            await self._clock.sleep(_POLL_SECONDS)

    async def _probe_all(self) -> None:
        """The startup probe first, then liveness and readiness side by side, as in Kubernetes."""
        await self._has_started()
        if self._startup is not None:
            await self._probe(self._startup, "Startup", until_passing=True)
        async with asyncio.TaskGroup() as group:
            if self._readiness is not None:
                group.create_task(self._probe(self._readiness, "Readiness"))
            if (liveness := self._spec.liveness_probe) is not None:
                group.create_task(self._probe(ProbeState(liveness, passing=True), "Liveness"))

    async def _probe(self, state: ProbeState, kind: str, *, until_passing: bool = False) -> None:
        await self._clock.sleep(state.initial_delay)
        while True:
            outcome = await self._checks.probe(state.probe, state.timeout)
            counts = state.record(outcome.success)
            why = Reason(UNHEALTHY, f"{kind} probe failed: {outcome.message}")
            if not outcome.success and (counts or state.failures == 1):
                self._failed(why)
            if counts:
                if state.failed and kind != "Readiness":
                    self._failing = why
                self._changed()
            if (state.failed and kind != "Readiness") or (until_passing and state.passing):
                return
            if state.passing:
                state.failed = False
            await self._clock.sleep(state.period)


@dataclass(slots=True)
class ProbeState:
    """What a probe says so far.

    Attributes:
        passing: its present verdict; liveness starts true, readiness and startup start false.
        failed: it failed for good (liveness and startup only: the container must be ended).
    """

    probe: Probe
    passing: bool
    failed: bool = False
    successes: int = 0
    failures: int = 0

    def record(self, success: bool) -> bool:
        """Count one result; True when the verdict changed."""
        before = (self.passing, self.failed)
        if success:
            self.successes, self.failures = self.successes + 1, 0
            if self.successes >= (self.probe.success_threshold or 1):
                self.passing = True
        else:
            self.successes, self.failures = 0, self.failures + 1
            if self.failures >= (self.probe.failure_threshold or 3):
                self.passing, self.failed = False, True
        return (self.passing, self.failed) != before

    @property
    def period(self) -> float:
        """Seconds between two tries."""
        return float(self.probe.period_seconds or 10)

    @property
    def timeout(self) -> float:
        """Seconds that one try may take."""
        return float(self.probe.timeout_seconds or 1)

    @property
    def initial_delay(self) -> float:
        """Seconds before the first try."""
        return float(self.probe.initial_delay_seconds or 0)
