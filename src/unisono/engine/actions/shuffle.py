"""shuffle: evicts running pods that a plug-in wants to leave their nodes, and failed ones that it wants to be gone."""

from __future__ import annotations

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.search import evictions_of


def run(cycle: Cycle) -> None:
    """Ask about all running and failed tasks that may be evicted; nothing is placed, and gangs are not looked at."""
    if not cycle.hooks.has("shuffled"):
        return
    evictions = evictions_of(cycle)
    index = evictions.index
    movable = index.running & index.alive & evictions.pool.unprotected(Purpose.SHUFFLE)
    running = [index.tasks[at] for at in np.flatnonzero(movable).tolist()]
    failed = _failed(cycle)
    chosen = cycle.hooks.shuffled([*running, *failed]).tolist()
    mark = cycle.transaction.checkpoint()
    for task, leaves in zip(running, chosen[: len(running)], strict=True):
        if leaves and evictions.allowed(task) and evictions.may_lose(evictions.job_of(task), None):
            evictions.evict(task, int(index.column[index.at(task)]), Purpose.SHUFFLE.value)
    cycle.commit(mark, None)
    for task, leaves in zip(failed, chosen[len(running) :], strict=True):
        job = cycle.session.job(task.job)
        if leaves and job is not None and cycle.hooks.allowance(job.queue) > 0:
            cycle.session.removed_failed[job.queue.name] += 1
            cycle.failed.append(task)


def _failed(cycle: Cycle) -> list[Task]:
    """Failed pods of known jobs that are not being deleted and that nothing protects, in order of their keys."""
    jobs = (key for key, job in cycle.session.snapshot.jobs.items() if job.counts[TaskStatus.FAILED])
    failed = [
        task
        for key in sorted(jobs)
        if (job := cycle.session.job(key)) is not None
        for task in job.record.tasks.values()
        if task.failure is not None and task.owned and task.preemptable
    ]
    if not failed or not cycle.hooks.has("protected"):
        return sorted(failed, key=lambda task: task.key)
    free = ~cycle.hooks.protected(failed, Purpose.SHUFFLE)
    return sorted((task for task, yes in zip(failed, free.tolist(), strict=True) if yes), key=lambda task: task.key)
