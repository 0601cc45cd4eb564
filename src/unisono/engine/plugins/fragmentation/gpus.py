"""The cards of all nodes and the usual pods: what each node's idle cards are worth to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from unisono.api.core import PodSpec
from unisono.api.keys import NVIDIA_GPU
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import COMPLETED_STATES
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.plugin import VirtualGpus
from unisono.engine.plugins.deviceshare.table import CORES, COUNT, MEMORY, WHOLE
from unisono.engine.plugins.deviceshare.uniform import AliyunGpuMemory, GpuMilli, QGpu
from unisono.engine.plugins.fragmentation.workload import (
    COVERAGE,
    NEVER,
    Floats,
    Index,
    Ints,
    Item,
    Measure,
    Target,
    Workload,
    first_of_equals,
    fragments,
    gain,
    gain_by_card,
    item_of,
    part_needs,
    points,
    target,
)
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

# How scarce GPUs of each kind are: how much of a node's GPUs is wanted by pods that cannot go everywhere.

_MOST = 1.5
"""A kind that is wanted more than it is there is not dearer without end."""


def prices(target: Target, cards: Ints) -> Floats:
    """``[N]`` 0 where any pod may go, about 1 where pods that need this kind of node would fill it.

    The demand of the target workload is scaled to all the GPUs that there are. Pods whose selectors allow some of the
    nodes with GPUs only spread their demand evenly over the GPUs of those.

    Args:
        target: what usual pods ask for, and where they may go.
        cards: ``[N]`` GPUs of each node.
    """
    has = cards > 0
    node_prices = np.zeros(len(cards))
    whole = int(target.demand.sum())
    if not whole or not has.any():
        return node_prices
    total = float(cards.sum())
    for demand, allowed, need in zip(target.demand.tolist(), target.allowed, target.work.need, strict=True):
        open_to = allowed & has
        reach = float(cards[open_to].sum())
        if demand and reach and not (allowed | ~has).all() and (need < NEVER).any():
            node_prices[open_to] += demand / whole * total / reach
    return np.asarray(np.minimum(node_prices, _MOST))


# Which pods are usual: those that are there, those seen so far, or those that the configuration lists.

Items = Counter[Item]

_MEMORY = 20_000
"""Pods after which the counts of those seen so far are halved, so that the mix follows what users do now."""
_GROWTH = 2
"""The mix is taken again when so many times as many pods have been seen."""


def present(session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
    """The unfinished pods of the cluster, waiting and running."""
    numbers: Counter[PodClass] = Counter(
        task.pod_class for task in session.snapshot.tasks.values() if task.status not in COMPLETED_STATES
    )
    return _items(numbers, resource, books)


def _items(numbers: Mapping[PodClass, int], resource: str, books: Sequence[FamilyBook]) -> Items:
    items: Items = Counter()
    for pod_class, number in numbers.items():
        items[item_of(pod_class, resource, books)] += number
    return items


class Seen:
    """What pods asked for that this scheduler has dealt with so far, kept from cycle to cycle.

    Pods that wait in a cycle for the first time count from the next cycle on, so that a decision depends on nothing
    but what came before it. The mix stays as it is until twice as many pods have been seen, so that scores stay as
    well. A scheduler that has just started begins with the pods that are there.
    """

    def __init__(self) -> None:
        self._counts: Items = Counter()
        self._known: set[tuple[str, str]] = set()
        self._next = 0
        self._total = 0
        self.mix: Items = Counter()

    def look(self, session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
        """The mix that holds for this session; takes note of its waiting pods."""
        first = not self._total
        if not first and self._total >= self._next:
            self._take()
        tasks = session.snapshot.tasks
        fresh: Counter[PodClass] = Counter()
        waiting = (task for job in session.active for task in job.record.pending.values())
        for task in tasks.values() if first else waiting:
            pod = (task.key, task.uid)
            if pod not in self._known and task.status not in COMPLETED_STATES:
                self._known.add(pod)
                fresh[task.pod_class] += 1
        self._counts.update(_items(fresh, resource, books))
        self._total += fresh.total()
        if first:
            self._take()
        self._forget(session)
        return self.mix

    def _take(self) -> None:
        self.mix = self._counts.copy()
        self._next = _GROWTH * self._total + 1
        if self._total > _MEMORY:
            self._counts = Counter({item: number // 2 for item, number in self._counts.items() if number > 1})
            self._total = self._counts.total()
            self._next = _GROWTH * self._total + 1

    def _forget(self, session: Session) -> None:
        tasks = session.snapshot.tasks
        if len(self._known) > 1000 + 2 * len(tasks):
            self._known &= {(task.key, task.uid) for task in tasks.values()}


class GivenUsual:
    """Pods that the configuration lists, each with a number and the spec of a pod.

    Raises:
        ValueError: an entry cannot be read; the message says which.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        self._entries: list[tuple[int, PodSpec]] = []
        for number, entry in enumerate(given):
            try:
                self._entries.append((int(entry["pods"]), msgspec.convert(entry["spec"], PodSpec)))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"entry {number} must have pods (a number) and spec (of a pod): {error}") from error

    def items(self, session: Session, resource: str, books: Sequence[FamilyBook]) -> Items:
        """Them as items."""
        items: Items = Counter()
        for at, (number, spec) in enumerate(self._entries):
            pod_class = PodClass(-1 - at, spec, session.registry)
            items[item_of(pod_class, resource, books)] += number
        return items


