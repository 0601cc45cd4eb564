"""``spec.capability`` of queues and of all queues above them, whatever plug-in shares resources among queues.

A queue holds what its pods and those of the queues below it hold. A pod that terminates holds its resources until it is
gone. So there are two amounts of room: what may start now, and what may be promised for when terminating pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.api.membership import lineage
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import ResourceRegistry, Vector, fitted
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Refusal
from unisono.engine.session.amounts import UNLIMITED
from unisono.engine.session.job_state import QueueState
from unisono.engine.session.queue_limit import QueueLimit
from unisono.engine.verdict import Cause


def room(queue: QueueState, pod_class: PodClass, *, now: bool = False) -> int:
    """How many more tasks of a class the capabilities above and of a queue let it hold."""
    if not queue.limits:
        return UNLIMITED
    return min(limit.room(pod_class, now=now) for limit in queue.limits)


def refusal(queue: QueueState, pod_class: PodClass, *, now: bool = False) -> Refusal | None:
    """Which capability lets the queue hold no further task of a class, if one does."""
    for limit in queue.limits:
        if limit.room(pod_class, now=now) < 1:
            return limit.refusal(pod_class, now=now)
    return None


def set_limits(queues: Mapping[str, QueueState], snapshot: Snapshot) -> None:
    """Give every queue the limits that hold for it."""
    limits = limits_of(snapshot, snapshot.registry)
    if not limits:
        return
    parents = {name: queue.record.parent for name, queue in queues.items()}
    for name, queue in queues.items():
        queue.limits = tuple(limits[each] for each in lineage(name, parents) if each in limits)


def limits_of(snapshot: Snapshot, registry: ResourceRegistry) -> dict[str, QueueLimit]:
    """Queues with a capability and what they hold, by name."""
    found: dict[str, QueueLimit] = {}
    if not any(record.capability for record in snapshot.queues.values()):
        return found
    known = {name: record for name, record in snapshot.queues.items() if record.known}
    size = len(registry)
    for name, record in known.items():
        given = {registry.find(resource): most for resource, most in (record.capability or {}).items()}
        rows = {row: most for row, most in given.items() if row is not None}
        if rows:
            found[name] = QueueLimit(name, rows, registry)
    if not found:
        return found
    parents = {name: record.parent for name, record in known.items()}
    above = {name: [found[each] for each in lineage(name, parents) if each in found] for name in known}
    for name, record in known.items():
        for limit in above[name]:
            if name != limit.name:
                limit.family.append(name)
            limit.held += fitted(record.allocated, size)
    for queue, status, vector in _others(snapshot):
        for limit in above.get(queue, ()):
            if status is TaskStatus.RELEASING:
                limit.leaving += fitted(vector, size)
            else:
                limit.held += fitted(vector, size)
    return found


def _others(snapshot: Snapshot) -> Iterator[tuple[str, TaskStatus, Vector]]:
    """Pods that hold resources of their node without counting as allocated: terminating ones, and lost ones."""
    for job in snapshot.jobs.values():
        if job.counts[TaskStatus.RELEASING] or job.counts[TaskStatus.UNKNOWN]:
            for task in job.tasks.values():
                if task.node and task.owned and task.status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
                    yield job.queue, task.status, task.pod_class.vector


def closed(queue: QueueState) -> Refusal | None:
    """A refusal when the queue is closed or closing."""
    if not queue.closed:
        return None
    return Refusal(
        f"queue {queue.name} is not open (state {queue.record.state}): a closed queue admits and places nothing",
        Cause.QUEUE_CLOSED,
    )
