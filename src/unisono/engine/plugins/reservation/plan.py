"""Which nodes are kept for a waiting gang, and from when on it could start there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Matrix, Vector, fitted
from unisono.cluster.status import ON_NODE_STATES
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.open_nodes import open_nodes
from unisono.engine.plugins.reservation.endings import Endings, endings_of
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.session.amounts import tasks_fitting
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is kept for one gang.

    Attributes:
        job: the gang.
        start: when it can start there, seconds since the epoch, ``inf`` where it is unknown how long the pods run that
            are in its way.
        nodes: ``[N]`` where something is kept.
        kept: ``[R, N]`` what is kept there.
        base: ``[R, N]`` what is free there at ``start`` (at present, where that is not known).
        used: ``[R, N]`` what was used or promised when the plan was made.

    """

    job: JobState
    start: float
    nodes: BoolArray
    kept: Matrix
    base: Matrix
    used: Matrix

    def leaves(self, pod_class: PodClass, nodes: NodeView) -> BoolArray:
        """``[M]`` on which of ``nodes`` a pod that runs on beyond ``start`` leaves enough."""
        rows = pod_class.rows
        used, base, kept, where = self.used[rows], self.base[rows], self.kept[rows], self.nodes
        if nodes.columns is not nodes.table.columns:
            columns = nodes.columns
            used, base, kept, where = used[:, columns], base[:, columns], kept[:, columns], where[columns]
        added = nodes.used[rows] + nodes.pipelined[rows] - used
        left = base - added - pod_class.amounts[:, None]
        return np.asarray((left >= kept).all(axis=0) | ~where, dtype=np.bool_)


def plan_for(
    session: Session, job: JobState, tasks: Sequence[Task], others: Sequence[Plan], estimates: RunEstimates
) -> Plan | None:
    """The earliest start for ``tasks``, and the nodes for it; None when even empty nodes would not hold them.

    Pods end when ``estimates`` say so. Where that is not enough, those nodes are kept on which most of the
    tasks find room already: as no other job gets what is freed there, their room only grows.
    """
    needs = _by_class(tasks)
    nodes = session.nodes
    taken = sum((plan.kept for plan in others), np.zeros_like(nodes.used))
    masks = {pod_class.id: open_nodes(pod_class, nodes) for pod_class, _ in needs}
    idle = np.maximum(nodes.allocatable - nodes.used + nodes.releasing - nodes.pipelined, 0) - taken
    found = _earliest(idle, lambda: endings_of(session, estimates), needs, masks)
    if found is not None:
        start, base = found
        kept = _dealt(base, needs, masks)
        if kept is not None:
            return _plan(session, job, max(start, session.now), kept, base)
    empty = nodes.allocatable - _staying(session) - taken
    kept = _dealt(empty, needs, masks, by=idle)
    return None if kept is None else _plan(session, job, NEVER, kept, idle)


def _plan(session: Session, job: JobState, start: float, kept: Matrix, base: Matrix) -> Plan:
    where = np.asarray(kept.any(axis=0), dtype=np.bool_)
    return Plan(job, start, where, kept, base, session.nodes.used + session.nodes.pipelined)


def _by_class(tasks: Sequence[Task]) -> list[tuple[PodClass, int]]:
    numbers: dict[int, int] = {}
    classes: dict[int, PodClass] = {}
    for task in tasks:
        classes[task.pod_class.id] = task.pod_class
        numbers[task.pod_class.id] = numbers.get(task.pod_class.id, 0) + 1
    return [(classes[number], numbers[number]) for number in sorted(classes)]


def _staying(session: Session) -> Matrix:
    """``[R, N]`` what pods of others hold, who end when they like."""
    staying = np.zeros_like(session.nodes.used)
    index = session.snapshot.nodes.index
    for name, held in session.snapshot.tasks_on.items():
        column = index.get(name)
        for task in held.values() if column is not None else ():
            if (not task.owned or not task.job) and task.status in ON_NODE_STATES:
                staying[:, column] += fitted(task.pod_class.vector, len(staying))
    return staying


def _earliest(
    idle: Matrix, endings: Callable[[], Endings], needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray]
) -> tuple[float, Matrix] | None:
    """When there is room for all tasks, and what is free then; None when all ``endings`` are too few."""
    if len(needs) == 1:
        (one, wanted), *_ = needs
        return _earliest_of_one(idle, endings, one, wanted, masks[one.id])
    return _earliest_of_any(idle, endings, needs, masks)


def _earliest_of_any(
    idle: Matrix, endings: Callable[[], Endings], needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray]
) -> tuple[float, Matrix] | None:
    """As `_earliest` for tasks of several classes, which take room from each other."""
    pods = endings()
    low, high = 0, len(pods.times)
    if _dealt(pods.free(idle, high), needs, masks) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if _dealt(pods.free(idle, middle), needs, masks) is not None:
            high = middle
        else:
            low = middle + 1
    return (float(pods.times[low - 1]) if low else 0.0), pods.free(idle, low)


def _earliest_of_one(
    idle: Matrix, endings: Callable[[], Endings], one: PodClass, wanted: int, mask: BoolArray
) -> tuple[float, Matrix] | None:
    """The same for tasks of one class: each pod that ends only makes more room, and mostly a few are enough."""
    rows, amounts, everywhere = one.rows, one.amounts[:, None], bool(mask.all())

    def is_room(free: Matrix) -> bool:
        if wanted == 1:
            fits = np.asarray((free >= amounts).all(axis=0))
            return bool(fits.any() if everywhere else (fits & mask).any())
        each: Vector = np.asarray((np.maximum(free, 0) // amounts).min(axis=0))
        return int(np.minimum(each if everywhere else each[mask], wanted).sum()) >= wanted

    free = idle[rows]
    if is_room(free):
        return 0.0, idle
    pods = endings()
    most, freed = len(pods.times), pods.freed(rows, idle.shape[1])
    low, high = 0, min(1, most)  # after ``low`` of them there is no room
    while low < most and not is_room(later := freed.after(free, low, high)):
        low, high, free = high, min(2 * high, most), later
    if low == most:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        between = freed.after(free, low, middle)
        if is_room(between):
            high = middle
        else:
            low, free = middle, between
    return float(pods.times[high - 1]), pods.free(idle, high)


def _dealt(
    free: Matrix, needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray], by: Matrix | None = None
) -> Matrix | None:
    """``[R, N]`` what the tasks take of ``free``, on the roomiest nodes first (by ``by``, if given); None: no room."""
    taken = np.zeros_like(free)
    for pod_class, wanted in needs:
        left = wanted
        room = np.where(masks[pod_class.id], tasks_fitting(free - taken, pod_class), 0)
        if by is None:
            order = np.argsort(-room, kind="stable")
        else:
            ranked = np.where(room > 0, tasks_fitting(np.maximum(by - taken, 0), pod_class), -1)
            order = np.lexsort((-room, -ranked))
        for column in order[:wanted].tolist():
            here = min(int(room[column]), left)
            if here > 0:
                taken[: len(pod_class.vector), column] += here * pod_class.vector
                left -= here
            if not left:
                break
        if left:
            return None
    return taken
