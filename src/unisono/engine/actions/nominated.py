"""Jobs for which others were evicted: they get those places before other jobs are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.cluster.records import Task
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState


def promised(cycle: Cycle, waiting: Mapping[str, Iterable[JobState]]) -> list[JobState]:
    """Of the jobs in ``waiting`` (by queue) those that starve and have a nominated task whose node has room.

    Without this, the job that comes first in the orders, such as a victim's new pod, takes the place, and the eviction
    has been for nothing. Jobs of the same queue with a higher priority come along, so that they are not passed over. In
    queue and job order.
    """
    if not len(cycle.session.snapshot.nodes):
        return []
    found: list[JobState] = []
    for jobs in waiting.values():
        chosen = [job for job in jobs if _has_place(cycle, job) and cycle.hooks.starving(job)]
        if chosen:
            highest = max(job.priority for job in chosen)
            found += [job for job in jobs if job in chosen or job.priority > highest]
    orders = cycle.orders
    return sorted(found, key=lambda job: (orders.queue_key(job.queue), orders.job_key(job)))


def _has_place(cycle: Cycle, job: JobState) -> bool:
    if job.shape:  # whose tasks are all alike, and none nominated
        return False
    return any(task.nominated_node and _room(cycle, task) for task in job.record.pending.values())


def _room(cycle: Cycle, task: Task) -> bool:
    nodes, rows = cycle.session.nodes, task.pod_class.rows
    column = nodes.table.index.get(task.nominated_node)
    if column is None:
        return False
    free = nodes.allocatable[rows, column] - nodes.used[rows, column]
    return bool((free + nodes.releasing[rows, column] - nodes.pipelined[rows, column] >= task.pod_class.amounts).all())
