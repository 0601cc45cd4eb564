"""Which pods share a domain with pods that they must not meet, or crowd a domain beyond their spread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unisono.cluster.records import Task
from unisono.cluster.selectors import Spread, Term
from unisono.cluster.status import ON_NODE_STATES

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

_Place = tuple[Term, int]
"""A term, and the domain of its key."""


def on_nodes(session: Session) -> Iterable[Task]:
    """All pods on nodes, also those that may not be moved."""
    for tasks in session.snapshot.tasks_on.values():
        yield from (task for task in tasks.values() if task.status in ON_NODE_STATES)


class Company:
    """Pods by the domains of required anti-affinity: who keeps others away, and who is kept away."""

    def __init__(self, session: Session) -> None:
        self._table = session.snapshot.nodes
        self._terms: set[Term] = set()
        tasks = list(on_nodes(session))
        for task in tasks:
            self._terms.update(task.pod_class.terms.away)
        self._by_selector: dict[int, list[Term]] = defaultdict(list)
        for term in sorted(self._terms):
            self._by_selector[term.selector].append(term)
        self._keepers: Counter[_Place] = Counter()
        self._kept: Counter[_Place] = Counter()
        for task in tasks if self._terms else ():
            self._count(task, self._table.index[task.node], 1)

    def conflicts(self, task: Task, column: int) -> bool:
        """Whether a pod would meet on a node (its own, too) one that keeps it away, or that it keeps away."""
        own = int(self._table.index[task.node] == column)
        away, kept = set(task.pod_class.terms.away), set(self._keeping(task))
        for term in away | kept:
            domain = self._domain(term, column)
            if domain < 0:
                continue
            place = (term, domain)
            if term in away and self._kept[place] - (own if term in kept else 0) > 0:
                return True
            if term in kept and self._keepers[place] - (own if term in away else 0) > 0:
                return True
        return False

    def move(self, task: Task, column: int) -> None:
        """The pod leaves its node for another one."""
        self._count(task, self._table.index[task.node], -1)
        self._count(task, column, 1)

    def _keeping(self, task: Task) -> list[Term]:
        """Terms of any pod that select this one."""
        return [term for selector in sorted(task.pod_class.matched) for term in self._by_selector.get(selector, ())]

    def _domain(self, term: Term, column: int) -> int:
        return int(self._table.label_column(term.key)[column])

    def _count(self, task: Task, column: int, sign: int) -> None:
        for counts, terms in ((self._keepers, task.pod_class.terms.away), (self._kept, self._keeping(task))):
            for term in terms:
                counts[term, self._domain(term, column)] += sign


class Crowds:
    """Pods by the domains of spread constraints."""

    def __init__(self, session: Session, *, soft: bool) -> None:
        self._table = session.snapshot.nodes
        self._soft = soft
        self._held: dict[Spread, Counter[int]] = {}
        selected: dict[int, list[Spread]] = defaultdict(list)
        tasks = list(on_nodes(session))
        for spread in {spread for task in tasks for spread in self.spreads(task)}:
            selected[spread.selector].append(spread)
            codes = self._table.label_column(spread.key)
            usable = self._table.ready & ~self._table.unschedulable & (codes >= 0)
            self._held[spread] = Counter(dict.fromkeys(codes[usable].tolist(), 0))
        for task in tasks if selected else ():
            for selector in task.pod_class.matched & selected.keys():
                for spread in selected[selector]:
                    self._held[spread][self._domain(spread, self._table.index[task.node])] += 1

    def spreads(self, task: Task) -> Sequence[Spread]:
        """Constraints that count the pod itself."""
        terms = task.pod_class.terms.spread
        return [
            one for one in terms if (one.hard or self._soft) and one.counts and one.selector in task.pod_class.matched
        ]

    def crowded(self, task: Task) -> bool:
        """Whether a constraint of the pod is broken, and its domain has most."""
        own = self._table.index[task.node]
        return any(
            held[self._domain(spread, own)] - min(held.values()) > spread.max_skew for spread, held in self._of(task)
        )

    def better(self, task: Task, column: int) -> bool:
        """Whether every constraint of the pod is no worse with it on another node, and one that is broken is better."""
        own, better = self._table.index[task.node], False
        for spread, held in self._of(task):
            here, there = self._domain(spread, own), self._domain(spread, column)
            if there < 0:
                return False
            if here == there:
                continue
            if held[there] + 1 > held[here] - 1 and held[there] + 1 - min(held.values()) > spread.max_skew:
                return False
            better |= held[here] - min(held.values()) > spread.max_skew and held[there] + 1 < held[here]
        return better

    def move(self, task: Task, column: int) -> None:
        """The pod leaves its node for another one."""
        own = self._table.index[task.node]
        for spread, held in self._of(task):
            held[self._domain(spread, own)] -= 1
            held[self._domain(spread, column)] += 1

    def _of(self, task: Task) -> list[tuple[Spread, Counter[int]]]:
        return [(spread, self._held[spread]) for spread in self.spreads(task)]

    def _domain(self, spread: Spread, column: int) -> int:
        return int(self._table.label_column(spread.key)[column])
