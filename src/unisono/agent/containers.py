"""One container of a pod on this node: its present run, its probes, and what ``lifecycle`` wants to know of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from unisono.agent import cgroups, processes
from unisono.agent.checks import Checks
from unisono.agent.layout import PodDir, RunDir
from unisono.agent.lifecycle import ContainerView, Exit, Reason, Role, next_crashes
from unisono.agent.logs import last_lines
from unisono.agent.probe_state import ProbeState
from unisono.agent.processes import Process, Watch
from unisono.api.core import Container
from unisono.kube.clock import Clock, Timer

# How long a shim may take to end its container after it was told to kill it.
_KILL_SECONDS = 2.0
_KILLED = 137
_MESSAGE_BYTES = 4096
_PORT_TAKEN = ("Address already in use", "EADDRINUSE")

_log = structlog.get_logger(__name__)


class PodContainer:
    """State and effects of one container.

    Args:
        spec: the container of the manifest.
        role: init container, sidecar or main container.
        directory: the pod's directory.
        address: the pod's address, which probes go to.
        clock: times and timers.
        changed: called after every change.
        cgroup: directory of the pod's cgroup, if it has one.
    """

    def __init__(
        self,
        spec: Container,
        role: Role,
        directory: PodDir,
        *,
        address: str,
        clock: Clock,
        changed: Callable[[], None],
        cgroup: Callable[[], Path | None],
    ) -> None:
        self.spec, self.role = spec, role
        self.blocked: Reason | None = None
        self.retry_at = 0.0
        self.stopping = False
        self.prepared: RunDir | None = None
        self.crashes = 0
        self._directory, self._address, self._clock = directory, address, clock
        self._changed, self._cgroup = changed, cgroup
        self._run: RunDir | None = None
        self._process: Process | None = None
        self._watch: Watch | None = None
        self._last: Exit | None = None
        self._previous: Exit | None = None
        self._started_at = 0.0
        self._failing: Reason | None = None
        self._startup: ProbeState | None = None
        self._readiness: ProbeState | None = None
        self._checks: Checks | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[Timer] = []

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name

    @property
    def running(self) -> bool:
        """Whether its shim lives, as far as we know."""
        return self._process is not None

    @property
    def last(self) -> Exit | None:
        """How the latest run ended; None while it runs or before the first."""
        return None if self.running else self._last

    def view(self) -> ContainerView:
        """What ``lifecycle.decide`` reads."""
        ended = self._last is not None and not self.running
        return ContainerView(
            name=self.name,
            role=self.role,
            state="running" if self.running else "exited" if ended else "none",
            runs=self._run.number + 1 if self._run else 0,
            crashes=self.crashes,
            started_at=self._started_at,
            last=self._last,
            previous=self._previous,
            passed=self._startup is None or self._startup.passing,
            ready=self._readiness is None or self._readiness.passing,
            failing=None if self.stopping else self._failing,
            blocked=self.blocked,
            retry_at=self.retry_at,
        )

    async def recover(self) -> None:
        """Take over what an earlier agent left: a running process, an exit code, or a run that is lost."""
        self._directory.drop_prepared(self.name)
        runs = self._directory.spawned_runs(self.name)
        if not runs:
            return
        run = self._run = runs[-1]
        self.crashes = run.crashes()
        self._previous = runs[-2].exit() if len(runs) > 1 else None
        while run.is_held() and run.started() is None:
            # The earlier agent died between the start of the shim and the start of its command.
            await self._clock.sleep(0.02)
        process, started, end = processes.find(run), run.started() or {}, run.exit()
        if process is not None and end is None:
            self._adopt(process, float(started["started_at"]))
        else:
            self._end(end or self._lost(run, started))

    def _lost(self, run: RunDir, started: Mapping[str, str]) -> Exit:
        now = self._clock.time()
        lost = Exit(
            exit_code=_KILLED,
            started_at=float(started.get("started_at", now)),
            finished_at=now,
            reason="AgentRestarted",
            message="The container's process was lost while the node agent was not running.",
        )
        run.write_exit(lost)
        return lost

    def start(self, run: RunDir, spec: Mapping[str, Any]) -> None:
        """Start a run that ``prepare`` filled.

        Raises:
            AgentError: the process cannot be started.
        """
        process = processes.spawn(run, spec)
        if self._run is not None:
            self._previous = self._last
        self._run, self._last, self.prepared = run, None, None
        self.blocked, self.retry_at = None, 0.0
        self._checks = Checks(self.spec, self._address, run, spec)
        self._adopt(process, self._clock.time())

    def _adopt(self, process: Process, started_at: float) -> None:
        self._process, self._started_at, self.stopping = process, started_at, False
        self._watch = Watch(process, self._ended)
        self._failing = None
        self._begin_probes()

    # --- the end of a run -----------------------------------------------------------------------------------

    def stop(self, grace_seconds: float) -> None:
        """Ask the container to end; after ``grace_seconds`` it is killed. A shorter grace overrules an earlier one."""
        process = self._process
        if process is None:
            return
        if not self.stopping:
            self.stopping = True
            self._end_probes()
            hook = self.spec.lifecycle.pre_stop if self.spec.lifecycle else None
            if hook is not None and self._checks is not None and grace_seconds > 0:
                self._tasks.append(asyncio.create_task(self._stop_after_hook(process, grace_seconds)))
            elif grace_seconds > 0:
                processes.ask_to_end(process)
        self._timers.append(self._clock.call_later(max(0.0, grace_seconds), lambda: self._kill(process)))

    async def _stop_after_hook(self, process: Process, grace_seconds: float) -> None:
        hook = self.spec.lifecycle.pre_stop if self.spec.lifecycle else None
        if hook is not None and self._checks is not None:
            await self._checks.hook(hook, grace_seconds)
        processes.ask_to_end(process)

    def _kill(self, process: Process) -> None:
        if self._process is process:
            processes.end_now(process)
            self._timers.append(self._clock.call_later(_KILL_SECONDS, lambda: self._kill_shim(process)))

    def _kill_shim(self, process: Process) -> None:
        if self._process is process:
            _log.warning("container.shim_killed", container=self.name, pod=self._directory.uid)
            processes.end_shim(process)

    def _ended(self) -> None:
        """The shim is gone: read what it left."""
        run = self._run
        if run is None or self._process is None:
            return
        result = run.exit()
        if result is None:
            now = self._clock.time()
            result = Exit(_KILLED, self._started_at, now, 9, "Error", "The container's supervisor was killed.")
            run.write_exit(result)
        self._process = None
        self._end(result)
        self._changed()

    def _end(self, result: Exit) -> None:
        self._process, self.stopping, self._failing = None, False, None
        self._end_probes()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.crashes = next_crashes(self.crashes, result)
        self._last = self._explained(result)

    def _explained(self, result: Exit) -> Exit:
        """The end with the reason and the message that users look for."""
        run = self._run
        if run is None or result.message:
            return result
        reason, message = result.reason, _termination_message(run, self.spec, result.exit_code)
        cgroup = self._cgroup()
        if result.signal and cgroup is not None and cgroups.oom_kills(cgroup):
            reason = "OOMKilled"
        return Exit(result.exit_code, result.started_at, result.finished_at, result.signal, reason, message)

    def port_was_taken(self) -> bool:
        """Whether the latest run failed because somebody else has its port."""
        if self._run is None or self._last is None or self._last.exit_code == 0:
            return False
        tail = last_lines(self._run)
        return any(text in tail for text in _PORT_TAKEN)

    def close(self) -> None:
        """Stop watching; the process, if any, goes on."""
        self._end_probes()
        for timer in self._timers:
            timer.cancel()
        if self._watch is not None:
            self._watch.close()

    # --- probes ---------------------------------------------------------------------------------------------

    def _begin_probes(self) -> None:
        spec = self.spec
        self._startup = ProbeState(spec.startup_probe, passing=False) if spec.startup_probe else None
        self._readiness = ProbeState(spec.readiness_probe, passing=False) if spec.readiness_probe else None
        if self._checks is None and self._run is not None:
            self._checks = Checks(spec, self._address, self._run, processes.read_spec(self._run))
        if spec.startup_probe or spec.readiness_probe or spec.liveness_probe:
            self._tasks.append(asyncio.create_task(self._probe_all()))
        if spec.lifecycle is not None and spec.lifecycle.post_start is not None and not self._startup:
            self._tasks.append(asyncio.create_task(self._post_start()))

    async def _post_start(self) -> None:
        hook = self.spec.lifecycle.post_start if self.spec.lifecycle else None
        if hook is None or self._checks is None or not await self._is_up():
            return
        outcome = await self._checks.hook(hook, 3600.0)
        if not outcome.success:
            self._failing = Reason("FailedPostStartHook", f"PostStartHook failed: {outcome.message}")
            self._changed()

    async def _is_up(self) -> bool:
        """Wait for the command to be executed; False when the run ended before."""
        while self._run is not None and self._process is not None:
            if self._run.started() is not None:
                return True
            await self._clock.sleep(0.02)
        return False

    async def _probe_all(self) -> None:
        """The startup probe first, then liveness and readiness side by side, as in Kubernetes."""
        if self._startup is not None:
            await self._probe(self._startup, "Startup", until_passing=True)
        async with asyncio.TaskGroup() as group:
            if self._readiness is not None:
                group.create_task(self._probe(self._readiness, "Readiness"))
            if (liveness := self.spec.liveness_probe) is not None:
                group.create_task(self._probe(ProbeState(liveness, passing=True), "Liveness"))

    async def _probe(self, state: ProbeState, kind: str, *, until_passing: bool = False) -> None:
        checks = self._checks
        if checks is None:
            return
        await self._clock.sleep(state.initial_delay)
        while True:
            outcome = await checks.probe(state.probe, state.timeout)
            if state.record(outcome.success):
                if state.failed and kind != "Readiness":
                    self._failing = Reason("Unhealthy", f"{kind} probe failed: {outcome.message}")
                self._changed()
            if (state.failed and kind != "Readiness") or (until_passing and state.passing):
                return
            if state.passing:
                state.failed = False
            await self._clock.sleep(state.period)

    def _end_probes(self) -> None:
        current = None
        with contextlib.suppress(RuntimeError):
            current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self._tasks.clear()


def _termination_message(run: RunDir, spec: Container, exit_code: int) -> str:
    try:
        message = run.termination.read_bytes()[:_MESSAGE_BYTES].decode("utf-8", "replace")
    except OSError:
        message = ""
    if not message and exit_code != 0 and spec.termination_message_policy == "FallbackToLogsOnError":
        message = last_lines(run)
    return message
