"""Strategies that look at one pod, or at pods of one job on one node; their names are the descheduler's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Failure, Task
from unisono.cluster.resources import fitted
from unisono.cluster.selectors import Spread, Term
from unisono.cluster.status import ON_NODE_STATES, READY_STATES, TaskStatus, count
from unisono.cluster.taints import repels
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_pod, open_nodes
from unisono.engine.plugins.tdm import spare
from unisono.engine.session.victims import Surplus
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


# What strategies of rescheduling share: which pods their jobs can miss, and where moved pods would fit.


class Spares:
    """Which pods may leave: a gang keeps its minimum, and a budget in annotations is kept."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[str, Surplus] = {}
        self._budget: dict[str, int] = {}

    def copy(self) -> Spares:
        """The same, to try something."""
        duplicate = Spares(self._session)
        duplicate._left, duplicate._budget = {key: one.copy() for key, one in self._left.items()}, dict(self._budget)
        return duplicate

    def become(self, other: Spares) -> None:
        """Take over what was tried on a copy."""
        self._left, self._budget = other._left, other._budget

    def take(self, task: Task) -> bool:
        """Whether the pod can go; then it counts as gone. A job of a single pod can be moved: no others wait for it."""
        job = self._session.job(task.job)
        if job is None:
            return False
        notes = job.record.annotations
        if notes.get(JDB_MIN_AVAILABLE) or notes.get(JDB_MAX_UNAVAILABLE):
            left = self._budget.get(job.key)
            left = spare(job.record, job.counts) if left is None else left
            if left < 1:
                return False
            self._budget[job.key] = left - 1
        if len(job.record.tasks) == 1:
            return True
        if job.key not in self._left:
            self._left[job.key] = Surplus(self._session, job)
        return self._left[job.key].take(task)


