"""Equal tasks: in runs, which are placed together, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted

_POD_CLASS = attrgetter("pod_class")


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


def by_class(tasks: Iterable[Task]) -> Counter[PodClass]:
    """How many of the tasks are of each class, classes in the order in which they come first."""
    return Counter(map(_POD_CLASS, tasks))


def requested(tasks: Iterable[Task], rows: int) -> Vector:
    """``[rows]`` what the tasks request together."""
    total: Vector = np.zeros(rows, dtype=np.int64)
    for pod_class, number in by_class(tasks).items():
        total += fitted(pod_class.vector, rows) * np.int64(number)
    return total
