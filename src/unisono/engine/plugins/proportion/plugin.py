"""proportion: the cluster is divided among queues by weight.

Every queue with jobs deserves a share of each resource by water filling (`waterfill`): at most what it asks for and
what its capability allows, at least its guarantee. A queue never allocates beyond that share, with two exceptions, both
on resources that nothing else has used. Below a queue with a capability a gang that is larger than what is left of its
queue's part of it may start, within what the queue would deserve if the capability were not divided. And where the
configuration allows it, the first gang of a queue that holds nothing may go beyond any share.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector
from unisono.engine.answers import BoolArray, Key, Purpose, Refusal, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import DESERVED
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import ShareMetrics
from unisono.engine.plugins.proportion.division import Division, divide
from unisono.engine.session.limit import (
    UNLIMITED,
    Amounts,
    Excess,
    aligned,
    dominant_share,
    exceeded,
    listed,
    named,
    text,
)
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session
    from unisono.engine.session.victims import VictimJobs

FIRST_GANG = Argument(
    "proportion.firstGang", "bool", False, "a queue that holds nothing may go over its share by one gang"
)


class ProportionPlugin(Plugin):
    """Weighted fair sharing among queues with hard shares."""

    name = "proportion"
    protects = True
    divides = True
    by_shape = True
    known_arguments = (FIRST_GANG, DESERVED)

    def open(self, session: Session) -> None:
        """Compute what each queue that has jobs deserves."""
        self.session = session
        self.registry = session.registry
        shares = divide(session, deserved=self._states_deserved())
        self.real_capability, self.admission, self.deserved = shares.real_capability, shares.admission, shares.deserved
        self._first_gang = bool(argument_value(FIRST_GANG, self.arguments))
        self._reach, self.undivided, self._requests = shares.reach, shares.undivided, shares.requests
        self._demands: dict[int, list[tuple[int, int]]] = {}
        share_book = session.book.shares
        share_book.plugin = self.name
        share_book.room_of, share_book.deserved, share_book.metrics_of = self._room, self.deserved, self._figures
        share_book.share_if = self._share_if
        share_book.outgrown.append(self._outgrown)
        if self._first_gang or self.undivided is not self._reach:
            share_book.may_exceed = self._may_exceed

    def _figures(self, queue: QueueState) -> ShareMetrics | None:
        """For metrics; only queues with jobs have a share."""
        name = queue.name
        if name not in self.deserved:
            return None
        share = dominant_share(listed(queue.claimed, self.registry), self.deserved[name])
        overused = self._is_overused(queue)
        promised = listed(self.session.book.promised(name), self.registry)
        return ShareMetrics(self.deserved[name], self.real_capability[name], promised, share, overused)

    def _room(self, queue: QueueState) -> Vector | None:
        """What the queue may still place."""
        deserved = self._reach.get(queue.name)
        return None if deserved is None else np.maximum(np.array(deserved) - aligned(queue.claimed, self.registry), 0)

    def _states_deserved(self) -> bool:
        return bool(argument_value(DESERVED, self.arguments))

    def _share_if(self, queue: QueueState, more: Amounts | None, lost: Amounts | None) -> Amounts:
        """The queue's share if it asked for ``more``, and if what is ``lost`` were not there."""
        if queue.name not in self._requests:
            return listed(self.registry.zeros(), self.registry)
        return self._divided_if(queue, more, lost).deserved[queue.name]

    def _divided_if(self, queue: QueueState, more: Amounts | None, lost: Amounts | None) -> Division:
        """The cluster divided again; ``queue`` is one of those that have asked."""
        asked = dict(self._requests)
        if more is not None:
            asked[queue.name] = [sum(pair) for pair in zip(asked[queue.name], more, strict=True)]
        return divide(self.session, deserved=self._states_deserved(), asked=asked, lost=lost)

    def _outgrown(self, queue: QueueState, lost: Amounts) -> bool:
        """Whether the queue holds more than its share will be without what is ``lost``, once all it holds counts.

        What it asked for as the session was opened may be less: what others held of a limit was not for it to claim.
        """
        requested, held = self._requests.get(queue.name), listed(queue.claimed, self.registry)
        if requested is None:
            return False
        beyond = [max(amount - asked, 0) for amount, asked in zip(held, requested, strict=True)]
        rows = [row for row, pair in enumerate(zip(lost, beyond, strict=True)) if any(pair) and row != PODS]
        if not rows:
            return False
        before, after = self._reach[queue.name], self._divided_if(queue, beyond, lost).reach[queue.name]
        return any(after[row] < held[row] <= before[row] for row in rows)

    # ---- orders and admission

    def queue_key(self, queue: QueueState) -> Key:
        """Higher ``spec.priority`` first, then the smaller share of what is deserved."""
        deserved = self.deserved.get(queue.name)
        share = 0.0 if deserved is None else dominant_share(listed(queue.claimed, self.registry), deserved)
        return -queue.record.priority, share

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while minResources fit into the queue's real capability, beside what it holds and has promised."""
        queue = job.queue
        if not queue.open:
            return _closed(queue)
        if job.asks is None or queue.name not in self.deserved:
            return Vote.PERMIT
        request = listed(job.asks, self.registry)
        taken = self._taken(queue)
        limit = self.admission[queue.name]
        short = exceeded(taken, request, limit)
        if not short:
            return Vote.PERMIT
        excess = Excess(self.registry, short, request, taken, limit)
        message = f"queue resource quota insufficient: {excess.names('insufficient')}"
        return excess.refusal(message, Cause.OVER_CAPABILITY, event=True)

    def admissible(self, job: JobState) -> int:
        """As often as minResources fit into what is left of the real capability."""
        queue = job.queue
        if not queue.open or job.asks is None or queue.name not in self.deserved:
            return 0
        request, limits = listed(job.asks, self.registry), self.admission[queue.name]
        room = [
            (limit - taken) // amount if row != PODS else UNLIMITED
            for row, (amount, taken, limit) in enumerate(zip(request, self._taken(queue), limits, strict=True))
            if amount > 0
        ]
        return max(min(room, default=UNLIMITED), 0)

    def _taken(self, queue: QueueState) -> Amounts:
        """What counts at the gate: held, and promised beside it."""
        beside = self.session.book.taken((queue.name,))
        return [held + more for held, more in zip(listed(queue.claimed, self.registry), beside, strict=True)]

    # ---- quota

    def overused(self, queue: QueueState) -> Refusal | None:
        """Refused once the queue holds its share of every resource, ``pods`` included."""
        deserved = self.deserved.get(queue.name)
        if deserved is None:
            return None
        if not self._is_overused(queue):
            return None
        held = listed(queue.claimed, self.registry)
        rows = [row for row, share in enumerate(deserved) if share > 0]
        return Refusal(
            f"queue {queue.name} holds all of its share ({text(self.registry, deserved, rows) or 'nothing'})",
            Cause.OVER_SHARE,
            have=named(self.registry, held, rows),
            limit=named(self.registry, deserved, rows),
        )

    def _is_overused(self, queue: QueueState) -> bool:
        """Of a queue that has a share."""
        held = listed(queue.claimed, self.registry)
        return not any(map(lt, held, self._reach[queue.name]))

    def underused(self, queue: QueueState, pod_class: PodClass) -> int:
        """Until the last resource of which some is left has none left."""
        deserved = self._reach.get(queue.name)
        if deserved is None:
            return UNLIMITED
        parts = zip(
            deserved, listed(queue.claimed, self.registry), listed(pod_class.vector, self.registry), strict=True
        )
        left = [(share - held - 1) // need if need > 0 else UNLIMITED for share, held, need in parts if held < share]
        return max(left, default=-1)

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refused when the task would take its queue over the share in a resource that the task asks for."""
        return self._over(queue, self._most(queue), listed(pod_class.vector, self.registry))

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """Tasks of the class that still fit into the share."""
        most = self._most(queue)
        if not queue.open or most is None:
            return 0
        demand = self._demands.get(pod_class.id)
        if demand is None:
            pairs = zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True)
            demand = self._demands[pod_class.id] = [pair for pair in pairs if pair[0] != PODS]
        held = queue.claimed.item
        return max(min(((most[row] - held(row)) // need for row, need in demand), default=UNLIMITED), 0)

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> Refusal | None:
        """Resources may be taken from others only as far as the own share reaches."""
        request = sum((aligned(c.vector, self.registry) for c in classes), self.registry.zeros())
        return self._over(queue, self._reach.get(queue.name), request.tolist())

    def _most(self, queue: QueueState) -> Amounts | None:
        """What the queue may hold: its share, and more while a gang of it is placed beyond that."""
        job = self.session.book.shares.exceeding
        return self._beyond(job) if job is not None and job.queue is queue else self._reach.get(queue.name)

    def _may_exceed(self, job: JobState) -> bool:
        return job.queue.open and self._beyond(job) != self._reach.get(job.queue.name)

    def _beyond(self, job: JobState) -> Amounts | None:
        """What the job's queue may hold with it, of resources that no work within its share can use."""
        starts = job.holds_nothing or not job.is_ready
        first = self._first_gang and starts and self._is_first(job)
        return (self.real_capability if first else self.undivided).get(job.queue.name)

    def _is_first(self, job: JobState) -> bool:
        """Whether its queue holds nothing, or nothing but a part of this gang."""
        queue = job.queue
        others = (
            queue.claimed
            if job.holds_nothing
            else aligned(queue.claimed, self.registry) - aligned(job.claimed, self.registry)
        )
        return not any(amount for row, amount in enumerate(others.tolist()) if row != PODS)

    def _over(self, queue: QueueState, most: Amounts | None, request: Amounts) -> Refusal | None:
        if not queue.open:
            return _closed(queue)
        if most is None:
            return None
        held = listed(queue.claimed, self.registry)
        short = exceeded(held, request, most)
        if not short:
            return None
        capped = self.real_capability[queue.name]
        limited = all(most[row] >= capped[row] for row in short)
        cause = Cause.OVER_CAPABILITY if limited else Cause.OVER_SHARE
        return Excess(self.registry, short, request, held, most).full(queue.name, cause)

    # ---- victims

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks of queues that hold more than their share in any resource, until they do not."""
        if purpose is not Purpose.RECLAIM:
            return None
        held: dict[str, Vector] = {}
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            deserved = self.deserved.get(job.queue.name) if job is not None else None
            if job is None or deserved is None:
                continue
            amounts = held.setdefault(job.queue.name, aligned(job.queue.claimed, self.registry))
            if bool((amounts > np.array(deserved)).any()):
                held[job.queue.name] = amounts - aligned(other.pod_class.vector, self.registry)
                chosen[index] = True
        return chosen

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs of queues that hold more than their share of something."""
        if purpose is not Purpose.RECLAIM:
            return None
        above = np.array([self._above(queue) for queue in jobs.queues], dtype=np.bool_)
        return np.asarray(above[jobs.queue])

    def _above(self, queue: QueueState) -> bool:
        deserved = self.deserved.get(queue.name)
        held = listed(queue.claimed, self.registry)
        return deserved is not None and any(mine > share for mine, share in zip(held, deserved, strict=True))


def _closed(queue: QueueState) -> Refusal:
    state = queue.record.state or "not yet open"
    return Refusal(
        f"queue {queue.name} is not open (state {state}): a closed queue admits and places nothing", Cause.QUEUE_CLOSED
    )
