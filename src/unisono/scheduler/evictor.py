"""Removes pods that the engine, or a half-bound gang, gives up.

A pod with `unisono.io/evict-notice` is told first, by a condition, an annotation and an event; so is one whose eviction
says how long it has. It counts as one that leaves from then on, so its place is promised, and goes when the time is
over. The notice is taken back when the job that needed the place no longer waits.

A pod that a PodDisruptionBudget selects goes through the Eviction API, where the API server has the last word on the
budget; every other pod is deleted, and so is one that has run for as long as its queue allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import structlog

from unisono.api.annotations import CHECKPOINT_BEFORE, EVICT_NOTICE, MOST_GRACE_SECONDS, NOTICE_GIVEN
from unisono.api.core import ObjectReference, Pod, PodCondition
from unisono.api.kinds import PODS
from unisono.api.pod_states import notice_seconds
from unisono.api.selecting import pod_group_name, selects
from unisono.api.times import format_duration, rfc3339, time_or
from unisono.cluster.records import Job, Task
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.answers import RUN_TIME
from unisono.errors import ApiError, Conflict, NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics

# Finds gangs that are only partly bound, and gives the bound part back when the rest does not follow in time.
#
# A gang's binds leave together, but writes can fail and a scheduler can be killed between two of them. The members that
# are missing are placed again in the next cycle, with the bound members counted. If that does not succeed within
# ``patience`` seconds, or a member was deleted for good, the members that are bound but do not run yet are removed:
# half a gang must not hold nodes.


@dataclass(frozen=True, slots=True)
class Release:
    """A gang whose bound members are to be removed."""

    job: str
    pods: tuple[Task, ...]
    ready: int
    min_member: int


class PartialGangs:
    """Remembers since when each gang is partly bound."""

    def __init__(self, patience: float = 60.0) -> None:
        """``patience`` is the longest time in seconds that a gang may stay partly bound."""
        self.patience = patience
        self._since: dict[str, float] = {}

    def observe(
        self, jobs: Mapping[str, Job], active: Iterable[str], now: float, busy: Callable[[str], bool]
    ) -> list[Release]:
        """Look at the jobs that a cycle looks at; ``now`` is monotonic seconds, ``busy`` tells of binds under way."""
        partial = {key for key in {*active, *self._since} if _is_partial(jobs.get(key))}
        self._since = {key: self._since.get(key, now) for key in sorted(partial)}
        releases = []
        for key, since in list(self._since.items()):
            if now - since < self.patience or busy(key):
                continue
            job = jobs[key]
            pods = tuple(task for task in job.tasks.values() if task.status is TaskStatus.BOUND)
            releases.append(Release(key, pods, count(job.counts, READY_STATES), job.min_member))
            del self._since[key]
        return releases

    def next_due(self) -> float | None:
        """Monotonic time at which the next gang's patience ends."""
        return min((since + self.patience for since in self._since.values()), default=None)


def _is_partial(job: Job | None) -> bool:
    """Some members are bound and do not run, and all that have a place for good are too few.

    A bind on its way counts as missing: one that fails again and again must not restart the patience. Failed members
    count as present: what follows from a failure is for the job's policies to say.
    """
    if job is None or not job.known or not job.counts[TaskStatus.BOUND]:
        return False
    present = count(job.counts, READY_STATES) - job.counts[TaskStatus.BINDING] + job.counts[TaskStatus.FAILED]
    return present < job.min_member


_log = structlog.get_logger(__name__)

# An eviction that was sent is not sent again while its deletion makes its way through the API server.
_REPEAT_SECONDS = 30.0

# After a budget refused, it is not asked again before it can have changed.
_REFUSED_SECONDS = 10.0
_REFUSED = 429
# Evictions under way at once.
_CONCURRENCY = 16

GIVE_UP = "release"
"""The action of pods that are removed because their gang was bound only in part: no limit counts those."""


