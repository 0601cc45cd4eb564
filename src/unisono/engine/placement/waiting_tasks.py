"""Placing the waiting tasks of one job, whatever way it is to be placed in."""

from __future__ import annotations

from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.grouped_jobs import place_grouped
from unisono.engine.placement.plain_jobs import place_job
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.placement.sub_group_solver import RemainingByGroup
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import is_grouped

Remaining = RemainingTasks | RemainingByGroup


def remaining_of(cycle: Cycle, job: JobState) -> Remaining:
    """What is left to place of a job: its waiting tasks, by group where the network's topology counts.

    Tasks that request nothing come last. They are left to backfill where the gang does not need them to start and no
    domain binds them.
    """
    tasks = cycle.pending(job, best_effort=False)
    grouped = is_grouped(job, cycle.session.snapshot.hyper_nodes)
    if job.pending_best_effort and (grouped or not cycle.hooks.ready(job)):
        tasks += cycle.pending(job, best_effort=True)
    if grouped:
        return RemainingByGroup.of(cycle, job, tasks)
    return RemainingTasks(tasks)


def place(cycle: Cycle, job: JobState, remaining: Remaining) -> bool:
    """Place what can be placed, all that the gang needs or nothing; whether anything was committed."""
    if isinstance(remaining, RemainingByGroup):
        return place_grouped(cycle, job, remaining)
    return place_job(cycle, job, remaining)
