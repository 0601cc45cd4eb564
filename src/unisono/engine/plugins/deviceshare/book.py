"""Who holds which card in a session: read from the snapshot when first asked for, then moved with every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unisono.api import keys
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import ON_NODE_STATES, TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.deviceshare.model import Family, Holds, NodeCards, Order, Part
from unisono.engine.plugins.deviceshare.table import CardTable, Exclusive, Index, Ints, Numbers, Plan
from unisono.engine.session.session import Session

Preference = Callable[["FamilyBook", PodClass, Index, bool], Ints | None]
"""``(book, class, rows, placed) -> [M, C]`` points per card, highest first, or None; ``placed``: its CPU is taken."""

_SHARED = frozenset(("hami-core", "mps"))
"""Modes of a node in which cards are shared by memory and cores; instances of partitioned cards are apart anyway."""


@dataclass(slots=True)
class _Layout:
    """What follows from the node objects alone, kept from cycle to cycle."""

    layout: int
    generation: int
    row_of: Index
    columns: list[int]
    table: CardTable


class FamilyBook:
    """Cards and their holders for one family of resource names.

    Attributes:
        row_of: ``[N]`` row of a node in the table, -1 for nodes without such cards.
        columns: node of each row.
        table: the cards; changes with every move.
        holds: by pod key, row and shares of pods that hold cards.
        order: in which cards are tried.
        preference: replaces the order for demands of a single card.
    """

    def __init__(self, family: Family, session: Session, order: Order) -> None:
        self.family = family
        self.order = order
        self.preference: Preference | None = None
        kept = _layout(family, session)
        self.row_of, self.columns = kept.row_of, kept.columns
        self.table = kept.table.fresh()
        self.holds: dict[str, tuple[int, Holds]] = {}
        self.groups: dict[str, Counter[tuple[int, int]]] = {}
        self.exclusive = Exclusive(getattr(family, "rules", ()))
        self._session = session
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._allowed: dict[int, BoolArray | None] = {}
        self._could: dict[int, BoolArray] = {}
        self._touched = session.touched
        self._moves = 0
        self._last: tuple[object, Plan] | None = None
        self._last_fit: tuple[object, BoolArray] | None = None
        self._load(session)

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """What the class asks for."""
        class_parts = self._parts.get(pod_class.id)
        if class_parts is None:
            class_parts = self._parts[pod_class.id] = self.family.parts(pod_class)
        return class_parts

    # ---- filling

    def _load(self, session: Session) -> None:
        tasks_on, names = session.snapshot.tasks_on, session.snapshot.nodes.names
        unknown: list[tuple[int, Task]] = []
        for row, column in enumerate(self.columns):
            for task in tasks_on.get(names[column], {}).values():
                if not self.parts(task.pod_class) or task.status not in ON_NODE_STATES:
                    continue
                held = self.family.held(task, self.table.nodes[row])
                if held is None:
                    unknown.append((row, task))
                else:
                    self._take_up(task, row, held)
        # pods that were bound without naming cards: where they most likely are
        for row, task in sorted(unknown, key=lambda pair: pair[1].key):
            rules = self.exclusive.of_pod(task)
            plan = self._plan(task.pod_class, np.array([row], dtype=np.intp), rules, future=False, placed=True)
            if plan.ok[0]:
                self._take_up(task, row, plan.holds(0, self.parts(task.pod_class)))

    def _take_up(self, task: Task, row: int, holds: Holds) -> None:
        self._hold(task, row, holds, 1)
        if task.status is TaskStatus.RELEASING:
            self.table.releasing.add(row, holds, 1)

    def _hold(self, task: Task, row: int, holds: Holds, sign: int, *, pipelined: bool = False) -> None:
        self._moves += 1
        load = self.table.pipelined if pipelined else self.table.used
        load.add(row, holds, sign)
        if sign > 0:
            self.holds[task.key] = (row, holds)
        else:
            del self.holds[task.key]
        places = [(row, hold.card) for part in holds for hold in part]
        self.exclusive.hold(task, places, sign)
        if task.job:
            cards = self.groups.setdefault(task.job, Counter())
            for place in places:
                cards[place] += sign

    # ---- asking

    def allowed(self, pod_class: PodClass) -> BoolArray | None:
        """``[n, C]`` cards that the pod's annotations permit; None: all."""
        if pod_class.id not in self._allowed:
            self._allowed[pod_class.id] = self._find_allowed(pod_class)
        return self._allowed[pod_class.id]

    def _find_allowed(self, pod_class: PodClass) -> BoolArray | None:
        if not pod_class.notes:
            return None
        mask = np.ones_like(self.table.usable)
        for row, node in enumerate(self.table.nodes):
            answer = self.family.allows(pod_class, node)
            if answer is not None:
                mask[row, : len(answer)] = answer
        return mask

    def could(self, pod_class: PodClass) -> BoolArray:
        """``[n]`` whether idle cards of the node would do."""
        feasible = self._could.get(pod_class.id)
        if feasible is None:
            rows = np.arange(len(self.columns), dtype=np.intp)
            feasible = self.table.could(rows, self.parts(pod_class), self.order, self.allowed(pod_class))
            self._could[pod_class.id] = feasible
        return feasible

    def plan(self, pod_class: PodClass, rows: Index, *, future: bool) -> Plan:
        """The cards that a pod of the class would get on each of ``rows``; filter and score ask the same in turn."""
        rules = self.exclusive.of_class(self._session.subject, pod_class)
        key = (pod_class.id, rules, future, len(self._touched), self._moves, rows.tobytes())
        if self._last is None or self._last[0] != key:
            self._last = (key, self._plan(pod_class, rows, rules, future=future, placed=False))
        return self._last[1]

    def fit(self, pod_class: PodClass, rows: Index, *, future: bool) -> BoolArray | None:
        """``[M, C]`` cards that may be one of those that a pod takes; None where that depends on its other parts.

        As `plan` says it, for less: no card is chosen.
        """
        parts = self.parts(pod_class)
        if len(parts) != 1 or self.table.partitioned:
            return None
        rules = self.exclusive.of_class(self._session.subject, pod_class)
        key = (pod_class.id, rules, future, len(self._touched), self._moves, rows.tobytes())
        if self._last_fit is None or self._last_fit[0] != key:
            usable = self.table.fit(rows, parts[0], self._mask(pod_class, rows, rules), future=future)
            self._last_fit = (key, usable)
        return self._last_fit[1]

    def takes(self, pod_class: PodClass, rows: Index, *, future: bool) -> BoolArray:
        """``[M]`` whether the demand fits."""
        fit = self.fit(pod_class, rows, future=future)
        if fit is None:
            return self.plan(pod_class, rows, future=future).ok
        return np.asarray(np.count_nonzero(fit, axis=1) >= self.parts(pod_class)[0].count)

    def _plan(self, pod_class: PodClass, rows: Index, rules: Numbers, *, future: bool, placed: bool) -> Plan:
        parts = self.parts(pod_class)
        mask = self._mask(pod_class, rows, rules)
        single = self.preference is not None and len(parts) == 1 and parts[0].count == 1
        preferred = self.preference(self, pod_class, rows, placed) if single and self.preference else None
        return self.table.plan(rows, parts, self.order, mask, preferred, future=future)

    def _mask(self, pod_class: PodClass, rows: Index, rules: Numbers) -> BoolArray | None:
        """``[M, C]`` cards that other pods and the pod's annotations leave open; None: all."""
        allowed = self.allowed(pod_class)
        mask = None if allowed is None else allowed[rows]
        group = _apart_from(pod_class)
        closed = {card for card, number in self.groups.get(group, {}).items() if number > 0} if group else set()
        shared = (place for place in self.exclusive.taken(rules) if self.table.nodes[place[0]].mode in _SHARED)
        closed.update(shared)
        if closed:
            mask = np.ones((len(rows), self.table.memory.shape[1]), dtype=np.bool_) if mask is None else mask.copy()
            where = {row: at for at, row in enumerate(rows.tolist())}
            for row, card in closed:
                if row in where:
                    mask[where[row], card] = False
        return mask

    # ---- moves

    def place(self, task: Task, column: int, *, pipelined: bool) -> None:
        """A task takes cards of a node; where they do not fit (no filter asked before) it takes none."""
        row = int(self.row_of[column])
        if row < 0:
            return
        where, rules = np.array([row], dtype=np.intp), self.exclusive.of_pod(task)
        plan = self._plan(task.pod_class, where, rules, future=pipelined, placed=not pipelined)
        if plan.ok[0]:
            self._hold(task, row, plan.holds(0, self.parts(task.pod_class)), 1, pipelined=pipelined)

    def take_back(self, task: Task, *, pipelined: bool) -> None:
        """A placed task gives its cards back."""
        held = self.holds.get(task.key)
        if held is not None:
            self._hold(task, *held, -1, pipelined=pipelined)

    def release(self, task: Task, sign: int) -> None:
        """A task that holds cards is evicted (1), or its eviction is taken back (-1)."""
        held = self.holds.get(task.key)
        if held is not None:
            self._moves += 1
            self.table.releasing.add(*held, sign)

    def annotations(self, task: Task, node: str, now: float) -> Mapping[str, str]:
        """What the pod is told about its cards."""
        held = self.holds.get(task.key)
        if held is None:
            return {}
        row, holds = held
        return self.family.annotations(task, node, self.table.nodes[row], holds, now)