# The idle GPUs of a session, whole and shared, and how fragmented they are.

PUBLISHED = Measure()
"""As in the paper."""

Usual = Callable[[Session, str, list[FamilyBook]], Items]
"""``(session, name of whole GPUs, books of shared ones)`` -> which pods are usual."""


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """How much of a cluster's idle GPUs its usual pods cannot use, in cards.

    Attributes:
        gpus: cards in all.
        idle: idle parts of cards, summed.
        fragments: the part of ``idle`` that a pod of the target workload is expected not to be able to use.
        by_node: ``fragments`` by node name, nodes with GPUs only.
    """

    gpus: float
    idle: float
    fragments: float
    by_node: dict[str, float]

    @property
    def ratio(self) -> float:
        """Share of what is idle; 0 when nothing is."""
        return self.fragments / self.idle if self.idle else 0.0


class Gpus:
    """GPUs of all nodes as parts of cards, and what a placement does to their fragmentation.

    A node that shares its cards has those of its family; other nodes have whole ones, of which only the number counts.

    Attributes:
        whole: ``[N]`` nodes with whole GPUs.
        present: ``[N]`` nodes with any.
    """

    def __init__(
        self,
        session: Session,
        devices: DeviceBook,
        resource: str = NVIDIA_GPU,
        measure: Measure = PUBLISHED,
        scarcity: float = 0.0,
        usual: Usual = present,
    ) -> None:
        self.session = session
        self.resource = resource
        self.measure = measure
        self.scarcity = scarcity
        self._usual = usual
        self.books = [book for book in devices.every() if book.columns]
        self.row = session.registry.find(resource)
        shared = np.zeros(session.nodes.size, dtype=np.bool_)
        for book in self.books:
            shared |= book.row_of >= 0
        counts = session.nodes.allocatable[self.row] // 1000 if self.row is not None else np.zeros_like(shared)
        self.whole: BoolArray = ~shared & (counts > 0)
        self.present: BoolArray = shared | self.whole
        largest = int(counts[self.whole].max(initial=0))
        self.width = max([largest, *(book.table.memory.shape[1] for book in self.books)], default=0)

    @cached_property
    def target(self) -> Target:
        """The target workload as the cycle began."""
        items = self._usual(self.session, self.resource, self.books)
        return target(self.session, items, self.books, self.whole, self.measure)

    @property
    def work(self) -> Workload:
        """The target workload for the formulas."""
        return self.target.work

    @cached_property
    def price(self) -> Floats:
        """``[N]`` cards that a card of each node is dearer, because pods need its kind; see `prices`."""
        if not self.scarcity:
            return np.zeros(self.session.nodes.size)
        return self.scarcity * prices(self.target, self.cards)

    @cached_property
    def cards(self) -> Ints:
        """``[N]`` cards of each node."""
        cards = np.zeros(self.session.nodes.size, dtype=np.int64)
        if self.row is not None:
            cards += np.where(self.whole, self.session.nodes.allocatable[self.row] // 1000, 0)
        for book in self.books:
            cards[book.columns] += book.table.usable.sum(axis=1)
        return cards

    @cached_property
    def uniform(self) -> bool:
        """Whether nodes with the same amounts are the same: no shared cards, and no pods that ask for certain nodes."""
        if self.books:
            return False
        need = self.work.need[:, self.whole]
        return bool((need == need[:, :1]).all()) if need.size else True

    def asked(self, pod_class: PodClass) -> tuple[int, int]:
        """Cards that a pod of the class asks for, and thousandths of each, on the node where it needs most."""
        whole = -(-pod_class.requests.get(self.resource, 0) // 1000)
        book = self._book(pod_class)
        if book is None:
            return whole, 1000
        need = part_needs(book.parts(pod_class), book.table.memory.max(axis=1))
        return sum(part.count for part in book.parts(pod_class)), int(need.max())

    # ---- what is idle

    def free(self, view: NodeView, *, taken: int = 0) -> Ints:
        """``[M, C]`` idle part of each card, with ``taken`` more whole GPUs in use."""
        free = np.zeros((view.size, self.width), dtype=np.int64)
        if self.row is not None:
            idle = (view.allocatable[self.row] - view.used[self.row]) // 1000 - taken
            idle = np.where(self.whole[view.columns], idle, 0)
            free += 1000 * (np.arange(self.width) < idle[:, None])
        for book in self.books:
            rows = book.row_of[view.columns]
            held = rows >= 0
            if held.any():
                loads = book.table.loads(rows[held], future=view.future)
                free[held, : loads.shape[2]] = self._idle(book, rows[held], loads)
        return free

    @staticmethod
    def _idle(book: FamilyBook, rows: Index, loads: Ints) -> Ints:
        """``[M, C]`` idle part of shared cards: what is left of memory and of cores; nothing of closed cards."""
        table = book.table
        memory = table.memory[rows]
        left = np.minimum((memory - loads[MEMORY]) * 1000 // np.maximum(memory, 1), 1000 - 10 * loads[CORES])
        closed = ~table.usable[rows] | (loads[WHOLE] > 0) | (loads[COUNT] >= table.slots[rows])
        return np.asarray(np.where(closed, 0, np.maximum(left, 0)))

    # ---- scores

    def points(self, pod_class: PodClass, view: NodeView) -> Ints:
        """``[M]`` 0..100: above 50 where a pod of the class leaves less fragmented, 50 on nodes without GPUs."""
        cpu = view.allocatable[CPU] - view.used[CPU]
        after = cpu - pod_class.requests.get("cpu", 0)
        book = self._book(pod_class)
        if book is not None and (card_points := self._of_one_card(book, pod_class, view, cpu, after)) is not None:
            return card_points
        free = self.free(view)
        before = fragments(self.work, view.columns, cpu, free)
        whole = -(-pod_class.requests.get(self.resource, 0) // 1000)
        if book is None:
            idle = self.free(view, taken=whole) if whole else free
            less = gain(before, fragments(self.work, view.columns, after, idle), self.work.total)
            taken = np.full(view.size, 1000 * whole, dtype=np.int64)
        else:
            less = gain(before, self._after_sharing(book, pod_class, view, after, free), self.work.total)
            each = np.zeros(view.size, dtype=np.int64)
            rows = book.row_of[view.columns]
            held = rows >= 0
            each[held] = part_needs(book.parts(pod_class), book.table.memory[rows[held]].max(axis=1))
            taken = sum(part.count for part in book.parts(pod_class)) * each
        return self._points(less, view.columns, taken)

    def _points(self, less: Floats, columns: Index, taken: Ints) -> Ints:
        """``[M]`` or ``[M, C]`` points, less the price of ``taken`` (``[M]``)."""
        if self.scarcity:
            price = self.price[columns] * taken / 1000.0
            less = less - (price if less.ndim == 1 else price[:, None])
        return points(less)

    def _of_one_card(
        self, book: FamilyBook, pod_class: PodClass, view: NodeView, cpu: Ints, after: Ints
    ) -> Ints | None:
        """``[M]`` points where a pod takes a part of one card: those of the best one; None: it takes something else."""
        rows = book.row_of[view.columns]
        held = np.flatnonzero(rows >= 0)
        fit = book.fit(pod_class, rows[held], future=view.future)
        if fit is None or book.parts(pod_class)[0].count != 1:
            return None
        node_points = np.full(view.size, int(points(np.zeros(1))[0]), dtype=np.int64)
        some = np.flatnonzero(fit.any(axis=1))
        if not len(some):
            return node_points
        held, fit = held[some], fit[some]
        rows, columns = rows[held], view.columns[held]
        free = self._idle(book, rows, book.table.loads(rows, future=view.future))
        taken = part_needs(book.parts(pod_class), book.table.memory[rows].max(axis=1))
        which = first_of_equals(free, fit)
        less = gain_by_card(self.work, columns, (cpu[held], after[held]), free, taken, which)
        each = self._points(less, columns, taken)
        node_points[held] = np.where(which, each, -1).max(axis=1)
        return node_points

    def _book(self, pod_class: PodClass) -> FamilyBook | None:
        return next((book for book in self.books if book.parts(pod_class)), None)

    def _after_sharing(self, book: FamilyBook, pod_class: PodClass, view: NodeView, cpu: Ints, free: Ints) -> Ints:
        """``[M]`` fragments with the cards that the pod would take."""
        rows = book.row_of[view.columns]
        held = rows >= 0
        idle = free.copy()
        if held.any():
            plan = book.plan(pod_class, rows[held], future=view.future)
            idle[held, : plan.after.shape[2]] = self._idle(book, rows[held], plan.after)
        return fragments(self.work, view.columns, cpu, idle)

    def prefer(self, book: FamilyBook, pod_class: PodClass, rows: Index, placed: bool) -> Ints:
        """``[M, C]`` points of taking each single card, for the choice of cards; see `devices.book.Preference`."""
        columns = np.array(book.columns, dtype=np.intp)[rows]
        view = self.session.part(columns)
        cpu = view.allocatable[CPU] - view.used[CPU]
        request = pod_class.requests.get("cpu", 0)
        before_cpu, after_cpu = (cpu + request, cpu) if placed else (cpu, cpu - request)
        free = self.free(view)[:, : book.table.memory.shape[1]]
        taken = part_needs(book.parts(pod_class), book.table.memory[rows].max(axis=1))
        which = free >= taken[:, None]
        less = gain_by_card(self.work, columns, (before_cpu, after_cpu), free, taken, which)
        each = self._points(less, columns, taken)
        return np.asarray(np.where(which, each, -1))

    # ---- report

    def report(self) -> Fragmentation:
        """Fragmentation as it is now."""
        view = self.session.nodes
        free = self.free(view)
        cpu = view.allocatable[CPU] - view.used[CPU]
        each = fragments(self.work, view.columns, cpu, free) / max(self.work.total, 1) / 1000.0
        names = view.names
        cards = sum(int(book.table.usable.sum()) for book in self.books)
        if self.row is not None:
            cards += int((view.allocatable[self.row] // 1000)[self.whole].sum())
        return Fragmentation(
            gpus=float(cards),
            idle=float(free.sum()) / 1000.0,
            fragments=float(each.sum()),
            by_node={names[column]: float(each[column]) for column in np.flatnonzero(self.present).tolist()},
        )


def measure(snapshot: Snapshot, *, resource: str = NVIDIA_GPU, coverage: float = COVERAGE) -> Fragmentation:
    """Fragmentation of a cluster as it is, shared cards of every kind included.

    Args:
        snapshot: the cluster.
        resource: name of whole GPUs.
        coverage: the target workload is the most frequent pods that make up this share of all.
    """
    session = Session(snapshot, now=0.0)
    devices = DeviceBook(session)
    for family in (VirtualGpus(), AliyunGpuMemory(), QGpu(), GpuMilli()):
        devices.use(family)
    return Gpus(session, devices, resource, Measure(coverage)).report()
