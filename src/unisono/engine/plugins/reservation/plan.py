"""Which nodes are kept for a waiting gang, and from when on it could start there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

import numpy as np
import numpy.typing as npt

from unisono.cluster.node_pods import NodePods
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Matrix, fitted
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.open_nodes import open_nodes
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.session.amounts import tasks_fitting
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

NEVER = float("inf")
_STARTING = (TaskStatus.ALLOCATED, TaskStatus.BINDING)
Columns = npt.NDArray[np.intp]


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

    def leaves(self, pod_class: PodClass, columns: Columns, used: Matrix) -> BoolArray:
        """``[M]`` where a pod that runs on beyond ``start`` leaves enough, ``used`` being used or promised."""
        rows = pod_class.rows
        added = used[rows] - self.used[np.ix_(rows, columns)]
        left = self.base[np.ix_(rows, columns)] - added - pod_class.amounts[:, None]
        enough = (left >= self.kept[np.ix_(rows, columns)]).all(axis=0)
        return np.asarray(enough | ~self.nodes[columns], dtype=np.bool_)


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
    endings = Endings.of(sorted(_endings(session, estimates), key=_END), idle.shape)
    at, start, kept = _earliest(idle, endings, needs, masks)
    if kept is not None:
        base = endings.free(idle, at)
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


Ending = tuple[float, int, PodClass]
"""When, on which node, a pod of which class ends."""
_END = itemgetter(0)
_KEY = attrgetter("key")
_ENDS = "reservation.ends"


@dataclass(frozen=True, slots=True)
class Endings:
    """Pods that end, in order of time.

    Attributes:
        times: ``E`` times, seconds since the epoch.
        where: ``[E, R]`` which entries of a flattened ``[R, N]`` matrix each of them frees.
        what: ``[E, R]`` how much it frees there.

    """

    times: Sequence[float]
    where: Columns
    what: Matrix

    @classmethod
    def of(cls, endings: Sequence[Ending], shape: tuple[int, ...]) -> Endings:
        """From endings in order; ``shape`` is that of the matrices, ``(R, N)``."""
        rows, size = shape
        classes = list({pod_class.id: pod_class for _, _, pod_class in endings}.values())
        number = {pod_class.id: at for at, pod_class in enumerate(classes)}
        vectors = np.zeros((len(classes), rows), dtype=np.int64)
        for at, pod_class in enumerate(classes):
            vectors[at] = fitted(pod_class.vector, rows)
        columns = np.array([column for _, column, _ in endings], dtype=np.intp)
        where = columns[:, None] + np.arange(rows, dtype=np.intp) * size
        what = vectors[[number[pod_class.id] for _, _, pod_class in endings]]
        return cls([end for end, _, _ in endings], where, what)

    def free(self, idle: Matrix, number: int) -> Matrix:
        """``[R, N]`` what is free when the first ``number`` of them have ended, and ``idle`` was free before."""
        free = idle.copy()
        np.add.at(free.reshape(-1), self.where[:number].reshape(-1), self.what[:number].reshape(-1))
        return free


def _endings(session: Session, estimates: RunEstimates) -> Iterator[Ending]:
    """Pods of which it is known how long they run."""
    index, now = session.snapshot.nodes.index, session.now
    for name, held in session.snapshot.tasks_on.items():
        column = index.get(name)
        if column is not None:
            for end, pod_class in _ends_on(held, estimates):
                yield end if end > now else now, column, pod_class
    started = [job for job in session.opened().values() if job.places]
    for job in sorted(started, key=_KEY):
        for key, (status, column) in job.places.items():
            task = job.record.tasks[key]
            seconds = estimates.seconds(task) if status in _STARTING else 0.0
            if seconds:
                yield session.now + seconds, column, task.pod_class


def _ends_on(held: Mapping[str, Task], estimates: RunEstimates) -> list[tuple[float, PodClass]]:
    """When pods of a node end, which may have been foreseen for a moment that is over.

    Where it follows from what is stated, it is kept from cycle to cycle.
    """
    known = held.derived.get(_ENDS) if isinstance(held, NodePods) and not estimates.learned else None
    if known is None:
        tasks = [task for task in held.values() if task.status is not TaskStatus.RELEASING]
        ends = estimates.end if estimates.learned else estimates.stated_end
        known = [(end, task.pod_class) for task in tasks if (end := ends(task))]
        if isinstance(held, NodePods) and not estimates.learned:
            held.derived[_ENDS] = known
    return known


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
    idle: Matrix, endings: Endings, needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray]
) -> tuple[int, float, Matrix | None]:
    """How many of ``endings`` must have passed, when that is, and what is taken then; None when all are too few."""
    low, high = 0, len(endings.times)
    if not _is_room(endings.free(idle, high), needs, masks):
        return high, NEVER, None
    while low < high:
        middle = (low + high) // 2
        if _is_room(endings.free(idle, middle), needs, masks):
            high = middle
        else:
            low = middle + 1
    start = endings.times[low - 1] if low else 0.0
    return low, start, _dealt(endings.free(idle, low), needs, masks)


def _is_room(free: Matrix, needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray]) -> bool:
    """Whether `_dealt` finds room for all tasks; those of one class only have to be counted."""
    if len(needs) > 1:
        return _dealt(free, needs, masks) is not None
    return all(
        int(np.minimum(tasks_fitting(free, one)[masks[one.id]], wanted).sum()) >= wanted for one, wanted in needs
    )


def _dealt(
    free: Matrix, needs: Sequence[tuple[PodClass, int]], masks: dict[int, BoolArray], by: Matrix | None = None
) -> Matrix | None:
    """``[R, N]`` what the tasks take of ``free``, on the roomiest nodes first (by ``by``, if given); None: no room."""
    taken = np.zeros_like(free)
    for pod_class, wanted in needs:
        left = wanted
        room = np.where(masks[pod_class.id], tasks_fitting(free - taken, pod_class), 0)
        ranked = room if by is None else np.where(room > 0, tasks_fitting(np.maximum(by - taken, 0), pod_class), -1)
        for column in np.lexsort((-room, -ranked)).tolist():
            here = min(int(room[column]), left)
            if here > 0:
                taken[: len(pod_class.vector), column] += here * pod_class.vector
                left -= here
            if not left:
                break
        if left:
            return None
    return taken
