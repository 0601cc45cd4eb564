"""proportion: the cluster is divided among queues by weight. No arguments.

Every queue with jobs deserves a share of each resource by water filling (`waterfill`): at most what it asks for and
what its capability allows, at least its guarantee. A queue never allocates beyond that share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector
from unisono.engine.answers import BoolArray, Purpose, Refusal, Vote
from unisono.engine.config_arguments import Argument
from unisono.engine.plugin import Key, Plugin
from unisono.engine.plugins.amounts import aligned, exceeded, named, requested_rows, text, usable_total
from unisono.engine.plugins.shares import publish
from unisono.engine.plugins.waterfill import Share, fill
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session import JobState, QueueState, Session

UNLIMITED = 2**62
"""Stands for "no limit" in int64 vectors and as a headroom."""


class ProportionPlugin(Plugin):
    """Weighted fair sharing among queues with hard shares."""

    name = "proportion"
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Compute what each queue that has jobs deserves."""
        self.session = session
        self.registry = session.registry
        total = usable_total(session)
        queues = [queue for queue in session.queues.values() if queue.job_count]
        promised = sum((self._amounts(q.record.guarantee) for q in session.queues.values()), self.registry.zeros())
        free = np.maximum(total - promised, 0)
        self.real_capability: dict[str, Vector] = {}
        for queue in queues:
            own = free + self._amounts(queue.record.guarantee)
            self.real_capability[queue.name] = np.minimum(own, self._limits(queue.record.capability))
        self.deserved = self._water_fill(total, queues)
        publish(session, self._room)
        self.inqueue = {queue.name: aligned(queue.record.inqueue, self.registry).copy() for queue in queues}

    def _amounts(self, amounts: Mapping[str, int] | None) -> Vector:
        """``[R]`` vector, zero for what is not named."""
        return aligned(self.registry.vector(amounts or {}), self.registry)

    def _limits(self, amounts: Mapping[str, int] | None) -> Vector:
        """``[R]`` vector, unlimited for what is not named."""
        limits = np.full(len(self.registry), UNLIMITED, dtype=np.int64)
        for name, amount in (amounts or {}).items():
            limits[self.registry.row(name)] = amount
        return limits

    def _water_fill(self, total: Vector, queues: list[QueueState]) -> dict[str, Vector]:
        deserved = {queue.name: self.registry.zeros() for queue in queues}
        requests = {queue.name: aligned(queue.record.request, self.registry).copy() for queue in queues}
        self._add_unborn(total, requests)
        guarantees = {queue.name: self._amounts(queue.record.guarantee) for queue in queues}
        for row in range(len(self.registry)):
            shares = [
                Share(
                    queue.record.weight,
                    int(requests[queue.name][row]),
                    int(self.real_capability[queue.name][row]),
                    int(guarantees[queue.name][row]),
                )
                for queue in queues
            ]
            for queue, amount in zip(queues, fill(int(total[row]), shares), strict=True):
                deserved[queue.name][row] = amount
        return deserved

    def _add_unborn(self, total: Vector, requests: dict[str, Vector]) -> None:
        """Add what PodGroups will ask for whose pods are created only after their admission.

        Without it a queue of waiting jobs seems to want nothing, and the others take its share. Jobs that could not be
        admitted even into an empty cluster ask for nothing.
        """
        for job in self.session.active:
            record = job.record
            if job.min_resources is None or len(record.tasks) >= job.min_member or not job.queue.open:
                continue
            wanted = aligned(job.min_resources, self.registry)
            limit = np.minimum(total, self.real_capability[job.queue.name])
            if job.phase in ("Pending", "Inqueue") and not exceeded(wanted, limit, wanted):
                unborn = np.maximum(wanted - aligned(record.request, self.registry), 0)
                unborn[PODS] = job.min_member - len(record.tasks)
                requests[job.queue.name] += unborn

    def _room(self, queue: QueueState) -> Vector | None:
        """What the queue may still place."""
        deserved = self.deserved.get(queue.name)
        return None if deserved is None else np.maximum(deserved - aligned(queue.claimed, self.registry), 0)

    # ---- orders and admission

    def queue_key(self, queue: QueueState) -> Key:
        """Higher ``spec.priority`` first, then the smaller share of what is deserved."""
        return -queue.record.priority, self._share(queue)

    def _share(self, queue: QueueState) -> float:
        deserved = self.deserved.get(queue.name)
        if deserved is None:
            return 0.0
        rows = deserved > 0
        return float((aligned(queue.claimed, self.registry)[rows] / deserved[rows]).max(initial=0.0))

    def enqueueable(self, job: JobState) -> Vote | Refusal:
        """Permit while minResources fit into the queue's real capability, beside what it holds and has promised."""
        queue = job.queue
        if not queue.open:
            return _closed(queue)
        if job.min_resources is None or queue.name not in self.deserved:
            return Vote.PERMIT
        request = aligned(job.min_resources, self.registry)
        taken = aligned(queue.claimed, self.registry) + self.inqueue[queue.name]
        taken = taken - aligned(queue.record.elastic, self.registry)
        limit = self.real_capability[queue.name]
        short = exceeded(taken + request, limit, request)
        if not short:
            return Vote.PERMIT
        names = ", ".join(f"insufficient {self.registry.names[row]}" for row in short)
        return Refusal(
            f"queue resource quota insufficient: {names}",
            Cause.OVER_CAPABILITY,
            need=named(self.registry, request, short),
            have=named(self.registry, taken, short),
            limit=named(self.registry, limit, short),
            event=True,
        )

    def enqueued(self, job: JobState) -> None:
        """Reserve minResources, less what pods behind foreign gates would use."""
        if job.min_resources is not None and job.queue.name in self.inqueue:
            gated = aligned(job.record.gated_request, self.registry)
            self.inqueue[job.queue.name] += np.maximum(aligned(job.min_resources, self.registry) - gated, 0)

    # ---- quota

    def overused(self, queue: QueueState) -> Refusal | None:
        """Refused once the queue holds its share of every resource, ``pods`` included."""
        deserved = self.deserved.get(queue.name)
        if deserved is None:
            return None
        held = aligned(queue.claimed, self.registry)
        if bool((held < deserved).any()):
            return None
        rows = np.flatnonzero(deserved > 0).tolist()
        return Refusal(
            f"queue {queue.name} holds all of its share ({text(self.registry, deserved, rows) or 'nothing'})",
            Cause.OVER_SHARE,
            have=named(self.registry, held, rows),
            limit=named(self.registry, deserved, rows),
        )

    def allocatable(self, queue: QueueState, pod_class: PodClass) -> Refusal | None:
        """Refused when the task would take its queue over the share in a resource that the task asks for."""
        return self._over_share(queue, pod_class.vector)

    def headroom(self, queue: QueueState, pod_class: PodClass) -> int:
        """Tasks of the class that still fit into the share."""
        deserved = self.deserved.get(queue.name)
        if not queue.open or deserved is None:
            return 0
        rows = requested_rows(pod_class.vector)
        if not rows:
            return UNLIMITED
        room = (deserved - aligned(queue.claimed, self.registry))[rows] // pod_class.vector[rows]
        return max(int(room.min()), 0)

    def preemptive(self, queue: QueueState, classes: Sequence[PodClass]) -> Refusal | None:
        """Resources may be taken from others only as far as the own share reaches."""
        request = sum((aligned(c.vector, self.registry) for c in classes), self.registry.zeros())
        return self._over_share(queue, request)

    def _over_share(self, queue: QueueState, request: Vector) -> Refusal | None:
        if not queue.open:
            return _closed(queue)
        deserved = self.deserved.get(queue.name)
        if deserved is None:
            return None
        request, held = aligned(request, self.registry), aligned(queue.claimed, self.registry)
        short = exceeded(held + request, deserved, request)
        if not short:
            return None
        capped = self.real_capability[queue.name]
        limited = all(deserved[row] >= capped[row] for row in short)
        return Refusal(
            f"queue {queue.name} may hold {text(self.registry, deserved, short)} and holds "
            f"{text(self.registry, held, short)}; {text(self.registry, request, short)} more is asked for",
            Cause.OVER_CAPABILITY if limited else Cause.OVER_SHARE,
            need=named(self.registry, request, short),
            have=named(self.registry, held, short),
            limit=named(self.registry, deserved, short),
        )

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
            if bool((amounts > deserved).any()):
                held[job.queue.name] = amounts - aligned(other.pod_class.vector, self.registry)
                chosen[index] = True
        return chosen


def _closed(queue: QueueState) -> Refusal:
    state = queue.record.state or "not yet open"
    return Refusal(f"queue {queue.name} is {state}; only an open queue admits and places", Cause.QUEUE_CLOSED)
