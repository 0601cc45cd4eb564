"""The cards of all nodes as arrays, and the choice of cards for a demand on many nodes at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.plugins.deviceshare.model import FULL_CORES, Hold, Holds, NodeCards, Order, Part, Slot, place
from unisono.engine.session.job_state import JobState

# Pods that keep off each other's cards: rules over labels, each of which lets one of its pods use a card.

Rules = tuple[frozenset[tuple[str, str]], ...]
"""Per rule the labels that a pod must have, all of them, to be one of its pods."""
Numbers = frozenset[int]
"""Rules by their position in the configuration."""

NONE: Numbers = frozenset()


def read_rules(given: Iterable[object]) -> Rules:
    """Rules as the configuration lists them: maps of labels.

    Raises:
        ValueError: an entry is no map of texts, or is empty (it would keep all pods apart); the message says which.
    """
    rules = []
    for number, entry in enumerate(given):
        if not isinstance(entry, Mapping) or not entry:
            raise ValueError(f"entry {number} must be a map with at least one label, such as {{team: a}}")
        if not all(isinstance(key, str) and isinstance(value, str) for key, value in entry.items()):
            raise ValueError(f"entry {number}: labels and their values must be texts; put quotes around numbers")
        rules.append(frozenset(entry.items()))
    return tuple(rules)


class Exclusive:
    """Which cards pods of each rule use, for one family in one session."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cards: dict[int, Counter[tuple[int, int]]] = {}

    def of_pod(self, task: Task) -> Numbers:
        """The rules that a pod falls under."""
        if not self._rules:
            return NONE
        labels = task.labels.items()
        return frozenset(number for number, rule in enumerate(self._rules) if rule <= labels)

    def of_class(self, job: JobState | None, pod_class: PodClass) -> Numbers:
        """The rules that any waiting pod of a class in a job falls under; pods of one role have the same labels."""
        if not self._rules or job is None:
            return NONE
        rules: set[int] = set()
        for task in job.record.pending.values():
            if task.pod_class is pod_class and job.status(task) is TaskStatus.PENDING:
                rules |= self.of_pod(task)
        return frozenset(rules)

    def hold(self, task: Task, cards: Iterable[tuple[int, int]], sign: int) -> None:
        """A pod takes cards (row and number), or gives them back."""
        rules = self.of_pod(task)
        for card in cards if rules else ():
            for number in rules:
                self._cards.setdefault(number, Counter())[card] += sign

    def taken(self, rules: Numbers) -> set[tuple[int, int]]:
        """Cards that pods of any of ``rules`` use."""
        return {card for number in rules for card, users in self._cards.get(number, {}).items() if users > 0}


Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]

MEMORY, CORES, COUNT, WHOLE = range(4)
"""Rows of a load array: memory, cores, pods, pods that want the card for themselves."""
_LAST = np.iinfo(np.int64).max


@dataclass(slots=True)
class Load:
    """What some pods hold: ``amounts`` is ``[4, n, C]``; ``slots`` counts instances of partitioned cards.

    ``moved``: something has ever been added.
    """

    amounts: Ints
    moved: bool = False
    slots: Counter[tuple[int, int, Slot]] = field(default_factory=Counter)

    def add(self, row: int, holds: Holds, sign: int) -> None:
        """Add a pod's shares of the cards of a row, or take them away."""
        self.moved = True
        for hold in (hold for part in holds for hold in part):
            self.amounts[:, row, hold.card] += (sign * hold.memory, sign * hold.cores, sign, sign * hold.whole)
            if hold.slot is not None:
                self.slots[row, hold.card, hold.slot] += sign


@dataclass(slots=True)
class Plan:
    """An answer for ``M`` nodes.

    Attributes:
        ok: ``[M]`` the demand fits.
        chosen: per part ``[M, count]`` card indices; without meaning where ``ok`` is False.
        needs: per part ``[M, count]`` memory taken of each.
        before, after: ``[4, M, C]`` loads of the cards without and with the demand.
        packed: ``[M]`` percent of memory in use, summed over the taken cards, with the demand on them.
        alone: ``[M]`` how many of the taken cards no pod used before.
        slots: by position among the ``M``: per part the instances taken, where cards are partitioned.
    """

    ok: BoolArray
    chosen: list[Index]
    needs: list[Ints]
    before: Ints
    after: Ints
    packed: FloatArray
    alone: Ints
    slots: dict[int, list[list[Slot]]] = field(default_factory=dict)

    def holds(self, at: int, parts: Sequence[Part]) -> Holds:
        """The choice for node number ``at``."""
        slots = self.slots.get(at)
        part_holds = []
        for number, part in enumerate(parts):
            pairs = zip(self.chosen[number][at].tolist(), self.needs[number][at].tolist(), strict=True)
            places: Iterable[Slot | None] = slots[number] if slots else [None] * part.count
            part_holds.append(
                tuple(
                    Hold(card, memory, part.cores, part.whole, slot)
                    for (card, memory), slot in zip(pairs, places, strict=True)
                )
            )
        return tuple(part_holds)


