"""``dependsOn``: which tasks may start, and which never will."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.controllers.job.observed import Tally, TaskPod
from unisono.controllers.job.view import JobView, TaskView


def may_start(view: JobView, task: TaskView, pods: Iterable[TaskPod]) -> bool:
    """Whether the tasks on which ``task`` depends are ready: all of them, or any where it says so."""
    if not task.depends_on:
        return True
    ready = [_ready(view.task(name), pods) for name in task.depends_on]
    return any(ready) if task.any_dependency else all(ready)


def unreachable(view: JobView, counts: Tally) -> list[TaskView]:
    """Tasks without any pod whose dependencies have failed for good, directly or through others."""
    blocked: dict[str, TaskView] = {}
    while True:
        found = [
            task
            for task in view.tasks
            if task.name not in blocked and task.name not in counts.tasks and _hopeless(view, task, counts, blocked)
        ]
        if not found:
            return list(blocked.values())
        blocked |= {task.name: task for task in found}


def _ready(task: TaskView | None, pods: Iterable[TaskPod]) -> bool:
    """Enough pods run with every container ready, or succeeded."""
    if task is None:
        return False
    ready = sum(1 for pod in pods if pod.task == task.name and not pod.deleting and not pod.marked and pod.ready)
    return ready >= task.min_available


def _hopeless(view: JobView, task: TaskView, counts: Tally, blocked: dict[str, TaskView]) -> bool:
    if not task.depends_on:
        return False
    lost = [_lost(view.task(name), counts, blocked) for name in task.depends_on]
    return all(lost) if task.any_dependency else any(lost)


def _lost(task: TaskView | None, counts: Tally, blocked: dict[str, TaskView]) -> bool:
    if task is None or task.name in blocked:
        return True
    return task.replicas - counts.of(task.name, "Failed") < task.min_available
