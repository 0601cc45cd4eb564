"""Carries decided binds to the API server: assume, write, confirm.

A decided bind is *assumed* at once: its resources are taken in the cluster state while the write is on its way. The
watch event that shows the node confirms it. What the API server says is the truth: a pod that is bound already stays
where it is, and a write with an unknown outcome is looked up before anything else happens to its resources.

Where some binds of a gang are done and others failed, the gang's places stay taken while the missing ones are written
again, for a bounded time: given up at once, a place could be taken by another pod. After that the engine places the
missing members again, and `scheduler.evictor` bounds how long the gang may stay incomplete.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import structlog
from prometheus_client import Histogram

from unisono.api.core import ObjectReference
from unisono.api.kinds import PODS
from unisono.cluster.recent import Setback
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.decisions import Bind
from unisono.errors import ApiError, Conflict, NotFound, Unavailable
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.leader import LeadershipLost
from unisono.kube.pace import Backoff
from unisono.scheduler.claims import ClaimError, ClaimWriter
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.volcano_metrics import JobTimes

_log = structlog.get_logger(__name__)

# How long the failures of a job are remembered after its waiting time.
_HOLD_SECONDS = 300.0
# Nodes that are remembered with them.
_REFUSING_NODES = 16
# Writes for one pod before its bind counts as failed.
_ATTEMPTS = 4


class Outcome(Enum):
    """How a bind ended."""

    BOUND = "bound"
    GONE = "gone"
    """The pod does not exist any more, or is being deleted."""
    FAILED = "failed"


@dataclass(slots=True)
class _Hold:
    """A job whose binds failed waits until ``until`` (monotonic seconds)."""

    failures: int
    until: float
    resumes: float = 0.0
    """The same in seconds since the epoch."""
    refused: dict[str, str] = field(default_factory=dict)
    """What the latest failure on each node was, the newest last."""


class _Healing:
    """For how long incomplete gangs keep the places of their missing members."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, float] = {}
        self._backoff = Backoff(base=0.2, cap=5.0)

    def lasts(self, job: str, now: float) -> bool:
        """Whether the job's time, which begins with the first call, is not over."""
        # Jobs that did not come to an end here are gone, or were given back.
        self._until = {key: until for key, until in self._until.items() if until > now - _HOLD_SECONDS}
        return self._until.setdefault(job, now + self._seconds) > now

    def pause(self, round_: int) -> float:
        """Seconds before the round."""
        return self._backoff.delay(round_)

    def over(self, job: str) -> None:
        """The job is complete; a later failure has a time of its own."""
        self._until.pop(job, None)