class CardTable:
    """Cards of the nodes that have some of one family.

    Attributes:
        nodes: cards of each row.
        memory, slots: ``[n, C]``; 0 where there is no such card.
        usable: ``[n, C]`` there is such a card, and it is healthy.
        used, releasing, pipelined: what pods hold; ``used`` contains what is being released.
    """

    def __init__(self, nodes: Sequence[NodeCards]) -> None:
        self.nodes = list(nodes)
        shape = (len(self.nodes), max((len(node.cards) for node in nodes), default=0))
        self.memory: Ints = np.zeros(shape, dtype=np.int64)
        self.slots: Ints = np.zeros(shape, dtype=np.int64)
        self.usable: BoolArray = np.zeros(shape, dtype=np.bool_)
        for row, node in enumerate(nodes):
            for column, card in enumerate(node.cards):
                self.memory[row, column] = card.memory
                self.slots[row, column] = card.slots
                self.usable[row, column] = card.usable
        self.partitioned = frozenset(row for row, node in enumerate(nodes) if node.geometries)
        self._clear()

    def _clear(self) -> None:
        self.used, self.releasing, self.pipelined = (
            Load(np.zeros((4, *self.memory.shape), dtype=np.int64)) for _ in range(3)
        )

    def fresh(self) -> CardTable:
        """The same cards, all idle; shares what never changes."""
        copy = CardTable.__new__(CardTable)
        copy.nodes, copy.memory, copy.slots, copy.usable = self.nodes, self.memory, self.slots, self.usable
        copy.partitioned = self.partitioned
        copy._clear()
        return copy

    def loads(self, rows: Index, *, future: bool) -> Ints:
        """``[4, M, C]`` what counts as taken on some rows.

        For a task that waits for releases, those count as done; for one that starts now, what is promised to others
        beyond what is being released is taken too.
        """
        used = self.used.amounts[:, rows]
        if not self.pipelined.moved and not self.releasing.moved:
            return used
        promised = self.pipelined.amounts[:, rows] - self.releasing.amounts[:, rows]
        return used + promised if future else used + np.maximum(promised, 0)

    def taken(self, row: int, card: int, *, future: bool) -> set[Slot]:
        """Instances of a partitioned card that count as taken; ``future`` as in `loads`."""
        occupied: set[Slot] = set()
        for at, number in (*self.used.slots.items(), *self.pipelined.slots.items()):
            if at[:2] == (row, card) and number > 0 and (not future or self.releasing.slots[at] < number):
                occupied.add(at[2])
        return occupied

    # ---- choice

    def fit(self, rows: Index, part: Part, allowed: BoolArray | None = None, *, future: bool) -> BoolArray:
        """``[M, C]`` cards that a part may take, of cards that are not partitioned; arguments as for `plan`."""
        memory = self.memory[rows]
        need = memory * part.percent // 100 if part.percent else np.full_like(memory, part.memory)
        permitted = self.usable[rows] if allowed is None else self.usable[rows] & allowed
        return permitted & fits(part, need, memory, self.slots[rows], self.loads(rows, future=future))

    def plan(
        self,
        rows: Index,
        parts: Sequence[Part],
        order: Order,
        allowed: BoolArray | None = None,
        preferred: Ints | None = None,
        *,
        future: bool,
    ) -> Plan:
        """Choose cards on each of ``rows``, part by part, each part seeing what the earlier ones took.

        Args:
            rows: ``[M]`` rows of this table.
            parts: the demand.
            order: of cards.
            allowed: ``[M, C]`` cards that the pod may use at all; None: all.
            preferred: ``[M, C]`` highest first, instead of ``order``.
            future: count resources that are being released.
        """
        before = self.loads(rows, future=future)
        memory, slots = self.memory[rows], self.slots[rows]
        permitted = self.usable[rows] if allowed is None else self.usable[rows] & allowed
        zeros = np.zeros(len(rows))
        plan = Plan(np.ones(len(rows), dtype=np.bool_), [], [], before, before.copy(), zeros, zeros.astype(np.int64))
        across = np.arange(len(rows))[:, None]
        for part in parts:
            need = memory * part.percent // 100 if part.percent else np.full_like(memory, part.memory)
            fit = permitted & fits(part, need, memory, slots, plan.after)
            plan.ok &= fit.sum(axis=1) >= part.count
            keys = _keys(order, memory, plan.after) if preferred is None else -preferred
            cards = _first(fit, keys, part.count)
            took = np.take_along_axis(need, cards, axis=1)
            plan.alone += (plan.after[COUNT, across, cards] <= 0).sum(axis=1)
            _take(plan.after, across, cards, part, took)
            plan.packed += _percent(plan.after[MEMORY, across, cards], memory[across, cards])
            plan.chosen.append(cards)
            plan.needs.append(took)
        for at in [at for at, row in enumerate(rows.tolist()) if row in self.partitioned]:
            self._cut(plan, at, int(rows[at]), parts, order, permitted[at], future=future)
        return plan

    def _cut(
        self, plan: Plan, at: int, row: int, parts: Sequence[Part], order: Order, permitted: BoolArray, *, future: bool
    ) -> None:
        """Choose again for one node whose cards are partitioned: each request takes a whole instance."""
        load = plan.before[:, at].copy()
        memory, slots = self.memory[row], self.slots[row]
        geometries = self.nodes[row].geometries
        taken = [self.taken(row, card, future=future) for card in range(len(geometries))]
        instances: list[list[Slot]] = []
        plan.ok[at], plan.packed[at], plan.alone[at] = True, 0.0, 0
        for number, part in enumerate(parts):
            need = memory * part.percent // 100 if part.percent else np.full_like(memory, part.memory)
            fit = permitted & (load[COUNT] < slots)
            keys = np.where(fit, _keys(order, memory[None], load[:, None])[0], _LAST)
            places: list[Slot] = []
            for card in np.argsort(keys, kind="stable")[: int(fit.sum())].tolist():
                geometry = geometries[card]
                instance = place(geometry, taken[card], int(need[card])) if geometry is not None else None
                if instance is None or len(places) == part.count:
                    continue
                plan.chosen[number][at, len(places)], plan.needs[number][at, len(places)] = card, instance[1]
                places.append(instance[0])
                taken[card].add(instance[0])
                plan.alone[at] += load[COUNT, card] <= 0
                load[:, card] += (instance[1], part.cores, 1, int(part.whole))
                plan.packed[at] += 100.0 * load[MEMORY, card] / max(int(memory[card]), 1)
            instances.append(places)
            if len(places) < part.count:
                plan.ok[at] = False
                break
        plan.after[:, at] = load
        if plan.ok[at]:
            plan.slots[at] = instances

    def could(self, rows: Index, parts: Sequence[Part], order: Order, allowed: BoolArray | None = None) -> BoolArray:
        """``[M]`` whether the demand would fit if all cards were free."""
        return self.fresh().plan(rows, parts, order, allowed, future=True).ok


