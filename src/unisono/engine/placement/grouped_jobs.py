"""Serving one job with topology or sub-groups, and what is remembered when no domain works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.cluster.status import TaskStatus
from unisono.engine.placement.domain_advice import Advice, advise
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.placement.task_loop import note_failure

if TYPE_CHECKING:
    from unisono.engine.cycle.context import Cycle
    from unisono.engine.session.job_state import JobState


class AdviceByJob(dict[str, Advice]):
    """Jobs that no allowed domain took although the cluster could, by key."""


def advice_of(cycle: Cycle) -> AdviceByJob:
    """See `AdviceByJob`."""
    return cycle.session.shared.of(AdviceByJob, AdviceByJob)


def place_grouped(cycle: Cycle, job: JobState, remaining: RemainingByGroup) -> bool:
    """Place tasks of the job until it is ready, within the domains that its topology allows; commit when it is.

    Tasks that are not placed stay in ``remaining``. A job that would be ready with resources being released keeps its
    places for the session; otherwise all is undone.

    Returns:
        whether the job was committed, so that it may be served again.

    """
    cycle.session.subject = job
    start = cycle.transaction.checkpoint()
    solver = Solver(cycle, job, remaining)
    left = solver.solve()
    if left is None:
        _remember(cycle, job, solver)
        remaining.by_group.clear()
        return False
    remaining.by_group = left.by_group
    if not cycle.hooks.ready(job) or not solver.starts_whole(start):
        cycle.transaction.keep(start)
        return False
    cycle.commit(start, job)
    if not left and solver.stuck is not None and job.status(solver.stuck[0]) is TaskStatus.PENDING:
        note_failure(cycle, job, solver.stuck[0], cycle.fits.errors(solver.stuck[0].pod_class))
    return True


def _remember(cycle: Cycle, job: JobState, solver: Solver) -> None:
    """Note the failure: reasons of the nodes, and of the domains."""
    tasks = [task for key in solver.groups for task in solver.given.tasks(key)]
    report = cycle.report(job)
    if tasks:
        stuck = solver.stuck[0] if solver.stuck is not None else tasks[0]
        note_failure(cycle, job, stuck, cycle.fits.errors(stuck.pod_class))
    if report.quota is not None:
        return
    advice = advise(solver, max(cycle.hooks.missing(job), 1))
    if advice is not None:
        advice_of(cycle)[job.key] = advice