class Room:
    """Room for moved pods on nodes that they may use; each takes its place."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._idle = np.maximum(session.nodes.future_idle, 0).copy()
        self._open: dict[int, BoolArray] = {}

    def copy(self) -> Room:
        """The same, to try something."""
        duplicate = Room.__new__(Room)
        duplicate._session, duplicate._idle, duplicate._open = self._session, self._idle.copy(), self._open
        return duplicate

    def become(self, other: Room) -> None:
        """Take over what was tried on a copy."""
        self._idle = other._idle

    def open(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that selectors, affinity, taints, cordons and readiness let the class use."""
        mask = self._open.get(pod_class.id)
        if mask is None:
            mask = self._open[pod_class.id] = open_nodes(pod_class, self._session.nodes)
        return mask

    def fits(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that the class may use and that have room for one more pod of it."""
        return self.open(pod_class) & (self._idle[pod_class.rows] >= pod_class.amounts[:, None]).all(axis=0)

    def fill(self, pod_class: PodClass, column: int) -> None:
        """A pod of the class moves to a node."""
        self._idle[:, column] -= fitted(pod_class.vector, self._session.rows)

    def take(self, task: Task, besides: Iterable[int]) -> int:
        """Take room for a pod on a node that is none of ``besides``; the node's column, -1 where there is none."""
        fits = self.fits(task.pod_class)
        fits[list(besides)] = False
        if not fits.any():
            return -1
        column = int(fits.argmax())
        self.fill(task.pod_class, column)
        return column


# Which pods share a domain with pods that they must not meet, or crowd a domain beyond their spread.

_Place = tuple[Term, int]
"""A term, and the domain of its key."""


def on_nodes(session: Session) -> Iterable[Task]:
    """All pods on nodes, also those that may not be moved."""
    for tasks in session.snapshot.tasks_on.values():
        yield from (task for task in tasks.values() if task.status in ON_NODE_STATES)


class Company:
    """Pods by the domains of required anti-affinity: who keeps others away, and who is kept away."""

    def __init__(self, session: Session) -> None:
        self._snapshot, self._table = session.snapshot, session.snapshot.nodes
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
        matched = task.pod_class.matched
        every = (term for selector in sorted(matched) for term in self._by_selector.get(selector, ()))
        return [term for term in every if term.but not in matched]

    def _domain(self, term: Term, column: int) -> int:
        return int(self._snapshot.domains_of(term.key)[column])

    def _count(self, task: Task, column: int, sign: int) -> None:
        for counts, terms in ((self._keepers, task.pod_class.terms.away), (self._kept, self._keeping(task))):
            for term in terms:
                counts[term, self._domain(term, column)] += sign


class Crowds:
    """Pods by the domains of spread constraints."""

    def __init__(self, session: Session, *, soft: bool) -> None:
        self._snapshot, self._table = session.snapshot, session.snapshot.nodes
        self._soft = soft
        self._held: dict[Spread, Counter[int]] = {}
        selected: dict[int, list[Spread]] = defaultdict(list)
        tasks = list(on_nodes(session))
        for spread in {spread for task in tasks for spread in self.spreads(task)}:
            selected[spread.selector].append(spread)
            codes = self._snapshot.domains_of(spread.key)
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
        return int(self._snapshot.domains_of(spread.key)[column])


# removeFailedPods: deletes pods that have failed, so that they no longer stand beside those made in their place.

NAME = "removeFailedPods"
_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""
_LISTS = ("reasons", "excludeOwnerKinds")
_NUMBERS = ("minPodLifetimeSeconds", "thresholdPriority")
_KNOWN = ("excludeOwnerKinds", "includingInitContainers", "minPodLifetimeSeconds", "reasons", "thresholdPriority")


@dataclass(frozen=True, slots=True)
class FailedPods:
    """The strategy.

    Attributes:
        reasons: of the pod or its containers, one of which it must have; empty: any.
        init: reasons of init containers count, too.
        excluded: pods with an owner of these kinds stay.
        seconds: pods that were made less than so long ago stay.
        below: pods of this priority and above stay.
    """

    reasons: frozenset[str]
    init: bool
    excluded: frozenset[str]
    seconds: float
    below: int

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> FailedPods:
        """From ``params``; raises ConfigError that names the key."""
        for key, value in params.items():
            if key not in _KNOWN:
                raise ConfigError(f"rescheduling: {NAME} has no parameter {key}; it has {', '.join(_KNOWN)}")
            if key in _LISTS and not (isinstance(value, list) and all(isinstance(one, str) and one for one in value)):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be a list of words, such as [Evicted]")
            if key == "includingInitContainers" and not isinstance(value, bool):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be true or false")
            if key in _NUMBERS and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be a whole number without quotes")
        seconds = params.get("minPodLifetimeSeconds", 0)
        if seconds < 0:
            raise ConfigError(f"rescheduling: {NAME}: minPodLifetimeSeconds must not be negative")
        return cls(
            frozenset(params.get("reasons", ())),
            params.get("includingInitContainers", False),
            frozenset(params.get("excludeOwnerKinds", ())),
            float(seconds),
            params.get("thresholdPriority", _CRITICAL),
        )

    def choose(self, session: Session, candidates: Sequence[Task], _: Spares) -> list[Task]:
        """Which of the failed pods to delete, in order of their keys; they hold no place that a gang could miss."""
        left: dict[str, int] = {}
        chosen: list[Task] = []
        for task in sorted(candidates, key=lambda task: task.key):
            job = session.job(task.job)
            if job is None or task.failure is None or not self._names(session, task, task.failure):
                continue
            spare = left.setdefault(job.key, _spare(job))
            if spare > 0:
                left[job.key] = spare - 1
                chosen.append(task)
        return chosen

    def _names(self, session: Session, task: Task, failure: Failure) -> bool:
        if task.priority >= self.below or not task.remade or failure.policies or failure.owners & self.excluded:
            return False
        observed = failure.reasons | failure.init_reasons if self.init else failure.reasons
        return session.now - task.created >= self.seconds and (not self.reasons or bool(observed & self.reasons))


def _spare(job: JobState) -> int:
    """How many failed pods a job can do without.

    While pods of a gang hold places, failed ones count as its members, so that those are not given up (see
    `unisono.scheduler.evictor`): what follows from a failure is for the job's own controller to say. Only what is
    beyond the minimum may go then.
    """
    failed = job.counts[TaskStatus.FAILED]
    ready = count(job.counts, READY_STATES)
    if job.min_member <= 1 or not ready:
        return failed
    return max(0, min(failed, ready + failed - job.min_member))


POD_LIFE_TIME, DUPLICATES = "podLifeTime", "removeDuplicates"
NODE_AFFINITY = "removePodsViolatingNodeAffinity"
NODE_TAINTS = "removePodsViolatingNodeTaints"
ANTI_AFFINITY = "removePodsViolatingInterPodAntiAffinity"
SPREAD = "removePodsViolatingTopologySpreadConstraint"
NAMES = (POD_LIFE_TIME, DUPLICATES, NODE_AFFINITY, NODE_TAINTS, ANTI_AFFINITY, SPREAD)
"""Strategies that this module has."""
_OWN_PARAMETERS: Mapping[str, str] = {POD_LIFE_TIME: "maxPodLifeTimeSeconds", SPREAD: "includeSoftConstraints"}
"""Value of ``system-cluster-critical``."""


@dataclass(frozen=True, slots=True)
class SinglePods:
    """A strategy that names pods, of which those leave that their jobs can miss and that fit elsewhere.

    Attributes:
        name: the strategy.
        below: pods of this priority and above stay.
        seconds: of podLifeTime: how long a pod may run.
        soft: of the topology spread: also look at constraints with ScheduleAnyway.
    """

    name: str
    below: int
    seconds: float = 0.0
    soft: bool = False

    @classmethod
    def read(cls, name: str, params: Mapping[str, Any]) -> SinglePods:
        """From ``params``; raises ConfigError that names the key."""
        own = _OWN_PARAMETERS.get(name)
        accepted = {"thresholdPriority"} | ({own} if own else set())
        for key, value in params.items():
            if key not in accepted:
                raise ConfigError(f"rescheduling: {name} has no parameter {key}; it has {', '.join(sorted(accepted))}")
            if key == "includeSoftConstraints":
                if not isinstance(value, bool):
                    raise ConfigError(f"rescheduling: {name}: {key} must be true or false")
            elif not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"rescheduling: {name}: {key} must be a whole number without quotes")
        seconds = params.get("maxPodLifeTimeSeconds", 0)
        if name == POD_LIFE_TIME and seconds <= 0:
            raise ConfigError(f"rescheduling: {name} needs maxPodLifeTimeSeconds, a whole number above 0")
        soft = params.get("includeSoftConstraints", False)
        return cls(name, params.get("thresholdPriority", _CRITICAL), float(seconds), soft)

    def choose(self, session: Session, candidates: Sequence[Task], spares: Spares) -> list[Task]:
        """Which of the running pods to move, in order of their keys."""
        room = Room(session)
        places = self._places(session, candidates)
        chosen: list[Task] = []
        for task in sorted(candidates, key=lambda task: task.key):
            if task.priority >= self.below or not task.remade or not self._names(session, task, places):
                continue
            # A pod that is only old may come back to its node.
            where = 0 if self.name == POD_LIFE_TIME else room.take(task, self._besides(session, task, places))
            if where < 0 or not spares.take(task):
                continue
            places.move(task, where)
            chosen.append(task)
        return chosen

    def _places(self, session: Session, candidates: Sequence[Task]) -> _Places | Company | Crowds:
        """What the strategy has to know of other pods."""
        if self.name == ANTI_AFFINITY:
            return Company(session)
        return Crowds(session, soft=self.soft) if self.name == SPREAD else _Places(session, candidates)

    def _names(self, session: Session, task: Task, places: _Places | Company | Crowds) -> bool:
        """Whether the pod should not be where it is."""
        column = session.snapshot.nodes.index[task.node]
        if isinstance(places, Company):
            return places.conflicts(task, column)
        if isinstance(places, Crowds):
            return places.crowded(task)
        if self.name == POD_LIFE_TIME:
            return session.now - (task.since or task.created) > self.seconds
        if self.name == DUPLICATES:
            return places.alike(task)[column] > 1
        if self.name == NODE_TAINTS:
            return repels(session.snapshot.nodes.facts[column].taints, task.pod_class.tolerations)
        return not match_pod(task.pod_class, session.nodes)[column]

    def _besides(self, session: Session, task: Task, places: _Places | Company | Crowds) -> list[int]:
        """Nodes that would be no better: its own, and those where the strategy would name it again."""
        own = session.snapshot.nodes.index[task.node]
        if isinstance(places, Company):
            return [own, *(at for at in range(session.nodes.size) if places.conflicts(task, at))]
        if isinstance(places, Crowds):
            return [at for at in range(session.nodes.size) if at == own or not places.better(task, at)]
        alike = (at for at, number in places.alike(task).items() if number) if self.name == DUPLICATES else ()
        return [own, *alike]


class _Places:
    """How many equal pods of each job are on which node."""

    def __init__(self, session: Session, tasks: Sequence[Task]) -> None:
        self._index = session.snapshot.nodes.index
        self._held: dict[tuple[str, int], Counter[int]] = {}
        for task in tasks:
            self.alike(task)[self.column(task)] += 1

    def column(self, task: Task) -> int:
        """Of the node that the pod runs on."""
        return self._index[task.node]

    def alike(self, task: Task) -> Counter[int]:
        """Pods of its job and class by node."""
        return self._held.setdefault((task.job, task.pod_class.id), Counter())

    def move(self, task: Task, column: int) -> None:
        """It leaves its node for another one."""
        self.alike(task)[self.column(task)] -= 1
        self.alike(task)[column] += 1
