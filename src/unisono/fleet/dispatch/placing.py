"""Binds and evictions of a hub: a gang that got its places is dispatched, and a victim's job is taken back whole."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import structlog

from unisono.cluster.recent import Setback
from unisono.cluster.status import TaskStatus
from unisono.engine.decisions import Bind
from unisono.errors import UnisonoError
from unisono.fleet.dispatch.targets import Target, TargetFinder
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.translation import cluster_of
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff

_log = structlog.get_logger(__name__)

# Failures are forgotten after so long without another one (seconds).
_MEMORY_SECONDS = 300.0


@dataclass(slots=True)
class _Hold:
    failures: int
    until: float
    resumes: float
    why: str


class Dispatching:
    """Sends gangs to the members in which the engine has placed them; in the scheduler's place of a binder."""

    def __init__(self, state: HubState, finder: TargetFinder, clock: Clock) -> None:
        self._state, self._finder, self._clock = state, finder, clock
        self._holds: dict[str, _Hold] = {}
        self._backoff = Backoff(base=1.0, cap=60.0)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def limit(self, concurrency: int) -> None:
        """Whole jobs are sent, each in one request: there is nothing to bound."""

    def submit(self, binds: Iterable[Bind]) -> list[Bind]:
        """Dispatch whole gangs; returns the binds that count. Pods of one job in several clusters are refused."""
        gangs: dict[str, list[Bind]] = defaultdict(list)
        for bind in binds:
            gangs[bind.job].append(bind)
        sent: list[Bind] = []
        for group, members in gangs.items():
            target = self._finder.of_group(group)
            if target is None or self.busy(group) or self._held(group) or not all(map(self._stands, members)):
                continue
            refusal = target.refusal(members)
            if refusal:
                _log.error("dispatch.refused", job=group, why=refusal)
                continue
            self._assume(target, members)
            if not target.is_placed:
                self._start(group, target, members)
            sent.extend(members)
        return sent

    def hold(self, job: str, least: float = 0.0) -> None:
        """Let the job wait."""
        self._hold(job, "its dispatch failed", least)

    def setbacks(self) -> dict[str, Setback]:
        """Jobs whose dispatch failed lately."""
        now = self._clock.monotonic()
        self._holds = {key: hold for key, hold in self._holds.items() if hold.until > now - _MEMORY_SECONDS}
        return {
            key: Setback(
                hold.failures, hold.why, hold.until > now, hold.resumes, hold.resumes + _MEMORY_SECONDS, frozenset()
            )
            for key, hold in self._holds.items()
        }

    def next_release(self) -> float | None:
        """Monotonic time at which the next waiting job may go on."""
        now = self._clock.monotonic()
        return min((hold.until for hold in self._holds.values() if hold.until > now), default=None)

    def busy(self, job: str) -> bool:
        """Whether the job is being dispatched."""
        return job in self._tasks

    async def close(self) -> None:
        """Stop; what was written down goes on after a restart."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _stands(self, bind: Bind) -> bool:
        task = self._state.feed.state.tasks.get(f"{bind.namespace}/{bind.pod}")
        return (
            task is not None
            and task.uid == bind.uid
            and task.status is TaskStatus.PENDING
            and self._state.is_open(cluster_of(bind.node))
        )

    def _assume(self, target: Target, members: list[Bind]) -> None:
        for bind in members:
            uid = target.uid(bind)
            self._state.feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)
            self._state.stand_ins.place(uid, bind.pod, bind.node)

    def _start(self, group: str, target: Target, members: list[Bind]) -> None:
        self._tasks[group] = asyncio.get_running_loop().create_task(self._dispatch(group, target, members))

    async def _dispatch(self, group: str, target: Target, members: list[Bind]) -> None:
        uids = {target.uid(bind) for bind in members}
        try:
            where = await target.send(members)
            _log.info("job.dispatched", job=target.key, cluster=where, pods=len(members))
        except (UnisonoError, OSError) as error:
            _log.warning("dispatch.failed", job=target.key, error=str(error))
            for uid in uids:
                self._state.stand_ins.unplace(uid)
            for bind in members:
                key = f"{bind.namespace}/{bind.pod}"
                self._state.feed.do(partial(self._state.feed.state.forget, key))
            self._hold(group, str(error))
        finally:
            self._tasks.pop(group, None)

    def _held(self, group: str) -> bool:
        hold = self._holds.get(group)
        return hold is not None and hold.until > self._clock.monotonic()

    def _hold(self, group: str, why: str, least: float = 0.0) -> None:
        hold = self._holds.setdefault(group, _Hold(0, 0.0, 0.0, why))
        hold.failures += 1
        wait = max(self._backoff.delay(hold.failures), least)
        hold.until, hold.resumes, hold.why = self._clock.monotonic() + wait, self._clock.time() + wait, why


class TakingBack:
    """Takes the jobs of victims back from their members; in the scheduler's place of an evictor."""

    def __init__(self, state: HubState, finder: TargetFinder) -> None:
        self._state, self._finder = state, finder
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def submit(self, victims: Iterable[tuple[str, str, str]], action: str, why: str) -> int:
        """Take back every job of which a pod is a victim; returns how many pods were named."""
        count = 0
        for namespace, name, uid in victims:
            task = self._state.feed.state.tasks.get(f"{namespace}/{name}")
            if task is None or task.uid != uid:
                continue
            count += 1
            target = self._finder.of_group(task.job)
            if target is None or task.job in self._tasks or not target.can_be_taken_back:
                continue
            self._tasks[task.job] = asyncio.get_running_loop().create_task(self._take_back(task.job, target, why))
        return count

    async def close(self) -> None:
        """Stop."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _take_back(self, group: str, target: Target, why: str) -> None:
        try:
            await target.take_back(why)
        except (UnisonoError, OSError) as error:
            _log.warning("taking_back.failed", job=target.key, error=str(error))
        finally:
            self._tasks.pop(group, None)
