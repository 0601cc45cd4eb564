"""Binds and evictions of a hub: a gang that got its places is dispatched, and a victim's job is taken back whole."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from unisono.api.base import Object
from unisono.cluster.bind_failures import Setback
from unisono.cluster.status import TaskStatus
from unisono.controllers.owners import controller_of
from unisono.engine.decisions import Bind
from unisono.errors import UnisonoError
from unisono.fleet.copies import placement_of
from unisono.fleet.dispatch import DispatchController
from unisono.fleet.hub_state import HubState
from unisono.fleet.naming import cluster_of
from unisono.kube.backoff import Backoff
from unisono.kube.clock import Clock
from unisono.scheduler.feed import Feed

_log = structlog.get_logger(__name__)

# Failures are forgotten after so long without another one (seconds).
_MEMORY_SECONDS = 300.0


@dataclass(slots=True)
class _Hold:
    failures: int
    until: float
    resumes: float
    why: str


class JobFinder:
    """From a PodGroup of the hub to the job that it stands for, and to the controller of its kind."""

    def __init__(self, feed: Feed, controllers: Iterable[DispatchController]) -> None:
        self._feed = feed
        self._by_kind = {controller.kind.kind: controller for controller in controllers}

    def of_group(self, group: str) -> tuple[DispatchController, Any] | None:
        """The job behind a PodGroup (``namespace/name``); None where there is none."""
        found = self._feed.groups.get(group)
        owner = controller_of(found) if found is not None else None
        controller = self._by_kind.get(owner.kind) if owner is not None else None
        if found is None or owner is None or controller is None:
            return None
        job = controller.job(f"{found.metadata.namespace}/{owner.name}")
        return (controller, job) if job is not None and job.metadata.uid == owner.uid else None


class Dispatching:
    """Sends gangs to the member in which the engine has placed them; in the scheduler's place of a binder."""

    def __init__(self, state: HubState, finder: JobFinder, clock: Clock) -> None:
        self._state, self._finder, self._clock = state, finder, clock
        self._holds: dict[str, _Hold] = {}
        self._backoff = Backoff(base=1.0, cap=60.0)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def limit(self, concurrency: int) -> None:
        """Whole jobs are sent, each in one request: there is nothing to bound."""

    def submit(self, binds: Iterable[Bind]) -> list[Bind]:
        """Dispatch whole gangs; returns the binds that count. Members of one gang in several clusters are refused."""
        gangs: dict[str, list[Bind]] = defaultdict(list)
        for bind in binds:
            gangs[bind.job].append(bind)
        sent: list[Bind] = []
        for group, members in gangs.items():
            found = self._finder.of_group(group)
            if found is None or self.busy(group) or self._held(group) or not all(map(self._stands, members)):
                continue
            controller, job = found
            clusters = {cluster_of(bind.node) for bind in members}
            placement = placement_of(job)
            if len(clusters) > 1 or (placement.cluster and placement.cluster not in clusters):
                _log.error("dispatch.apart", job=group, clusters=sorted(clusters))
                continue
            self._assume(job, members)
            if not placement.cluster:
                self._start(group, controller, job, clusters.pop(), members)
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

    def _assume(self, job: Object, members: list[Bind]) -> None:
        for bind in members:
            self._state.feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)
            self._state.stand_ins.place(job.metadata.uid or "", bind.pod, bind.node)

    def _start(
        self, group: str, controller: DispatchController, job: Object, cluster: str, members: list[Bind]
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._dispatch(group, controller, job, cluster, members))
        self._tasks[group] = task

    async def _dispatch(
        self, group: str, controller: DispatchController, job: Object, cluster: str, members: list[Bind]
    ) -> None:
        try:
            await controller.place(job, placement_of(job).to(cluster), f"{len(members)} pods have a place there")
            self._holds.pop(group, None)
            _log.info("job.dispatched", job=job.key, kind=controller.kind.kind, cluster=cluster, pods=len(members))
        except (UnisonoError, OSError) as error:
            _log.warning("dispatch.failed", job=job.key, cluster=cluster, error=str(error))
            self._state.stand_ins.unplace(job.metadata.uid or "")
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

    def __init__(self, state: HubState, finder: JobFinder) -> None:
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
            found = self._finder.of_group(task.job)
            if found is None or task.job in self._tasks or not placement_of(found[1]).cluster:
                continue
            self._tasks[task.job] = asyncio.get_running_loop().create_task(self._take_back(task.job, *found, why))
        return count

    async def close(self) -> None:
        """Stop."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _take_back(self, group: str, controller: DispatchController, job: Object, why: str) -> None:
        try:
            await controller.place(job, placement_of(job).back(), why)
        except (UnisonoError, OSError) as error:
            _log.warning("taking_back.failed", job=job.key, error=str(error))
        finally:
            self._tasks.pop(group, None)
