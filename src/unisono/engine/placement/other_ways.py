"""Other ways to place a gang that did not fit: another order of its pods, other domains, or a search with all rules.

Small pods that are placed first may take the only node that has room for a large one, or the only one that it may use.
Within a gang, order means nothing, so the kind of pod that was stuck is placed before all others, and the gang is tried
again. Pods that want each other near are bound by the first one of them to its domain, which may be too small for the
rest; so their domains are tried one after the other. Where no order works, as points lead pods past the only packing of
a tight cluster, pods are placed one by one, and those before move on where one finds no node. The number of such trials
is bounded, and of a gang that fails in all of them that trial is told of which placed most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.domain_search import search_of
from unisono.engine.placement.remaining_tasks import RemainingTasks

_ORDERS = 4
"""Orders that are tried beside the first one, for each choice of domains."""
_MOST_SEARCHED, _MOST_NODES = 64, 128
"""Pods of a gang, and nodes with room for one of them, up to which places are searched for."""
_STEPS, _STEPS_OF_A_CYCLE = 500, 2_000
"""Nodes that are looked at in such a search, and in all of a cycle."""


@dataclass(slots=True)
class Steps:
    """Nodes that may still be looked at by the searches of a cycle."""

    left: int = _STEPS_OF_A_CYCLE


@dataclass(slots=True)
class PlacesSearch:
    """A search for the places of pods, one after the other.

    Attributes:
        tasks: which are placed, by class, those of the largest class first.
        candidates: columns by class, in the order in which they are tried.
        in_any_order: some look at where others are, so that it counts which of them come first.
        left: nodes that may still be looked at.
    """

    tasks: dict[PodClass, list[Task]]
    candidates: dict[PodClass, list[int]]
    in_any_order: bool
    left: int


@dataclass(frozen=True, slots=True)
class Within:
    """To what a trial keeps its pods.

    Attributes:
        nodes: ``[N]`` by id of a class, those that its pods may take.
        search: in place of the node with the most points for each pod.
    """

    nodes: Mapping[int, BoolArray] = field(default_factory=dict)
    search: PlacesSearch | None = None

    def narrowed(self, other: Within) -> Within:
        """Where both let pods go."""
        first, second = self.nodes, other.nodes
        both = {**first, **{number: nodes & first.get(number, nodes) for number, nodes in second.items()}}
        return Within(both, other.search or self.search)


ANYWHERE = Within()


class Outcome(NamedTuple):
    """What became of a trial.

    Attributes:
        started: the gang can start with what was placed; else all has been taken back.
        stuck: the last task that found no node after others had been placed; None: no other way can help.
        placed: tasks that were placed.
    """

    started: bool
    stuck: Task | None = None
    placed: int = 0


Trial = Callable[[RemainingTasks, Within], Outcome]


@dataclass(frozen=True, slots=True)
class Bond:
    """Classes of a gang, by id, of which pods require each other in one domain of the topology key ``key``."""

    key: str
    classes: frozenset[int]


@dataclass(slots=True)
class Effort:
    """How much may still be tried for one job: no further trial begins where either is used up."""

    trials: int = 256
    placements: int = 20_000


@dataclass(frozen=True, slots=True)
class Attempts:
    """Where and how a gang is tried.

    Attributes:
        tasks: what every trial begins with.
        missing: how many of them the gang needs.
        area: ``[N]`` the nodes on which it is tried, None for all.
        trial: places tasks.
        effort: what is left of it.
    """

    tasks: RemainingTasks
    missing: int
    area: BoolArray | None
    trial: Trial
    effort: Effort


def retry(cycle: Cycle, attempts: Attempts, first: Outcome) -> RemainingTasks | None:
    """Try again with other orders and in other domains; ``first`` is what became of the first trial.

    Returns:
        the tasks that are left when a trial was successful, else None.
    """
    if first.stuck is None:
        return None
    search = _Search(cycle, attempts)
    left = search.go(first, ANYWHERE, ())
    return search.searched() if left is None else left


class _Search:
    """Domains of one bond after the other, depth first, and for each choice some orders."""

    def __init__(self, cycle: Cycle, attempts: Attempts) -> None:
        self._cycle, self._given = cycle, attempts
        self._waiting = attempts.tasks.left()
        self._bonds = bonds_of(task.pod_class for task in self._waiting)

    def go(self, first: Outcome, within: Within, chosen: tuple[Bond, ...]) -> RemainingTasks | None:
        """Orders, then the domains of the bonds that are not among ``chosen``: that of the stuck task first."""
        left, outcome = self._in_other_orders(first, within)
        if left is not None or outcome.stuck is None:
            return left
        stuck = outcome.stuck.pod_class.id
        bonds = [bond for bond in self._bonds if bond not in chosen]
        for bond in sorted(bonds, key=lambda bond: stuck not in bond.classes):
            for nodes in self._domains(bond):
                narrower = within.narrowed(Within(dict.fromkeys(bond.classes, nodes)))
                left, outcome = self._attempt(self._given.tasks.copy(), narrower)
                if left is None and outcome.stuck is not None:
                    left = self.go(outcome, narrower, (*chosen, bond))
                if left is not None:
                    return left
        return None

    def searched(self) -> RemainingTasks | None:
        """What is left where places are searched for: of all waiting pods, or of as many as the gang needs."""
        budget = self._cycle.session.shared.of(Steps, Steps)
        for number in sorted({len(self._waiting), min(self._given.missing, len(self._waiting))}, reverse=True):
            search = self._search_for(self._waiting[:number], min(budget.left, _STEPS))
            if search is not None:
                steps = search.left
                left, _ = self._attempt(self._given.tasks.copy(), Within(search=search))
                budget.left -= steps - search.left
                if left is not None:
                    return left
        return None

    def _search_for(self, tasks: list[Task], steps: int) -> PlacesSearch | None:
        """Large pods come first, and full nodes; None where some pods have too few nodes by amounts alone."""
        slots, nodes = search_of(self._cycle).slots, self._cycle.session.nodes
        numbers = Counter(task.pod_class for task in tasks)
        if len(numbers) == 1 or len(tasks) > min(_MOST_SEARCHED, steps):
            return None
        area = True if self._given.area is None else self._given.area
        columns = {kind: np.flatnonzero((slots.slots(kind) > 0) & area) for kind in numbers}
        every = np.unique(np.concatenate(list(columns.values())))
        enough = all(int(slots.slots(kind)[columns[kind]].sum()) >= number for kind, number in numbers.items())
        if not enough or len(every) > _MOST_NODES:
            return None
        rows = np.unique(np.concatenate([kind.rows for kind in numbers]))
        free = np.maximum(nodes.allocatable - nodes.used, 0)[rows]
        share = 1 / np.maximum(free[:, every].sum(axis=1, dtype=np.float64), 1)
        fullness = share @ free
        sizes = {kind: float((kind.vector[rows] * share).max()) for kind in numbers}
        by_kind = {
            kind: [task for task in tasks if task.pod_class is kind]
            for kind in sorted(numbers, key=lambda kind: (-sizes[kind], kind.id))
        }
        candidates = {kind: sorted(columns[kind].tolist(), key=fullness.__getitem__) for kind in numbers}
        related = any(kind.terms.near or any(spread.hard for spread in kind.terms.spread) for kind in numbers)
        return PlacesSearch(by_kind, candidates, related, steps)

    def _attempt(self, order: RemainingTasks, within: Within) -> tuple[RemainingTasks | None, Outcome]:
        effort = self._given.effort
        if effort.trials <= 0 or effort.placements <= 0:
            return None, Outcome(started=False)
        outcome = self._given.trial(order, within)
        effort.trials -= 1
        effort.placements -= outcome.placed
        return (order if outcome.started else None), outcome

    def _in_other_orders(self, outcome: Outcome, within: Within) -> tuple[RemainingTasks | None, Outcome]:
        """What is left where one is successful, and what became of the last one that placed anything."""
        tried, front, last = {tuple(self._given.tasks.kinds())}, tuple[PodClass, ...](), outcome
        for _ in range(_ORDERS):
            if outcome.stuck is None:
                break
            front = _with(front, outcome.stuck.pod_class)
            place = {pod_class: number for number, pod_class in enumerate(front)}
            order = RemainingTasks(sorted(self._waiting, key=lambda task: place.get(task.pod_class, len(place))))
            if (kinds := tuple(order.kinds())) in tried:
                break
            tried.add(kinds)
            left, outcome = self._attempt(order, within)
            if left is not None:
                return left, outcome
            last = outcome if outcome.stuck is not None else last
        return None, last

    def _domains(self, bond: Bond) -> Iterator[BoolArray]:
        """``[N]`` the nodes of each domain that may hold the pods of a bond; where these score best comes first."""
        codes = self._cycle.session.snapshot.domains_of(bond.key)
        inside = codes >= 0 if self._given.area is None else (codes >= 0) & self._given.area
        numbers = Counter(task.pod_class for task in self._waiting if task.pod_class.id in bond.classes)
        least = self._given.missing - (len(self._waiting) - sum(numbers.values()))
        held = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
        best = np.full(len(held), -np.inf)
        slots = search_of(self._cycle).slots
        for pod_class, number in numbers.items():
            np.add.at(room := np.zeros_like(held), codes[inside], slots.slots(pod_class)[inside])
            held += np.minimum(room, number)
            table = self._cycle.tables.of(pod_class)
            table.follow()
            np.maximum.at(best, codes[inside], table.total[inside])
        enough = min(max(least, 1), int(held.max(initial=1)))  # where none is, the largest tells how many it holds
        able = np.flatnonzero(held >= max(enough, 1)).tolist()
        for code in sorted(able, key=lambda code: (-float(best[code]), code)):
            yield inside & (codes == code)


def bonds_of(classes: Iterable[PodClass]) -> list[Bond]:
    """The bonds of a gang's pods, in a stable order.

    Of each key those of all that are linked by it come first, then of each kind that needs no other, for the others may
    do without it.
    """
    every = {pod_class.id: pod_class for pod_class in classes}
    bonds: list[Bond] = []
    for key in sorted({term.key for pod_class in every.values() for term in pod_class.terms.near}):
        groups, alone = list[set[int]](), list[set[int]]()
        for number, pod_class in sorted(every.items()):
            if not any(term.key == key for term in pod_class.terms.near):
                continue
            partners = {other.id for other in every.values() if pod_class.terms.near_all in other.matched}
            if number in partners:
                alone.append({number})
            if partners:
                joined = {number, *partners}.union(*(group for group in groups if group & {number, *partners}))
                groups = [*(group for group in groups if not group & joined), joined]
        bonds += [Bond(key, frozenset(group)) for group in (*groups, *(one for one in alone if one not in groups))]
    return bonds


def _with(front: Sequence[PodClass], stuck: PodClass) -> tuple[PodClass, ...]:
    """The kinds that come first: behind those that were stuck before, or, where that did not help, before them."""
    if stuck not in front:
        return (*front, stuck)
    return (stuck, *(other for other in front if other is not stuck))
