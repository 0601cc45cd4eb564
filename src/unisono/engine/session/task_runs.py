"""Runs of equal tasks, which are placed together."""

from __future__ import annotations

from unisono.cluster.records import Task


def runs(tasks: list[Task]) -> list[list[Task]]:
    """Consecutive tasks of the same class and role; a task that is nominated for a node stands alone."""
    grouped: list[list[Task]] = []
    for task in tasks:
        if grouped:
            last = grouped[-1][-1]
            if (
                last.pod_class is task.pod_class
                and last.role == task.role
                and not task.nominated_node
                and not last.nominated_node
            ):
                grouped[-1].append(task)
                continue
        grouped.append([task])
    return grouped