class Binder:
    """Binds the pods of jobs; each job's binds start together, all within one bound on concurrency."""

    def __init__(
        self,
        client: Client,
        feed: Feed,
        events: EventRecorder,
        metrics: Metrics,
        clock: Clock,
        *,
        concurrency: int = 64,
        heal_seconds: float = 20.0,
    ) -> None:
        """Make a binder.

        Args:
            client: of the API server.
            feed: the cluster state and what writers need of its objects.
            events: tell users what became of their pods.
            metrics: are counted here.
            clock: time.
            concurrency: bounds the binds under way.
            heal_seconds: longest time, counted from its first failure, for which an incomplete gang keeps the places
                of its missing members.
        """
        self._client, self._feed, self._events, self._metrics, self._clock = client, feed, events, metrics, clock
        self._claims = ClaimWriter(client, feed.state.catalogue, clock)
        self._concurrency, self._slots = concurrency, asyncio.Semaphore(concurrency)
        self._retry = Backoff(base=0.1, cap=5.0)
        self._back_off = Backoff(base=1.0, cap=30.0)
        self._heal = _Healing(heal_seconds)
        self._holds: dict[str, _Hold] = {}
        self._refused: dict[str, dict[str, str]] = {}
        self._under_way: dict[str, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()

    def limit(self, concurrency: int) -> None:
        """Bound the binds under way from now on; those that have begun go on."""
        if concurrency != self._concurrency:
            self._concurrency, self._slots = concurrency, asyncio.Semaphore(concurrency)

    def submit(self, binds: Iterable[Bind]) -> list[Bind]:
        """Assume and send the binds of a cycle; returns those that were sent.

        Left out are whole jobs: those that wait after a failure, and those for which the cluster changed while the
            cycle ran (a pod or a node of theirs is gone), because half a gang must not start.
        """
        jobs: dict[str, list[Bind]] = defaultdict(list)
        for bind in binds:
            jobs[bind.job or f"{bind.namespace}/{bind.pod}"].append(bind)
        sent: list[Bind] = []
        for job, members in jobs.items():
            if self.held(job) or not all(self._stands(bind) for bind in members):
                continue
            for bind in members:
                self._feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)
                if bind.preparations:
                    self._claims.assume(bind)
                self._observe_age(bind, self._metrics.task_assumed)
            self._under_way[job] += 1
            task = asyncio.get_running_loop().create_task(self._bind_job(job, members))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            sent.extend(members)
        return sent

    def held(self, job: str) -> bool:
        """Whether the job waits after a failed bind."""
        hold = self._holds.get(job)
        return hold is not None and hold.until > self._clock.monotonic()

    def hold(self, job: str, least: float = 0.0) -> None:
        """Let the job wait, ``least`` seconds and more: not at all after its first failure, then longer each time."""
        now = self._clock.monotonic()
        # Jobs that did not come back within some time were deleted, or begin again at the first failure.
        self._holds = {key: hold for key, hold in self._holds.items() if hold.until > now - _HOLD_SECONDS}
        hold = self._holds.setdefault(job, _Hold(0, now))
        hold.failures += 1
        for node, why in self._refused.pop(job, {}).items():
            hold.refused.pop(node, None)
            hold.refused[node] = why
        for node in list(hold.refused)[:-_REFUSING_NODES]:
            del hold.refused[node]
        wait = max(self._back_off.delay(hold.failures - 1) if hold.failures > 1 else 0.0, least)
        hold.until, hold.resumes = now + wait, self._clock.time() + wait

    def setbacks(self) -> dict[str, Setback]:
        """Jobs whose binds failed lately, for the next decisions."""
        now = self._clock.monotonic()
        setbacks_by_job: dict[str, Setback] = {}
        for job, hold in self._holds.items():
            if hold.until <= now - _HOLD_SECONDS:
                continue
            node, why = next(reversed(hold.refused.items()), ("", ""))
            reason = f"node {node}: {why}" if node else "members that did not follow the others in time"
            over = hold.resumes + _HOLD_SECONDS
            setbacks_by_job[job] = Setback(
                hold.failures, reason, hold.until > now, hold.resumes, over, frozenset(hold.refused)
            )
        return setbacks_by_job

    def next_release(self) -> float | None:
        """Monotonic time at which the next waiting job may go on."""
        now = self._clock.monotonic()
        return min((hold.until for hold in self._holds.values() if hold.until > now), default=None)

    def busy(self, job: str) -> bool:
        """Whether binds of the job are under way."""
        return job in self._under_way

    async def drain(self) -> None:
        """Wait for the binds under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop; binds under way are cancelled and show up by their watch events, if they were done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stands(self, bind: Bind) -> bool:
        task = self._feed.state.tasks.get(f"{bind.namespace}/{bind.pod}")
        return (
            task is not None
            and task.uid == bind.uid
            and task.status is TaskStatus.PENDING
            and bind.node in self._feed.nodes
        )

    async def _bind_job(self, job: str, binds: Sequence[Bind]) -> None:
        self._metrics.binds_in_flight.inc(len(binds))
        try:
            failed = await self._bind_all(binds)
            round_ = 0
            while failed and self._may_heal(job, failed):
                round_ += 1
                await self._clock.sleep(self._heal.pause(round_))
                failed = await self._bind_all(self._still_there(failed))
        finally:
            self._metrics.binds_in_flight.dec(len(binds))
            self._under_way[job] -= 1
            if not self._under_way[job]:
                del self._under_way[job]
        self._give_up(failed)
        if failed:
            self.hold(job)
            _log.warning("bind.failed", job=job, failed=len(failed), of=len(binds))
        else:
            self._holds.pop(job, None)
            self._refused.pop(job, None)
            self._heal.over(job)
            self._observe_job(job)

    async def _bind_all(self, binds: Sequence[Bind]) -> list[Bind]:
        """Those that failed; their places are taken still."""
        outcomes = await asyncio.gather(*(self._bind(bind) for bind in binds))
        return [bind for bind, outcome in zip(binds, outcomes, strict=True) if outcome is Outcome.FAILED]

    def _may_heal(self, job: str, failed: Sequence[Bind]) -> bool:
        """Whether the failed members are written once more to their places.

        That is for gangs of which a part stands. Claims were withdrawn with their failed bind, so that such members
        must be placed again.
        """
        record = self._feed.state.book.jobs.get(job)
        if record is None or any(bind.preparations for bind in failed):
            return False
        standing = count(record.counts, READY_STATES) - len(failed)
        if not 0 < standing < record.min_member:
            return False
        return self._heal.lasts(job, self._clock.monotonic())

    def _still_there(self, binds: Sequence[Bind]) -> list[Bind]:
        """Those whose place can be used; the others are given up for the engine to place again."""
        there = [bind for bind in binds if bind.node in self._feed.nodes]
        self._give_up([bind for bind in binds if bind.node not in self._feed.nodes])
        return there

    def _give_up(self, binds: Iterable[Bind]) -> None:
        for bind in binds:
            self._feed.do(partial(self._feed.state.forget, f"{bind.namespace}/{bind.pod}"))

    async def _bind(self, bind: Bind) -> Outcome:
        if bind.preparations:
            return await self._bind_with_claims(bind)
        async with self._slots:
            started = self._clock.monotonic()
            self._observe_age(bind, self._metrics.task_prebound)
            outcome, why = await self._write_safely(bind)
            self._finish(bind, outcome, why, started)
            return outcome

    async def _bind_with_claims(self, bind: Bind) -> Outcome:
        """Claims first; no slot is held while a volume is being made."""
        started = self._clock.monotonic()
        try:
            async with self._slots:
                await self._claims.prepare(bind)
            outcome, why = await self._bind_prepared(bind)
        except (ClaimError, LeadershipLost) as error:
            outcome, why = Outcome.FAILED, str(error)
        except Exception as error:
            _log.exception("bind.broken", pod=f"{bind.namespace}/{bind.pod}")
            outcome, why = Outcome.FAILED, repr(error)
        done = outcome is Outcome.BOUND
        if not done:
            await self._settle(bind)
        self._feed.do(lambda: (self._claims.confirm if done else self._claims.forget)(bind))
        self._finish(bind, outcome, why, started)
        return outcome

    async def _settle(self, bind: Bind) -> None:
        """Wait until the server has said that the devices of a failed bind are free."""
        try:
            await self._claims.settle(bind)
        except LeadershipLost as error:  # who leads now has read what the server holds
            _log.warning("claims.kept", pod=f"{bind.namespace}/{bind.pod}", error=str(error))

    async def _bind_prepared(self, bind: Bind) -> tuple[Outcome, str]:
        started = self._clock.monotonic()
        try:
            await self._claims.wait(bind)
        except (ClaimError, LeadershipLost) as error:
            outcome, why = Outcome.FAILED, str(error)
        else:
            self._metrics.prebind.observe((self._clock.monotonic() - started) * 1000)
            self._observe_age(bind, self._metrics.task_prebound)
            async with self._slots:
                outcome, why = await self._write_safely(bind)
        if outcome is not Outcome.BOUND:
            try:
                await self._claims.withdraw(bind)
            except (ClaimError, LeadershipLost) as error:
                _log.warning("claims.kept", pod=f"{bind.namespace}/{bind.pod}", error=str(error))
        return outcome, why

    async def _write_safely(self, bind: Bind) -> tuple[Outcome, str]:
        try:
            return await self._write(bind)
        except LeadershipLost as error:
            return Outcome.FAILED, str(error)
        except Exception as error:
            _log.exception("bind.broken", pod=f"{bind.namespace}/{bind.pod}")
            return Outcome.FAILED, repr(error)

    async def _write(self, bind: Bind) -> tuple[Outcome, str]:
        why = ""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._client.pace.urgent():
                    await self._client.bind(
                        bind.namespace, bind.pod, bind.node, uid=bind.uid, annotations=bind.annotations or None
                    )
            except (NotFound, Conflict) as error:
                why = str(error)
                wait = 0.0
            except (Unavailable, OSError, TimeoutError) as error:
                why = str(error)
                wait = getattr(error, "retry_after", None) or self._retry.delay(attempt)
            except ApiError as error:
                return Outcome.FAILED, str(error)
            else:
                return Outcome.BOUND, ""
            await self._clock.sleep(wait)
            truth = await self._look(bind)
            if truth is not None:
                return truth, why
        return Outcome.FAILED, why

    async def _look(self, bind: Bind) -> Outcome | None:
        """What became of the pod; None when it still waits for a bind. Asks until the server answers.

        The resources stay taken meanwhile: a bind whose answer was lost may have been done.
        """
        tries = 0
        while True:
            try:
                pod = await self._client.get(PODS, bind.pod, bind.namespace)
            except NotFound:
                return Outcome.GONE
            except (Unavailable, OSError, TimeoutError):
                tries += 1
                await self._clock.sleep(self._retry.delay(tries))
            else:
                if pod.metadata.uid != bind.uid or pod.metadata.deletion_timestamp:
                    return Outcome.GONE
                return Outcome.BOUND if pod.spec.node_name else None

    def _finish(self, bind: Bind, outcome: Outcome, why: str, started: float) -> None:
        key = f"{bind.namespace}/{bind.pod}"
        pod = ObjectReference(api_version="v1", kind="Pod", namespace=bind.namespace, name=bind.pod, uid=bind.uid)
        self._metrics.bind.observe((self._clock.monotonic() - started) * 1000)
        if outcome is Outcome.BOUND:
            self._metrics.scheduled.inc()
            self._observe_age(bind, self._metrics.task_bound)
            self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {key} to {bind.node}")
            return
        if outcome is Outcome.GONE:
            self._give_up([bind])
        else:
            self._metrics.failed.inc()
            self._refused.setdefault(bind.job or key, {})[bind.node] = why
            self._events.event(pod, "Warning", "FailedScheduling", f"failed to bind to node {bind.node}: {why}")

    def _observe_age(self, bind: Bind, stage: Histogram) -> None:
        task = self._feed.state.tasks.get(f"{bind.namespace}/{bind.pod}")
        if task is not None and task.created:
            stage.observe(max(0.0, self._clock.time() - task.created) * 1000)

    def _observe_job(self, job: str) -> None:
        """Its gang, or what came after it, has its places."""
        record, now = self._feed.state.book.jobs.get(job), self._clock.time()
        if record is not None and record.created:
            self._metrics.job_latency.observe(max(0.0, now - record.created) * 1000)
            self._metrics.figures.placed(job, JobTimes(record.queue, record.created, now))
