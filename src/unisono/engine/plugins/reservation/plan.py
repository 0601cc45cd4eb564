"""When which room comes free, and which nodes a gang that waits is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_, itemgetter

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import NodePods, Task
from unisono.cluster.resources import Matrix, Vector, fitted
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.plugins.calendar import CalendarPlugin
from unisono.engine.plugins.common.node_selectors import open_nodes
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session

# When pods end, and what is free then.
#
# The pods of the nodes are kept in the order in which they end from cycle to cycle: only those of nodes that have
# changed are put in again. Pods that end at one moment come in the order of `Snapshot.tasks_on`, and of the pods there.

Columns = npt.NDArray[np.intp]
Ending = tuple[float, int, PodClass]
"""When, on which node, a pod of which class ends."""
_Ends = list[tuple[float, PodClass]]
_END = itemgetter(0)
_KEY = attrgetter("key")
_ENDS = "reservation.ends"
_STARTING = (TaskStatus.ALLOCATED, TaskStatus.BINDING)
_FEWEST_CLASSES = 256
"""Classes that are remembered although none of them may be there any more."""


@dataclass(frozen=True, slots=True)
class Freed:
    """What pods free that end one after the other.

    Attributes:
        where: ``[E x K]`` which entries of a flattened ``[K, N]`` matrix each of them frees.
        what: ``[E x K]`` how much it frees there.
        rows: ``K``, resources that are looked at.
    """

    where: Columns
    what: npt.NDArray[np.int64]
    rows: int

    def after(self, free: Matrix, first: int, last: int) -> Matrix:
        """``[K, N]`` what is free when those from ``first`` to before ``last`` have ended, and ``free`` was before."""
        available, part = free.copy(), slice(first * self.rows, last * self.rows)
        np.add.at(available.reshape(-1), self.where[part], self.what[part])
        return available


@dataclass(frozen=True, slots=True)
class Endings:
    """Pods that end, in order of time.

    Attributes:
        times: ``[E]`` seconds since the epoch.
        columns: ``[E]`` on which node.
        classes: ``[E]`` number of the pod's class.
        vectors: ``[C, R]`` what a pod of each class frees.
    """

    times: FloatArray
    columns: Columns
    classes: Columns
    vectors: Matrix

    @classmethod
    def of(cls, endings: Sequence[Ending], rows: int) -> Endings:
        """From endings in order; ``rows``: how many the matrices have."""
        classes = list({pod_class.id: pod_class for _, _, pod_class in endings}.values())
        number = {pod_class.id: at for at, pod_class in enumerate(classes)}
        return cls(
            np.array([end for end, _, _ in endings], dtype=np.float64),
            np.array([column for _, column, _ in endings], dtype=np.intp),
            np.array([number[pod_class.id] for _, _, pod_class in endings], dtype=np.intp),
            _vectors(classes, rows),
        )

    def freed(self, rows: Columns, size: int) -> Freed:
        """What they free of these resources on ``size`` nodes."""
        where = self.columns[:, None] + np.arange(len(rows), dtype=np.intp) * size
        return Freed(where.reshape(-1), self.vectors[:, rows][self.classes].reshape(-1), len(rows))

    def free(self, idle: Matrix, number: int) -> Matrix:
        """``[R, N]`` what is free when the first ``number`` of them have ended, and ``idle`` was free before."""
        first = Endings(self.times, self.columns[:number], self.classes[:number], self.vectors)
        return first.freed(np.arange(len(idle), dtype=np.intp), idle.shape[1]).after(idle, 0, number)

    def with_more(self, endings: Sequence[Ending]) -> Endings:
        """With others, which come after those of the same moment."""
        if not endings:
            return self
        added = Endings.of(sorted(endings, key=_END), self.vectors.shape[1])
        at = np.searchsorted(self.times, added.times, side="right")
        return Endings(
            np.insert(self.times, at, added.times),
            np.insert(self.columns, at, added.columns),
            np.insert(self.classes, at, added.classes + len(self.vectors)),
            np.concatenate((self.vectors, added.vectors)),
        )


def _vectors(classes: Sequence[PodClass], rows: int) -> Matrix:
    vectors = np.zeros((len(classes), rows), dtype=np.int64)
    for at, pod_class in enumerate(classes):
        vectors[at] = fitted(pod_class.vector, rows)
    return vectors


def endings_of(session: Session, estimates: RunEstimates) -> Endings:
    """Pods of which it is known when they end: those on nodes, and those that this session starts."""
    if estimates.learned:
        running = found_in_full(session, estimates)
    else:
        running = session.snapshot.memo.of(KnownEnds, KnownEnds).at(session, estimates)
    return running.with_more(list(_starting(session, estimates)))


def found_in_full(session: Session, estimates: RunEstimates) -> Endings:
    """Those on nodes, each of which is looked at."""
    return Endings.of(sorted(_running(session, estimates), key=_END), session.rows)


def _running(session: Session, estimates: RunEstimates) -> Iterator[Ending]:
    index, now = session.snapshot.nodes.index, session.now
    for name, held in session.snapshot.tasks_on.items():
        column = index.get(name)
        if column is not None:
            for end, pod_class in _ends_on(held, estimates):
                yield end if end > now else now, column, pod_class


def _starting(session: Session, estimates: RunEstimates) -> Iterator[Ending]:
    started = [job for job in session.opened().values() if job.places]
    for job in sorted(started, key=_KEY):
        for key, (status, column) in job.places.items():
            task = job.record.tasks[key]
            seconds = estimates.seconds(task) if status in _STARTING else 0.0
            if seconds:
                yield session.now + seconds, column, task.pod_class


def _ends_on(held: Mapping[str, Task], estimates: RunEstimates) -> _Ends:
    """When pods of a node end, which may have been foreseen for a moment that is over.

    Where it follows from what is stated, it is kept from cycle to cycle.
    """
    place = f"{_ENDS}.{estimates.stamp}"
    pod_ends: _Ends | None = held.derived.get(place) if isinstance(held, NodePods) and not estimates.learned else None
    if pod_ends is None:
        tasks = [task for task in held.values() if task.status is not TaskStatus.RELEASING]
        ends = estimates.end if estimates.learned else estimates.stated_end
        pod_ends = [(end, task.pod_class) for task in tasks if (end := ends(task))]
        if isinstance(held, NodePods) and not estimates.learned:
            held.derived[place] = pod_ends
    return pod_ends


class KnownEnds:
    """The pods of all nodes in the order in which they end by what is stated; lives in the state's memo.

    Nodes have serial numbers in the order in which their first pods came, which is that of `Snapshot.tasks_on`.
    """

    def __init__(self) -> None:
        self._layout = -1
        self._most_classes = _FEWEST_CLASSES
        self._clear()

    def _clear(self) -> None:
        self._serial = 0
        self._nodes: dict[str, tuple[Mapping[str, Task], _Ends, int]] = {}
        self._classes: list[PodClass] = []
        self._numbers: dict[int, int] = {}
        self._stacked: list[npt.NDArray[np.int64]] = []
        self._vectors: Matrix = np.zeros((0, 0), dtype=np.int64)
        self._ends: FloatArray = np.zeros(0, dtype=np.float64)
        self._facts: npt.NDArray[np.int64] = np.zeros((4, 0), dtype=np.int64)  # serial, place there, column, class

    def at(self, session: Session, estimates: RunEstimates) -> Endings:
        """As they are in a session; what should have ended before ends now."""
        self._follow(session, estimates)
        ends, facts = self._ends, self._facts
        over = int(np.searchsorted(ends, session.now, side="right"))
        if over:
            order = np.lexsort((facts[1, :over], facts[0, :over]))
            ends, facts = ends.copy(), facts.copy()
            ends[:over], facts[:, :over] = session.now, facts[:, :over][:, order]
        return Endings(ends, facts[2], facts[3], self._vectors_of(session.rows))

    def _vectors_of(self, rows: int) -> Matrix:
        vectors = [pod_class.vector for pod_class in self._classes]
        if self._vectors.shape != (len(vectors), rows) or not all(map(is_, vectors, self._stacked)):
            self._stacked, self._vectors = vectors, _vectors(self._classes, rows)
        return self._vectors

    def _follow(self, session: Session, estimates: RunEstimates) -> None:
        """Put in again the pods of nodes that have changed."""
        table, tasks_on, nodes = session.snapshot.nodes, session.snapshot.tasks_on, self._nodes
        if table.layout != self._layout or len(self._classes) > self._most_classes:
            self._layout = table.layout
            self._clear()
            nodes = self._nodes
        gone: list[int] = []
        fresh: list[tuple[float, int, int, int, int]] = []
        outside = last = 0
        for name, held in tasks_on.items():
            before, ends = nodes.get(name), _ends_on(held, estimates)
            column = table.index.get(name)
            if column is None:
                outside += 1
                continue
            if before is not None and before[0] is held:
                serial = before[2]
            else:
                serial = self._serial = self._serial + 1
            if serial < last:  # another order than before, as where it is tried what a change would do
                self._clear()
                self._follow(session, estimates)
                return
            last = serial
            if before is not None:
                if before[1] is ends and before[0] is held:
                    continue
                gone.append(before[2])
            nodes[name] = held, ends, serial
            fresh += [(end, serial, at, column, self._number(of)) for at, (end, of) in enumerate(ends)]
        if len(nodes) > len(tasks_on) - outside:
            gone += [nodes.pop(name)[2] for name in [name for name in nodes if name not in tasks_on]]
        if gone or fresh:
            self._replace(gone, fresh)
        self._most_classes = max(self._most_classes, 2 * len(self._classes) if not self._stacked else 0)

    def _number(self, pod_class: PodClass) -> int:
        number = self._numbers.get(pod_class.id)
        if number is None:
            number = self._numbers[pod_class.id] = len(self._classes)
            self._classes.append(pod_class)
        return number

    def _replace(self, gone: Sequence[int], fresh: Sequence[tuple[float, int, int, int, int]]) -> None:
        """Take out the pods of nodes and put in others, which come node by node in the order of their places there."""
        ends, facts = self._ends, self._facts
        if gone:
            serials = facts[0]
            left = serials != gone[0] if len(gone) == 1 else ~np.isin(serials, gone)
            ends, facts = ends[left], facts[:, left]
        if fresh:
            ends = np.concatenate((ends, [each[0] for each in fresh]))
            facts = np.concatenate((facts, np.array([each[1:] for each in fresh], dtype=np.int64).T), axis=1)
            order = np.argsort(ends, kind="stable")
            ends, serials = ends[order], facts[0, order]
            if ((ends[1:] == ends[:-1]) & (serials[1:] < serials[:-1])).any():
                order = order[np.lexsort((serials, ends))]  # which leaves ends as they are
            facts = facts[:, order]
        self._ends, self._facts = ends, facts


# Which nodes are kept for a waiting gang, and from when on it could start there.

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
    calendar = session.shared.find(CalendarPlugin)
    if calendar is not None:
        masks = {one.id: masks[one.id] & ~calendar.closed(job.record, one) for one, _ in needs}
    idle = np.maximum(nodes.allocatable - nodes.used + nodes.releasing - nodes.pipelined, 0) - taken
    earliest = _earliest(idle, lambda: endings_of(session, estimates), needs, masks)
    if earliest is not None:
        start, base = earliest
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
        (one, number), *_ = needs
        return _earliest_of_one(idle, endings, one, number, masks[one.id])
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
    for pod_class, number in needs:
        left = number
        room = np.where(masks[pod_class.id], tasks_fitting(free - taken, pod_class), 0)
        if by is None:
            order = np.argsort(-room, kind="stable")
        else:
            ranked = np.where(room > 0, tasks_fitting(np.maximum(by - taken, 0), pod_class), -1)
            order = np.lexsort((-room, -ranked))
        for column in order[:number].tolist():
            here = min(int(room[column]), left)
            if here > 0:
                taken[: len(pod_class.vector), column] += here * pod_class.vector
                left -= here
            if not left:
                break
        if left:
            return None
    return taken