class Evictor:
    """Marks pods as disrupted, then deletes exactly that incarnation."""

    def __init__(self, client: Client, events: EventRecorder, metrics: Metrics, clock: Clock, *, feed: Feed) -> None:
        """Make an evictor; the state of ``feed`` counts victims as being released from the moment of the decision."""
        self._client, self._events, self._metrics, self._clock = client, events, metrics, clock
        self._feed = feed
        self._slots = asyncio.Semaphore(_CONCURRENCY)
        self._sent: dict[str, float] = {}
        self._beneficiaries: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(
        self, victims: Iterable[tuple[str, str, str]], action: str, why: str, beneficiary: str = "", notice: float = 0.0
    ) -> int:
        """Evict pods in the background.

        Args:
            victims: (namespace, name, uid).
            action: who decided, such as ``preempt``; a metric label.
            why: sentence for the pod's event and condition.
            beneficiary: key of the job that gets the place; notices are taken back when it waits no longer.
            notice: seconds that pods are told before which do not say it themselves.

        Returns:
            how many evictions were sent; pods that are on their way out already are left alone.
        """
        now = self._clock.monotonic()
        self._sent = {uid: until for uid, until in self._sent.items() if until > now}
        count = 0
        for namespace, name, uid in victims:
            if uid in self._sent:
                continue
            self._sent[uid] = now + _REPEAT_SECONDS
            at = None if action == GIVE_UP else self._clock.time()
            self._feed.do(partial(self._feed.state.release, f"{namespace}/{name}", at))
            if beneficiary:
                self._beneficiaries[uid] = beneficiary
            self._start(self._evict(namespace, name, uid, action, why, notice))
            count += 1
        return count

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def follow_notices(self) -> float | None:
        """Evict the pods whose notice is over, and take back the notices of those whose place no job waits for.

        A scheduler that has just begun does not know for whom notices were given, and carries all of them out.

        Returns:
            when the next notice is over, seconds since the epoch; None: none is given.
        """
        state, now, ends = self._feed.state, self._clock.time(), list[float]()
        notified = {*self._sent, *(task.uid for task in state.noticed.values())}
        self._beneficiaries = {uid: job for uid, job in self._beneficiaries.items() if uid in notified}
        for task in list(state.noticed.values()):
            if task.uid in self._sent and self._sent[task.uid] > self._clock.monotonic():
                continue
            job = state.book.jobs.get(self._beneficiaries.get(task.uid, ""))
            end = task.noticed + self._notice(task.annotations, task.job)
            if task.uid in self._beneficiaries and (job is None or job.gone or not job.pending):
                self._begin(task.uid)
                self._start(self._take_back(task))
            elif end <= now:
                self._begin(task.uid)
                self._start(self._evict(task.namespace, task.name, task.uid, "", ""))
            else:
                ends.append(end)
        return min(ends, default=None)

    def _begin(self, uid: str) -> None:
        self._sent[uid] = self._clock.monotonic() + _REPEAT_SECONDS

    def _notice(self, annotations: Mapping[str, str] | None, job: str, default: float = 0.0) -> float:
        """Seconds of notice that a pod gets, as it says, or its PodGroup; else ``default``."""
        record = self._feed.state.book.jobs.get(job)
        return notice_seconds(annotations, record.annotations if record is not None else None, default=default)

    async def drain(self) -> None:
        """Wait for the evictions under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop; evictions under way are cancelled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _evict(self, namespace: str, name: str, uid: str, action: str, why: str, notice: float = 0.0) -> None:
        async with self._slots:
            try:
                gone = await self._remove(namespace, name, uid, action, why, notice)
            except (NotFound, Conflict):
                return
            except (UnisonoError, OSError, TimeoutError) as error:
                self._still_stands(f"{namespace}/{name}", uid, error)
                return
        if gone is None:
            return
        action, why = gone
        self._metrics.evicted(action)
        reference = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=uid)
        self._events.event(reference, "Normal", "Evict", f"Pod is evicted, because of {why}")

    async def _remove(
        self, namespace: str, name: str, uid: str, action: str, why: str, notice: float
    ) -> tuple[str, str] | None:
        """By whom and why it was evicted; None where it was not, or not yet."""
        pod = await self._client.get(PODS, name, namespace)
        if pod.metadata.uid != uid:
            return None
        condition = _notice_given(pod)
        if condition is not None:
            action, why = action or condition.reason or "", why or condition.message or ""
        elif not action or (action != GIVE_UP and await self._tell(pod, action, why, notice)):
            return None  # its notice was taken back, or is given now
        if action != RUN_TIME and self._has_budget(f"{namespace}/{name}"):  # as with a deadline of its own
            # The server marks the pod itself, and only if the budget allows it to go.
            await self._client.evict(namespace, name, uid=uid, grace_seconds=_shorter_grace(pod))
            return action, why
        if pod.status.phase != "Failed":  # a failure that has happened is not to look like a disruption
            await self._mark(pod, why)
        await self._client.delete(PODS, name, namespace, uid=uid, grace_seconds=_shorter_grace(pod))
        return action, why

    async def _tell(self, pod: Pod, action: str, why: str, notice: float) -> bool:
        """Give the pod notice; False where it has none coming."""
        if pod.status.phase != "Running":
            return False
        seconds = self._notice(pod.metadata.annotations, _job_of(pod), notice)
        if seconds <= 0:
            return False
        now = float(int(self._clock.time()))  # as the condition says it
        until = rfc3339(now + seconds)
        # Its machine may go sooner, which the controllers have said there.
        sooner = now < time_or((pod.metadata.annotations or {}).get(CHECKPOINT_BEFORE, ""), 0.0) <= now + seconds
        annotated = pod if sooner else await self._annotated(pod, until)
        if self._notice(pod.metadata.annotations, _job_of(pod), -1.0) < 0.0:  # who looks later finds it on the pod
            annotated = await self._annotated(annotated, format_duration(seconds), EVICT_NOTICE)
        # The condition comes last: with it the notice counts, and before it all of this is done again.
        await self._condition(annotated, NOTICE_GIVEN, "True", action, why, now)
        self._sent.pop(pod.metadata.uid or "", None)
        text = f"Pod will be evicted in {format_duration(seconds)}, because of {why}: save work before {until}"
        self._events.event(pod, "Warning", "EvictionNotice", text)
        return True

    async def _take_back(self, task: Task) -> None:
        async with self._slots:
            try:
                pod = await self._client.get(PODS, task.name, task.namespace)
                if pod.metadata.uid != task.uid or _notice_given(pod) is None:
                    return
                said = (pod.metadata.annotations or {}).get(CHECKPOINT_BEFORE)
                if said == rfc3339(task.noticed + self._notice(task.annotations, task.job)):  # else its machine goes
                    pod = await self._annotated(pod, None)
                await self._condition(pod, NOTICE_GIVEN, "False", "NotNeeded", "no job waits for the place")
            except (UnisonoError, OSError, TimeoutError) as error:
                self._sent.pop(task.uid, None)
                _log.warning("evict.notice_stands", pod=task.key, error=str(error))
                return
        self._sent.pop(task.uid, None)
        self._feed.do(partial(self._feed.state.evictions.strike, task.uid))
        self._events.event(pod, "Normal", "EvictionTakenBack", "Pod stays: no job waits for its place")

    def _has_budget(self, key: str) -> bool:
        state = self._feed.state
        task = state.tasks.get(key)
        if task is None:
            return False
        budgets = state.budgets.by_namespace.get(task.namespace, {})
        return any(selects(budget.selector, task.labels) for budget in budgets.values())

    def _still_stands(self, key: str, uid: str, error: Exception) -> None:
        """The victim holds its place again, and a later cycle decides again."""
        if isinstance(error, ApiError) and error.code == _REFUSED:
            self._sent[uid] = self._clock.monotonic() + _REFUSED_SECONDS
        else:
            self._sent.pop(uid, None)
        self._feed.do(partial(self._feed.state.keep, key))
        _log.warning("evict.failed", pod=key, error=str(error))

    async def _mark(self, pod: Pod, why: str) -> None:
        """Condition DisruptionTarget, by which controllers tell an eviction from a failure; best effort."""
        try:
            await self._condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", why)
        except ApiError as error:
            _log.debug("evict.unmarked", pod=pod.key, error=str(error))

    async def _annotated(self, pod: Pod, text: str | None, key: str = CHECKPOINT_BEFORE) -> Pod:
        """The pod as it is once it says until when its work must be saved, or says so no longer."""
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {key: text}}}
        return await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)

    async def _condition(
        self, pod: Pod, kind: str, status: str, reason: str, message: str, at: float | None = None
    ) -> None:
        others = [c for c in pod.status.conditions or () if c.type != kind]
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.time() if at is None else at),
        }
        patch = {
            "metadata": {"resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": [*msgspec.to_builtins(others), condition]},
        }
        name, namespace = pod.metadata.name, pod.metadata.namespace
        await self._client.patch(PODS, name, patch, namespace=namespace, subresource="status")


def _notice_given(pod: Pod) -> PodCondition | None:
    given = (each for each in pod.status.conditions or () if (each.type, each.status) == (NOTICE_GIVEN, "True"))
    return next(given, None)


def _shorter_grace(pod: Pod) -> int | None:
    """Seconds to end, where the pod wants more than anybody gets; None: as it says."""
    leaving, own = pod.metadata.deletion_timestamp, pod.spec.termination_grace_period_seconds
    wanted = pod.metadata.deletion_grace_period_seconds if leaving else own
    return MOST_GRACE_SECONDS if (wanted or 0) > MOST_GRACE_SECONDS else None


def _job_of(pod: Pod) -> str:
    group = pod_group_name(pod.metadata.annotations or {}, pod.spec)
    return f"{pod.metadata.namespace}/{group}" if group else ""
