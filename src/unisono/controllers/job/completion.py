"""When a job moves on by itself: rules over the counts of its pods."""

from __future__ import annotations

from unisono.controllers.job import phases
from unisono.controllers.job.dependencies import unreachable
from unisono.controllers.job.observed import Tally
from unisono.controllers.job.view import JobView, TaskView

Outcome = tuple[str, str]


def pending_rule(view: JobView, counts: Tally) -> Outcome:
    """Running as soon as the gang is there: running, or through already. Failed if it never will be."""
    arrived = counts.running + counts.succeeded + counts.failed
    if view.total and view.min_available <= arrived:
        return phases.RUNNING, ""
    blocked = unreachable(view, counts)
    if blocked and not counts.alive:
        return phases.FAILED, _blocked(blocked)
    return phases.PENDING, ""


def running_rule(view: JobView, counts: Tally) -> Outcome:
    """Completed, Failed, or back to Pending when too few pods are left."""
    total = view.total
    if total == 0:
        return phases.RUNNING, ""
    wanted = view.spec.min_success
    if wanted is not None and counts.succeeded >= wanted:
        return phases.COMPLETED, f"{counts.succeeded} pods succeeded; minSuccess is {wanted}"
    blocked = unreachable(view, counts)
    never = sum(task.replicas for task in blocked)
    if counts.succeeded + counts.failed >= total - never and not counts.terminating:
        if blocked:
            return phases.FAILED, _blocked(blocked)
        return _verdict(view, counts)
    if counts.pending > total - view.min_available:
        return phases.PENDING, f"{counts.pending} of {total} pods are pending; {view.min_available} must run"
    return phases.RUNNING, ""


def restarting_rule(view: JobView, counts: Tally, retry_count: int, unfinished_kills: int) -> Outcome:
    """Failed when no retry is left; Pending again once enough of the old pods are gone."""
    if retry_count >= view.max_retry:
        return phases.FAILED, f"restarted {retry_count} times; maxRetry is {view.max_retry}"
    if not unfinished_kills and view.total - counts.terminating >= view.min_available:
        return phases.PENDING, ""
    return phases.RESTARTING, ""


def _blocked(tasks: list[TaskView]) -> str:
    names = ", ".join(task.name for task in tasks)
    return f"task {names} can never start: a task that it depends on failed"


def _verdict(view: JobView, counts: Tally) -> Outcome:
    """All pods have ended: was it a success."""
    if view.min_available >= view.total_min_available:
        for task in view.tasks:
            done = counts.of(task.name, "Succeeded")
            if done < task.min_available:
                need = task.min_available
                return phases.FAILED, f"{done} pods of task {task.name} succeeded; {need} are needed"
    wanted = view.spec.min_success
    if wanted is not None:
        return phases.FAILED, f"{counts.succeeded} pods succeeded; minSuccess is {wanted}"
    if counts.succeeded >= view.min_available:
        return phases.COMPLETED, f"{counts.succeeded} of {view.total} pods succeeded"
    need = view.min_available
    return phases.FAILED, f"{counts.succeeded} of {view.total} pods succeeded; {need} are needed"