class DeviceBook:
    """The books of all families of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.preference: Preference | None = None
        self._families: list[tuple[Family, Order]] = []
        self._books: dict[str, FamilyBook] = {}
        self._asked: dict[int, tuple[str, ...]] = {}

    @classmethod
    def of(cls, session: Session) -> DeviceBook:
        """The session's book, made when first asked for."""
        return session.shared.of(cls, lambda: cls(session))

    def use(self, family: Family, order: Order | None = None) -> None:
        """Keep books for a family; ``order`` replaces its own order of cards."""
        self._families.append((family, order or family.order))
        self._asked.clear()

    def prefer(self, preference: Preference) -> None:
        """Choose single cards by ``preference`` instead of an order."""
        self.preference = preference

    def families(self, pod_class: PodClass) -> tuple[str, ...]:
        """Names of the families that pods of the class ask for."""
        names = self._asked.get(pod_class.id)
        if names is None:
            names = tuple(family.name for family, _ in self._families if family.parts(pod_class))
            self._asked[pod_class.id] = names
        return names

    def books(self, pod_class: PodClass) -> Iterator[FamilyBook]:
        """The books that concern a class."""
        return (self.book(name) for name in self.families(pod_class))

    def every(self) -> Iterator[FamilyBook]:
        """The books of all families in use."""
        return (self.book(family.name) for family, _ in self._families)

    def book(self, name: str) -> FamilyBook:
        """One family's book; read from the snapshot when first asked for."""
        family_book = self._books.get(name)
        if family_book is None:
            family, order = next(pair for pair in self._families if pair[0].name == name)
            family_book = self._books[name] = FamilyBook(family, self.session, order)
            family_book.preference = self.preference
        return family_book

    def moved(self, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus) -> None:
        """See `Plugin.moved`."""
        if not self.families(tasks[0].pod_class):
            return
        for book in self.books(tasks[0].pod_class):
            for task, column in zip(tasks, nodes, strict=True):
                if after is TaskStatus.RELEASING:
                    book.release(task, 1)
                elif before is TaskStatus.RELEASING:
                    book.release(task, -1)
                elif after is TaskStatus.PENDING:
                    book.take_back(task, pipelined=before is TaskStatus.PIPELINED)
                elif before is TaskStatus.PENDING:
                    book.place(task, column, pipelined=after is TaskStatus.PIPELINED)