def fits(part: Part, need: Ints, memory: Ints, slots: Ints, load: Ints) -> BoolArray:
    """``[M, C]`` cards that one part may take: memory, cores, number of pods, and who wants a card alone."""
    fit = (memory - load[MEMORY] >= need) & (load[COUNT] < slots) & (load[WHOLE] <= 0)
    fit &= load[CORES] + part.cores <= FULL_CORES
    if part.whole or part.cores == FULL_CORES:
        fit &= load[COUNT] <= 0
    elif part.cores == 0:
        fit &= load[CORES] < FULL_CORES
    return np.asarray(fit)


def _take(load: Ints, across: Index, cards: Index, part: Part, memory: Ints) -> None:
    load[MEMORY, across, cards] += memory
    load[CORES, across, cards] += part.cores
    load[COUNT, across, cards] += 1
    load[WHOLE, across, cards] += int(part.whole)


def _percent(used: Ints, total: Ints) -> FloatArray:
    return np.asarray((100.0 * used / np.maximum(total, 1)).sum(axis=1))


def _keys(order: Order, memory: Ints, load: Ints) -> Ints:
    """``[M, C]`` lower is tried first; equal keys go by index."""
    if order is Order.BEST_FIT:
        return np.asarray(memory - load[MEMORY])
    if order is Order.BINPACK:
        return np.asarray(-load[MEMORY])
    if order is Order.SPREAD:
        return np.asarray(load[COUNT])
    index = np.broadcast_to(np.arange(memory.shape[1], dtype=np.int64), memory.shape)
    return np.asarray(-index if order is Order.LAST else index)


def _first(fit: BoolArray, keys: Ints, count: int) -> Index:
    """``[M, count]`` indices of the first cards that fit; of any cards where too few do."""
    masked = np.where(fit, keys, _LAST)
    count = min(count, masked.shape[1])
    if count == 1:
        return np.asarray(masked.argmin(axis=1)[:, None])
    return np.asarray(np.argsort(masked, axis=1, kind="stable")[:, :count])
