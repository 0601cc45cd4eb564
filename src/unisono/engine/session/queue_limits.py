"""Limits on what jobs hold: ``spec.capability`` of their queue and of all above it, and what plug-ins add for users.

A queue holds what its pods and those of the queues below it hold, whatever plug-in shares resources. A pod that
terminates holds its resources until it is gone. So there are two amounts of room: what may start now, and what may be
promised for when terminating pods are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from unisono.api.selecting import lineage
from unisono.cluster.job_licenses import keeps_places, leave_together
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import ResourceRegistry, Vector, fitted
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count
from unisono.engine.answers import Refusal
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import UNLIMITED, Limit
from unisono.engine.verdict import Cause


def room(holder: QueueState | JobState, pod_class: PodClass, *, now: bool = False) -> int:
    """How many more tasks of a class the limits of a queue, or of a job, let it hold."""
    if not holder.limits:
        return UNLIMITED
    return min(limit.room(pod_class, now=now) for limit in holder.limits)


def refusal(holder: QueueState | JobState, pod_class: PodClass, *, now: bool = False) -> Refusal | None:
    """Which limit lets a queue, or a job, hold no further task of a class, if one does."""
    for limit in holder.limits:
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


def limits_of(snapshot: Snapshot, registry: ResourceRegistry) -> dict[str, Limit]:
    """Queues with a capability and what they hold, by name."""
    limits: dict[str, Limit] = {}
    if not any(record.capability for record in snapshot.queues.values()):
        return limits
    records = {name: record for name, record in snapshot.queues.items() if record.known}
    size = len(registry)
    for name, record in records.items():
        given = {registry.find(resource): most for resource, most in (record.capability or {}).items()}
        rows = {row: most for row, most in given.items() if row is not None}
        if rows:
            limits[name] = Limit(name, rows, registry)
    if not limits:
        return limits
    parents = {name: record.parent for name, record in records.items()}
    above = {name: [limits[each] for each in lineage(name, parents) if each in limits] for name in records}
    for name, record in records.items():
        for limit in above[name]:
            if name != limit.name:
                limit.family.append(name)
            limit.held += fitted(record.allocated, size)
    count_others(snapshot, lambda job: above.get(job.queue, ()))
    for key in snapshot.licensed:  # what a job holds as a whole goes with the last of its pods, a lost one included
        job = snapshot.jobs[key]
        if job.license_vector is None:
            continue
        for limit in above.get(job.queue, ()):
            if leave_together(job):
                limit.leaving += fitted(job.license_vector, size)
            elif keeps_places(job) and not count(job.counts, ALLOCATED_STATES):
                limit.held += fitted(job.license_vector, size)
    return limits


def count_others(snapshot: Snapshot, limits: Callable[[Job], Iterable[Limit]]) -> None:
    """Let limits count pods that hold resources without being allocated: terminating ones, and lost ones.

    Args:
        snapshot: the cluster.
        limits: those that hold for a job.
    """
    for job, status, vector in _others(snapshot):
        for limit in limits(job):
            if status is TaskStatus.RELEASING:
                limit.leaving += fitted(vector, len(limit.leaving))
            else:
                limit.held += fitted(vector, len(limit.held))


def _others(snapshot: Snapshot) -> Iterator[tuple[Job, TaskStatus, Vector]]:
    for job in snapshot.jobs.values():
        if job.counts[TaskStatus.RELEASING] or job.counts[TaskStatus.UNKNOWN]:
            for task in job.tasks.values():
                if task.node and task.owned and task.status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
                    yield job, task.status, task.pod_class.vector


def closed(queue: QueueState) -> Refusal | None:
    """A refusal when the queue is closed or closing."""
    if not queue.closed:
        return None
    return Refusal(
        f"queue {queue.name} is not open (state {queue.record.state}): a closed queue admits and places nothing",
        Cause.QUEUE_CLOSED,
    )
