"""``dependsOn``: which tasks may start, and which never will. Linear in the pods, the tasks and what they depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from unisono.controllers.job.observed import Tally, TaskPod
from unisono.controllers.job.view import JobView, TaskView


def ready_tasks(view: JobView, pods: Iterable[TaskPod]) -> frozenset[str]:
    """Names of tasks of which enough pods run with every container ready, or succeeded."""
    ready = Counter(pod.task for pod in pods if not pod.deleting and not pod.marked and pod.ready)
    return frozenset(task.name for task in view.tasks if ready[task.name] >= task.min_available)


def may_start(task: TaskView, ready: Collection[str]) -> bool:
    """Whether the tasks on which ``task`` depends are among ``ready``: all of them, or any where it says so."""
    if not task.depends_on:
        return True
    found = (name in ready for name in task.depends_on)
    return any(found) if task.any_dependency else all(found)


def present_tasks(view: JobView, pods: Iterable[TaskPod], expected: frozenset[str] = frozenset()) -> list[TaskView]:
    """Tasks whose pods may exist: they wait for no other task, or have pods. The gang is made of these.

    Args:
        view: the job.
        pods: its pods.
        expected: names of pods that were made and are not among ``pods`` yet.

    """
    if not any(task.depends_on for task in view.tasks):
        return view.tasks
    made, ready = {pod.task for pod in pods}, ready_tasks(view, pods)
    return [
        task
        for task in view.tasks
        if task.name in made
        or may_start(task, ready)
        or any(task.pod_name(index) in expected for index in range(task.replicas if expected else 0))
    ]


def unreachable(view: JobView, counts: Tally) -> list[TaskView]:
    """Tasks without any pod whose dependencies have failed for good, directly or through others."""
    left: dict[str, int] = {}
    waiting: dict[str, list[TaskView]] = {}
    for task in view.tasks:
        names = set(task.depends_on)
        # So many of its dependencies must be lost before the task is.
        left[task.name] = len(names) if task.any_dependency else 1
        for name in names if task.name not in counts.tasks else ():
            waiting.setdefault(name, []).append(task)
    lost = [name for name in waiting if _is_lost(view.task(name), counts)]
    blocked: set[str] = set()
    while lost:
        for task in waiting.get(lost.pop(), ()):
            left[task.name] -= 1
            if left[task.name] == 0:
                blocked.add(task.name)
                if not _is_lost(task, counts):
                    lost.append(task.name)
    return [task for task in view.tasks if task.name in blocked]


def _is_lost(task: TaskView | None, counts: Tally) -> bool:
    return task is None or task.replicas - counts.of(task.name, "Failed") < task.min_available
