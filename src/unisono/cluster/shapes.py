"""Shapes of jobs: PodGroups that scheduling cannot tell apart share a number.

A batch cluster mostly holds the same few jobs many times over. What a cycle finds out about one of them (its keys, its
admission, why it finds no place) holds for the next one of the same shape, so it need not be found out again.
"""

from __future__ import annotations

from unisono.api.annotations import GANG_PARTS
from unisono.cluster.records import Job

_KEPT = 8192
"""Known shapes; numbers are never used twice, so forgetting them all only costs a chance to share."""

Key = tuple[object, ...]


class Shapes:
    """Numbers the shapes and the kins of one cluster state."""

    __slots__ = ("_known", "_next")

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._next = 1

    def of(self, job: Job) -> tuple[int, int]:
        """The numbers of a job's shape and of its kin; 0 when it counts as unlike any other.

        Only jobs have a shape whose pods are all pending, ungated and equal, as those of a fresh job are, and jobs
        without pending pods. Two of the same shape differ in names, ages, labels, annotations (but what they tell of
        pods that are to come), conditions, places in the order and nodes, and in nothing else. Two of one kin may also
        stand in different namespaces, which count for admission and not for placing.
        """
        key = _key(job)
        if key is None:
            return 0, 0
        kin = self._number(key)
        return self._number((job.namespace, kin)), kin

    def _number(self, key: Key) -> int:
        number = self._known.get(key)
        if number is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            number = self._known[key] = self._next
            self._next += 1
        return number


def _key(job: Job) -> Key | None:
    if job.topology is not None or job.sub_groups or job.promised is not None:
        return None
    tasks = _pending_tasks(job) if job.pending else _no_pending_tasks(job)
    if tasks is None:
        return None
    return (
        job.queue,
        job.priority_class,
        job.min_member,
        tuple(job.min_task_member.items()),
        None if job.min_amounts is None else tuple(job.min_amounts.items()),
        job.phase,
        job.reported_phase,
        job.totals,
        *tasks,
    )


def _no_pending_tasks(job: Job) -> Key:
    """What is seen of the pods of a job of which none waits; of one that has none, what its PodGroup tells of them."""
    told = "" if job.tasks else job.annotations.get(GANG_PARTS, "")
    roles = sorted((role, *counts) for role, counts in job.role_counts.items()) if job.min_task_member else ()
    return told, tuple(job.counts), job.releasing_on_node, job.allocated.tobytes(), *roles


def _pending_tasks(job: Job) -> Key | None:
    """What the pods of a job have in common that are all pending; None when they have not.

    Minimums by role may be stated for the role of the pods alone, as those of jobs with one task are.
    """
    pending = job.pending
    if len(pending) != len(job.tasks) or job.pending_best_effort:
        return None
    first = next(iter(pending.values()))
    pod_class, role, priority = first.pod_class, first.role, first.priority
    if job.min_task_member and job.min_task_member.keys() != {role}:
        return None
    for task in pending.values():
        if (
            task.pod_class is not pod_class
            or task.role != role
            or task.priority != priority
            or task.gated
            or task.nominated_node
            or not task.owned
        ):
            return None
    return len(pending), pod_class.id, role, priority
