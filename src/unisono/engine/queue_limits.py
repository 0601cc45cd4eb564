"""``spec.capability`` of queues and of all queues above them, whatever plug-in shares resources among queues.

A queue holds what its pods and those of the queues below it hold. A pod that terminates holds its resources until it is
gone. So there are two amounts of room: what may start now, and what may be promised for when terminating pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Refusal
from unisono.engine.plugins.amounts import UNLIMITED, exceeded, listed, named, text
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.resources import ResourceRegistry
    from unisono.cluster.snapshot import Snapshot
    from unisono.engine.job_state import QueueState
    from unisono.engine.session import Session

ROOT = "root"


class QueueLimit:
    """The capability of one queue, followed through a session.

    Attributes:
        name: of the queue.
        most: engine units by resource row, for the resources that are limited.
        held: ``[R]`` what it will hold once those that leave are gone.
        leaving: ``[R]`` what pods hold that terminate, or that this session evicts.

    """

    __slots__ = ("held", "leaving", "most", "name", "registry")

    def __init__(self, name: str, most: Mapping[int, int], registry: ResourceRegistry) -> None:
        self.name = name
        self.most = most
        self.registry = registry
        self.held: Vector = registry.zeros()
        self.leaving: Vector = registry.zeros()

    def move(self, amounts: Vector, old: TaskStatus, new: TaskStatus) -> None:
        """Pods came, left or are back; ``amounts`` is below 0 when they left."""
        self.held += amounts
        if TaskStatus.RELEASING in (old, new):
            self.leaving -= amounts

    def room(self, pod_class: PodClass, *, now: bool) -> int:
        """How many more tasks of the class; ``now`` without what is leaving."""
        least = UNLIMITED
        for row, need in zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True):
            if row in self.most and need:
                free = self.most[row] - int(self.held[row]) - (int(self.leaving[row]) if now else 0)
                least = min(least, max(free, 0) // need)
        return least

    def refusal(self, pod_class: PodClass, *, now: bool) -> Refusal:
        """That it has no room for one more task of the class, in words and amounts."""
        registry = self.registry
        most = [self.most.get(row, UNLIMITED) for row in range(len(self.held))]
        held = listed(self.held + self.leaving if now else self.held, registry)
        request = listed(pod_class.vector, registry)
        short = exceeded(held, request, most)
        going = ", terminating pods included" if now else ""
        return Refusal(
            f"queue {self.name} may hold {text(registry, most, short)} and holds {text(registry, held, short)}{going}; "
            f"{text(registry, request, short)} more is asked for",
            Cause.OVER_CAPABILITY,
            need=named(registry, request, short),
            have=named(registry, held, short),
            limit=named(registry, most, short),
        )


def lineage(name: str, parents: Mapping[str, str]) -> list[str]:
    """A queue and those above it; a queue without a parent is below ``root``."""
    chain = [name]
    while chain[-1] != ROOT:
        parent = parents.get(chain[-1]) or ROOT
        if parent in chain:
            break
        chain.append(parent)
    return chain


def room(queue: QueueState, pod_class: PodClass, *, now: bool = False) -> int:
    """How many more tasks of a class the capabilities above and of a queue let it hold."""
    return min((limit.room(pod_class, now=now) for limit in queue.limits), default=UNLIMITED)


def refusal(queue: QueueState, pod_class: PodClass, *, now: bool = False) -> Refusal | None:
    """Which capability lets the queue hold no further task of a class, if one does."""
    for limit in queue.limits:
        if limit.room(pod_class, now=now) < 1:
            return limit.refusal(pod_class, now=now)
    return None


def set_limits(session: Session) -> None:
    """Give every queue the limits that hold for it."""
    limits = limits_of(session.snapshot, session.registry)
    if not limits:
        return
    parents = {name: queue.record.parent for name, queue in session.queues.items()}
    for name, queue in session.queues.items():
        queue.limits = tuple(limits[each] for each in lineage(name, parents) if each in limits)


def limits_of(snapshot: Snapshot, registry: ResourceRegistry) -> dict[str, QueueLimit]:
    """Queues with a capability and what they hold, by name."""
    known = {name: record for name, record in snapshot.queues.items() if record.known}
    size = len(registry)
    found: dict[str, QueueLimit] = {}
    for name, record in known.items():
        given = {registry.find(resource): most for resource, most in (record.capability or {}).items()}
        rows = {row: most for row, most in given.items() if row is not None and row != PODS}
        if rows:
            found[name] = QueueLimit(name, rows, registry)
    if not found:
        return found
    parents = {name: record.parent for name, record in known.items()}
    above = {name: [found[each] for each in lineage(name, parents) if each in found] for name in known}
    for name, record in known.items():
        for limit in above[name]:
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
