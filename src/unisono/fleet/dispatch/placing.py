"""Binds and evictions of a hub: a gang that got its places is dispatched, and a victim's job is taken back whole."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog

from unisono.api.groups.batch import HyperJob
from unisono.api.keys import JOB_NAME
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.selecting import controller_of
from unisono.cluster.recent import PastEviction, Setback
from unisono.cluster.status import TaskStatus
from unisono.controllers.hyperjob.decide import SplitError
from unisono.controllers.job.view import JobView
from unisono.engine.decisions import Bind
from unisono.errors import UnisonoError
from unisono.fleet.dispatch.controller import DispatchController
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.controller import GangController
from unisono.fleet.jobs.copies import placement_of
from unisono.fleet.jobs.translation import cluster_of
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff
from unisono.scheduler.feed import Feed

# What a PodGroup of a hub stands for, and what is asked of it when it gets places or loses them: a job, or a gang.


class Target(Protocol):
    """What stands behind a PodGroup."""

    @property
    def key(self) -> str:
        """Name for logs."""
        ...

    @property
    def is_placed(self) -> bool:
        """Whether all of it is with members, or on its way."""
        ...

    @property
    def can_be_taken_back(self) -> bool:
        """Whether some of it is with a member."""
        ...

    def uid(self, bind: Bind) -> str:
        """UID of the job for which the pod stands."""
        ...

    def refusal(self, binds: Sequence[Bind]) -> str:
        """Why these places cannot be taken together; empty when they can."""
        ...

    async def send(self, binds: Sequence[Bind]) -> str:
        """Write down the members of these places; answers them in words.

        Raises:
            UnisonoError: the API server did not take it.
        """
        ...

    async def take_back(self, why: str) -> None:
        """Let all of it wait on the hub again.

        Raises:
            UnisonoError: the API server did not take it.
        """
        ...


class JobTarget:
    """A job that is dispatched by itself."""

    def __init__(self, controller: DispatchController, job: Any) -> None:
        self._controller, self._job = controller, job
        self._placement = placement_of(job)

    @property
    def key(self) -> str:
        """See `Target`."""
        return str(self._job.key)

    @property
    def is_placed(self) -> bool:
        """See `Target`."""
        return bool(self._placement.cluster)

    @property
    def can_be_taken_back(self) -> bool:
        """See `Target`."""
        return self.is_placed

    def uid(self, bind: Bind) -> str:
        """See `Target`."""
        return self._job.metadata.uid or ""

    def refusal(self, binds: Sequence[Bind]) -> str:
        """See `Target`."""
        return _apart({cluster_of(bind.node) for bind in binds}, self._placement.cluster)

    async def send(self, binds: Sequence[Bind]) -> str:
        """See `Target`."""
        cluster = cluster_of(binds[0].node)
        await self._controller.place(self._job, self._placement.to(cluster), f"{len(binds)} pods have a place there")
        return cluster

    async def take_back(self, why: str) -> None:
        """See `Target`."""
        await self._controller.place(self._job, self._placement.back(), why)


class GangTarget:
    """A HyperJob: its parts are placed and taken back together."""

    def __init__(self, controller: GangController, feed: Feed, hyper_job: HyperJob) -> None:
        self._controller, self._feed, self._hyper_job = controller, feed, hyper_job
        self._parts, self._complete = controller.parts(hyper_job)
        record = controller.record(hyper_job)
        self._clusters = {
            name: record.placement(name, job.metadata.uid or "").cluster for name, job in self._parts.items()
        }

    @property
    def key(self) -> str:
        """See `Target`."""
        return self._hyper_job.key

    @property
    def is_placed(self) -> bool:
        """See `Target`."""
        return all(self._clusters.values())

    @property
    def can_be_taken_back(self) -> bool:
        """See `Target`."""
        return any(self._clusters.values())

    def uid(self, bind: Bind) -> str:
        """See `Target`."""
        job = self._parts.get(self._part_of(bind))
        return (job.metadata.uid or "") if job is not None else ""

    def refusal(self, binds: Sequence[Bind]) -> str:
        """See `Target`; a part that has no place yet and gets too few keeps all of them back."""
        places = self._places(binds)
        if not self._complete or not places.keys() <= self._parts.keys():
            return "its parts have changed"
        pods = Counter(map(self._part_of, binds))
        missing = [name for name, at in self._clusters.items() if not at and pods[name] < self._least(name)]
        if missing:
            return f"too few places for {', '.join(sorted(missing))}"
        most = self._hyper_job.spec.max_domains
        domains = {*filter(None, self._clusters.values()), *(each for some in places.values() for each in some)}
        if most and len(domains) > most:
            return f"its parts would be in {len(domains)} clusters, and maxDomains is {most}"
        refusals = (_apart(clusters, self._clusters[name]) for name, clusters in sorted(places.items()))
        return next(filter(None, refusals), "")

    async def send(self, binds: Sequence[Bind]) -> str:
        """See `Target`."""
        places = {
            name: (next(iter(clusters)), self._parts[name].metadata.uid or "")
            for name, clusters in self._places(binds).items()
            if not self._clusters[name]
        }
        await self._controller.send(self._hyper_job, places)
        return ", ".join(sorted({cluster for cluster, _ in places.values()}))

    async def take_back(self, why: str) -> None:
        """See `Target`."""
        await self._controller.take_back(self._hyper_job, why)

    def _least(self, part: str) -> int:
        return max(1, JobView(self._parts[part]).min_available)

    def _places(self, binds: Iterable[Bind]) -> dict[str, set[str]]:
        places: dict[str, set[str]] = {}
        for bind in binds:
            places.setdefault(self._part_of(bind), set()).add(cluster_of(bind.node))
        return places

    def _part_of(self, bind: Bind) -> str:
        task = self._feed.state.tasks.get(f"{bind.namespace}/{bind.pod}")
        return task.labels.get(JOB_NAME, "") if task is not None else ""


def _apart(clusters: set[str], placed: str) -> str:
    if len(clusters) > 1 or (placed and placed not in clusters):
        return f"its pods would be apart in {', '.join(sorted(clusters))}"
    return ""


class TargetFinder:
    """From a PodGroup of the hub to what it stands for."""

    def __init__(self, feed: Feed, controllers: Iterable[DispatchController], gangs: GangController) -> None:
        self._feed, self._gangs = feed, gangs
        self._controllers = controllers

    def of_group(self, group: str) -> Target | None:
        """What stands behind a PodGroup (``namespace/name``); None where there is nothing."""
        pod_group = self._feed.groups.get(group)
        owner = controller_of(pod_group) if pod_group is not None else None
        if pod_group is None or owner is None:
            return None
        key = f"{pod_group.metadata.namespace}/{owner.name}"
        if owner.kind == HYPER_JOBS.kind:
            hyper_job = self._gangs.hyper_job(key)
            if hyper_job is None or hyper_job.metadata.uid != owner.uid:
                return None
            try:
                return GangTarget(self._gangs, self._feed, hyper_job)
            except SplitError:
                return None  # its parts run on as they are until the policy can be followed
        kind = owner.api_version.rpartition("/")[0], owner.kind
        controller = next((each for each in self._controllers if (each.kind.group, each.kind.kind) == kind), None)
        job = controller.job(key) if controller is not None else None
        if controller is None or job is None or job.metadata.uid != owner.uid:
            return None
        return JobTarget(controller, job)


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

    def __init__(self, state: HubState, finder: TargetFinder, clock: Clock) -> None:
        self._state, self._finder, self._clock = state, finder, clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def follow_notices(self) -> None:
        """Members give notice to their pods themselves."""

    def submit(
        self, victims: Iterable[tuple[str, str, str]], action: str, why: str, beneficiary: str = "", notice: float = 0.0
    ) -> int:
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
            gone = self._count(task.job)
            self._tasks[task.job] = asyncio.get_running_loop().create_task(self._take_back(task.job, target, why, gone))
        return count

    def _count(self, group: str) -> list[str]:
        """Count all pods of a job that goes as evicted, for limits on how many may be in a while; their uids."""
        state, now = self._state.feed.state, self._clock.time()
        job = state.book.jobs.get(group)
        gone = [task for task in job.tasks.values() if task.node] if job is not None else []
        for task in gone:
            eviction = PastEviction(now, task.key, task.uid, group, job.queue if job is not None else "")
            self._state.feed.do(partial(state.evictions.note, eviction))
        return [task.uid for task in gone]

    async def close(self) -> None:
        """Stop."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _take_back(self, group: str, target: Target, why: str, gone: Sequence[str]) -> None:
        try:
            await target.take_back(why)
        except (UnisonoError, OSError) as error:
            _log.warning("taking_back.failed", job=target.key, error=str(error))
            for uid in gone:
                self._state.feed.do(partial(self._state.feed.state.evictions.strike, uid))
        finally:
            self._tasks.pop(group, None)
