"""Another order for the tasks of a gang that did not fit in the first one: those that found no node come first.

Small pods that are placed first may take the only node that has room for a large one, or the only one that it may use.
Within a gang, order means nothing, so the kind of pod that was stuck is placed before all others, and the gang is tried
again. The number of such trials is bounded, and a gang that fails again keeps what the first trial said of it.
"""

from __future__ import annotations

from collections.abc import Callable

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.placement.remaining_tasks import RemainingTasks

_TRIALS = 4
"""Orders that are tried beside the first one."""


def retry(
    tasks: RemainingTasks, stuck: Task | None, trial: Callable[[RemainingTasks], tuple[bool, Task | None]]
) -> RemainingTasks | None:
    """Try again with other orders.

    Args:
        tasks: what the first trial began with.
        stuck: the task for which it found no node after it had placed others; None: no other order can help.
        trial: places tasks; answers whether the gang can start, and if not, which task was stuck as above. It takes
            back what it has placed in vain.

    Returns:
        the tasks that are left when a trial was successful, else None.

    """
    if stuck is None or stuck.pod_class is tasks.rest()[0].pod_class:
        return None
    waiting, tried = tasks.left(), set[tuple[PodClass, ...]]()
    front: tuple[PodClass, ...] = ()
    for _ in range(_TRIALS):
        if stuck is None:
            return None
        front = _with(front, stuck.pod_class)
        if front in tried:
            return None
        tried.add(front)
        place = {pod_class: number for number, pod_class in enumerate(front)}
        order = RemainingTasks(sorted(waiting, key=lambda task: place.get(task.pod_class, len(place))))
        started, stuck = trial(order)
        if started:
            return order
    return None


def _with(front: tuple[PodClass, ...], stuck: PodClass) -> tuple[PodClass, ...]:
    """The kinds that come first: behind those that were stuck before, or, where that did not help, before them."""
    if stuck not in front:
        return (*front, stuck)
    return (stuck, *(other for other in front if other is not stuck))