def _apart_from(pod_class: PodClass) -> str:
    """The PodGroup whose pods must not share a card, ``""`` without such a wish."""
    notes = pod_class.notes
    return notes.get(keys.GROUP_NAME, "") if notes.get(keys.VGPU_GROUP_POLICY) == "spread" else ""


class _Layouts(dict[tuple[Hashable, ...], _Layout]):
    """Layouts by family and what it knows of the cluster."""


def is_offered(family: Family, session: Session) -> bool:
    """Whether any node has cards of a family."""
    nodes = session.snapshot.nodes
    row = nodes.registry.find(family.offered)
    return row is not None and bool(nodes.allocatable[row].any()) and bool(_layout(family, session).columns)


def _layout(family: Family, session: Session) -> _Layout:
    nodes = session.snapshot.nodes
    key = (family.name, getattr(family, "known", ()))
    layouts = session.snapshot.memo.of(_Layouts, _Layouts)
    kept = layouts.get(key)
    if (
        kept is not None
        and (kept.layout, kept.generation) == (nodes.layout, nodes.generation)
        and len(kept.row_of) == len(nodes)
    ):
        return kept
    fresh = layouts[key] = _read(family, nodes)
    return fresh


def _read(family: Family, nodes: NodeTable) -> _Layout:
    row_of = np.full(len(nodes), -1, dtype=np.intp)
    cards: list[NodeCards] = []
    columns: list[int] = []
    for column, facts in enumerate(nodes.facts):
        of_node = family.cards(facts)
        if of_node is not None:
            row_of[column] = len(cards)
            cards.append(of_node)
            columns.append(column)
    return _Layout(nodes.layout, nodes.generation, row_of, columns, CardTable(cards))
