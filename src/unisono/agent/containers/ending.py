"""The way of a container's process to its end: preStop, SIGTERM, SIGKILL, and the shim itself if it does not listen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from unisono.agent.processes import shims
from unisono.agent.processes.shims import Process
from unisono.kube.clock import Clock, Timer

# How long a shim may take to end its container after it was told to kill it.
_KILL_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class Ending:
    """Ends one process, as gently as the time allows.

    Args:
        process: the shim of the container.
        clock: times the grace period.
        name: for the log.
        before: the preStop hook, given the seconds that it may take; None without one.
    """

    def __init__(
        self, process: Process, clock: Clock, name: str, before: Callable[[float], Awaitable[object]] | None
    ) -> None:
        self._process, self._clock, self._name, self._before = process, clock, name, before
        self._timers: list[Timer] = []
        self._hook: asyncio.Task[None] | None = None
        self.asked = False

    def ask(self, grace_seconds: float) -> None:
        """End the process within ``grace_seconds``; asked again, a shorter time overrules an earlier one."""
        if not self.asked:
            self.asked = True
            if self._before is not None and grace_seconds > 0:
                self._hook = asyncio.create_task(self._after_hook(self._before, grace_seconds))
            elif grace_seconds > 0:
                shims.ask_to_end(self._process)
        self._timers.append(self._clock.call_later(max(0.0, grace_seconds), self._kill))

    def close(self) -> None:
        """The process is gone, or no longer of interest."""
        if self._hook is not None:
            self._hook.cancel()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def _after_hook(self, hook: Callable[[float], Awaitable[object]], grace_seconds: float) -> None:
        await hook(grace_seconds)
        shims.ask_to_end(self._process)

    def _kill(self) -> None:
        shims.end_now(self._process)
        self._timers.append(self._clock.call_later(_KILL_SECONDS, self._kill_shim))

    def _kill_shim(self) -> None:
        _log.warning("container.shim_killed", container=self._name, pid=self._process.pid)
        shims.end_shim(self._process)
