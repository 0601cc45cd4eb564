"""Serving one job with topology or sub-groups, and what is remembered when no domain works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.engine.topology.solve import GroupSheet, Solver

if TYPE_CHECKING:
    from unisono.cluster.records import Task
    from unisono.engine.cycle import Cycle
    from unisono.engine.job_state import JobState

_SHARED = "engine.topology.failures"


@dataclass(slots=True)
class Failure:
    """No domain took the job.

    Attributes:
        tasks: pending tasks at that moment.
        missing: how many of them must be placed.
        sheet: the same tasks by sub-group.

    """

    tasks: list[Task]
    missing: int
    sheet: GroupSheet


def failures_of(cycle: Cycle) -> dict[str, Failure]:
    """Jobs that no domain took, by key."""
    found: dict[str, Failure] = cycle.session.shared.setdefault(_SHARED, {})
    return found


def place_grouped(cycle: Cycle, job: JobState, sheet: GroupSheet) -> bool:
    """Place tasks of the job until it is ready, within the domains that its topology allows; commit when it is.

    What is left stays in ``sheet``. A job that would be ready with resources being released keeps its places for the
    session; otherwise all is undone.

    Returns:
        whether the job was committed, so that it may be served again.

    """
    cycle.session.subject = job
    start = cycle.transaction.checkpoint()
    solver = Solver(cycle, job, sheet)
    left = solver.solve()
    if left is None:
        _remember(cycle, job, solver)
        sheet.sheets.clear()
        return False
    sheet.sheets = left.sheets
    if not cycle.hooks.ready(job):
        return False
    cycle.commit(start, job)
    failures_of(cycle).pop(job.key, None)
    return True


def _remember(cycle: Cycle, job: JobState, solver: Solver) -> None:
    """Note the failure, with the reasons of the nodes where the search came to its end."""
    tasks = [task for key in solver.groups for task in solver.given.tasks(key)]
    failures_of(cycle)[job.key] = Failure(tasks, max(cycle.hooks.missing(job), 1), solver.given.copy())
    report = cycle.report(job)
    if report.fit is None:
        stuck = solver.stuck[0] if solver.stuck is not None else tasks[0]
        report.task, report.fit = stuck, cycle.fits.errors(stuck.pod_class)
