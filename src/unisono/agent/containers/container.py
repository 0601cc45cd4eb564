"""One container of a pod on this node: its runs, the way of its process to the end, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from unisono.agent.containers.probing import Checks, Probing
from unisono.agent.layout import PodDir, RunDir
from unisono.agent.lifecycle import ContainerView, Exit, Reason, RestartRule, Role, next_crashes
from unisono.agent.limits.memory_watch import MemoryWatch, Watched
from unisono.agent.logs import last_lines
from unisono.agent.processes import shims
from unisono.agent.processes.shims import Shim, Watch
from unisono.agent.spawner.client import Spawner
from unisono.api.core import Container
from unisono.kube.clock import Clock, Timer

_POLL_SECONDS = 0.02
# How long a shim may take to end its container after it was told to kill it.
_KILL_SECONDS = 2.0

_log = structlog.get_logger(__name__)
KILLED = 137
_MESSAGE_BYTES = 4096
_PORT_TAKEN = ("Address already in use", "EADDRINUSE")


class PodContainer:
    """State and effects of one container.

    Args:
        spec: the container of the manifest.
        role: init container, sidecar or main container.
        directory: the pod's directory.
        address: the pod's address, which probes go to.
        clock: times and timers.
        changed: called after every change.
        unhealthy: called when a probe begins to fail, and when that counts.
        spawner: starts processes.
        out_of_memory: whether a run used more memory than it may.
        memory: watches limits that the kernel does not enforce.
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
        unhealthy: Callable[[Reason], None],
        spawner: Spawner,
        out_of_memory: Callable[[Container, RunDir], bool],
        memory: MemoryWatch,
    ) -> None:
        self.spec, self.role = spec, role
        self._rules = tuple(
            RestartRule(
                frozenset(rule.exit_codes.values or ()),
                but=rule.exit_codes.operator == "NotIn",
                everything=rule.action == "RestartAllContainers",
            )
            for rule in spec.restart_policy_rules or ()
            if rule.exit_codes is not None
        )
        self.blocked: Reason | None = None
        self.retry_at = 0.0
        # In a row, for want of something else than what the manifest refers to.
        self.failed_starts = 0
        self.prepared: RunDir | None = None
        self.crashes = 0
        self._directory, self._address, self._clock = directory, address, clock
        self._changed, self._unhealthy, self._spawner = changed, unhealthy, spawner
        self._out_of_memory, self._memory = out_of_memory, memory
        self._run: RunDir | None = None
        self._process: Shim | None = None
        self._watch: Watch | None = None
        self._last: Exit | None = None
        self._previous: Exit | None = None
        self._started_at = 0.0
        self._probing: Probing | None = None
        self._ending: Ending | None = None

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
        probing = self._probing
        return ContainerView(
            name=self.name,
            role=self.role,
            state="running" if self.running else "exited" if ended else "none",
            runs=self._run.number + 1 if self._run else 0,
            crashes=self.crashes,
            started_at=self._started_at,
            last=self._last,
            previous=self._previous,
            passed=probing is None or probing.passed,
            ready=probing is None or probing.ready,
            failing=probing.failing if probing else None,
            blocked=self.blocked,
            retry_at=self.retry_at,
            restart_policy=self.spec.restart_policy or "",
            rules=self._rules,
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
            await self._clock.sleep(_POLL_SECONDS)
        process, started, end = shims.find(run), run.started() or {}, run.exit()
        if process is not None and end is None:
            self._adopt(run, process, float(started["started_at"]), shims.read_spec(run))
        else:
            self._end(run, end or lost(run, started, self._clock.time()))

    async def start(self, run: RunDir, spec: Mapping[str, Any]) -> None:
        """Start a run that ``prepare`` filled.

        Raises:
            AgentError: the process cannot be started.
        """
        process = await shims.spawn(self._spawner, run, spec)
        if self._run is not None:
            self._previous = self._last
        self._run, self._last, self.prepared = run, None, None
        self.blocked, self.retry_at, self.failed_starts = None, 0.0, 0
        self._adopt(run, process, self._clock.time(), spec)

    def stop(self, grace_seconds: float) -> None:
        """Ask the container to end; after ``grace_seconds`` it is killed. A shorter grace overrules an earlier one."""
        if self._probing is not None:
            self._probing.end()
        if self._ending is not None:
            self._ending.ask(grace_seconds)

    def port_was_taken(self) -> bool:
        """Whether the latest run failed because another process has its port."""
        return self._run is not None and self._last is not None and port_was_taken(self._run, self._last)

    def close(self) -> None:
        """Stop watching; the process, if any, goes on."""
        if self._probing is not None:
            self._probing.end()
        if self._ending is not None:
            self._ending.close()
        if self._watch is not None:
            self._watch.close()
        if self._process is not None:
            self._memory.remove(self._process.pid)

    def _adopt(self, run: RunDir, process: Shim, started_at: float, spec: Mapping[str, Any]) -> None:
        """Watch a process, of this agent or an earlier one."""
        checks = Checks(self.spec, self._address, run, spec, self._spawner)
        hook = self.spec.lifecycle.pre_stop if self.spec.lifecycle else None
        before = (lambda seconds: checks.hook(hook, seconds)) if hook is not None else None
        self._process, self._started_at = process, started_at
        if (limit := spec.get("watched_memory")) is not None:
            self._memory.add(Watched(process.pid, limit, lambda: self._exceeded(run, process)))
        self._watch = Watch(process, lambda: self._ended(run))
        self._ending = Ending(process, self._clock, f"{self._directory.uid}/{self.name}", before)
        self._probing = Probing(
            self.spec, run, checks, clock=self._clock, changed=self._changed, failed=self._unhealthy
        )

    def _ended(self, run: RunDir) -> None:
        """The shim is gone: read what it left."""
        if self._process is None:
            return
        self._end(run, run.exit() or unsupervised(run, self._started_at, self._clock.time()))
        self._changed()

    def _exceeded(self, run: RunDir, process: Shim) -> None:
        """It uses more memory than it may, and the kernel does not see to that."""
        run.exceeded.touch()
        shims.end_now(process)

    def _end(self, run: RunDir, result: Exit) -> None:
        if self._process is not None:
            self._memory.remove(self._process.pid)
        self._process = None
        if self._probing is not None:
            self._probing.end()
        if self._ending is not None:
            self._ending.close()
            self._ending = None
        self.crashes = next_crashes(self.crashes, result)
        self._last = explained(result, run, self.spec, out_of_memory=self._out_of_memory(self.spec, run))


class Ending:
    """Ends one process, as gently as the time allows.

    Args:
        process: the shim of the container.
        clock: times the grace period.
        name: for the log.
        before: the preStop hook, given the seconds that it may take; None without one.
    """

    def __init__(
        self, process: Shim, clock: Clock, name: str, before: Callable[[float], Awaitable[object]] | None
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


def explained(result: Exit, run: RunDir, spec: Container, *, out_of_memory: bool) -> Exit:
    """The end with the reason and the message that users look for.

    Args:
        result: how the run ended.
        run: the run.
        spec: the container of the manifest.
        out_of_memory: something of it was killed because it used more memory than it may.
    """
    if result.message:
        return result
    reason = result.reason
    if result.exit_code != 0 and out_of_memory:
        reason = "OOMKilled"
    return replace(result, reason=reason, message=_termination_message(run, spec, result.exit_code))


def lost(run: RunDir, started: Mapping[str, str], now: float) -> Exit:
    """The end of a run whose process went away while no agent looked; kept on disk.

    Args:
        run: the run.
        started: its ``started`` record, empty when there is none.
        now: seconds since 1970.
    """
    message = "The container's process was lost while the node agent was not running."
    end = Exit(KILLED, float(started.get("started_at", now)), now, reason="AgentRestarted", message=message)
    run.write_exit(end)
    return end


def unsupervised(run: RunDir, started_at: float, now: float) -> Exit:
    """The end of a run whose shim was killed before it could write one; kept on disk."""
    end = Exit(KILLED, started_at, now, 9, "Error", "The container's supervisor was killed.")
    run.write_exit(end)
    return end


def port_was_taken(run: RunDir, end: Exit) -> bool:
    """Whether a run failed because another process has its port."""
    if end.exit_code == 0:
        return False
    tail = last_lines(run)
    return any(text in tail for text in _PORT_TAKEN)


def _termination_message(run: RunDir, spec: Container, exit_code: int) -> str:
    try:
        message = run.termination.read_bytes()[:_MESSAGE_BYTES].decode("utf-8", "replace")
    except OSError:
        message = ""
    if not message and exit_code != 0 and spec.termination_message_policy == "FallbackToLogsOnError":
        message = last_lines(run)
    return message
