"""preempt: jobs take resources from jobs of lower rank in their own queue, and tasks from tasks of their own job."""

from __future__ import annotations

from unisono.cluster.records import Task
from unisono.engine.answers import Purpose
from unisono.engine.cycle import Cycle
from unisono.engine.eviction import Among, Rule, evictions_of
from unisono.engine.job_state import JobState
from unisono.engine.starving import place_starving, starving_jobs

BETWEEN_JOBS = Rule(Purpose.PREEMPT, Among.QUEUE, within_quota=True, scored=True)
WITHIN_JOB = Rule(Purpose.PREEMPT, Among.JOB, within_quota=True, scored=True)


def run(cycle: Cycle) -> None:
    """Queue by queue: first starving jobs at the cost of other jobs, then at the cost of their own lesser tasks.

    A job gets all the places that it needs, or takes nothing from others. Within a job each task counts for itself.
    """
    by_queue = starving_jobs(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        queue = queues.pop()
        jobs = cycle.orders.jobs(by_queue[queue.name])
        while len(jobs):
            job = jobs.pop()
            place_starving(cycle, evictions_of(cycle), job, _waiting(cycle, job), BETWEEN_JOBS)
        for job in by_queue[queue.name]:
            _within(cycle, job)


def _waiting(cycle: Cycle, job: JobState) -> list[Task]:
    """Tasks to place, those that request nothing last."""
    return cycle.pending(job, best_effort=False) + cycle.pending(job, best_effort=True)


def _within(cycle: Cycle, job: JobState) -> None:
    """Better tasks of a job take the places of worse ones until one finds none."""
    if len({task.priority for task in job.record.tasks.values()}) < 2:
        return
    for task in _waiting(cycle, job):
        if not cycle.hooks.starving(job):
            return
        if not place_starving(cycle, evictions_of(cycle), job, [task], WITHIN_JOB):
            return
