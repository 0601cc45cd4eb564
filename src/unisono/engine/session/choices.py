"""Kinds of nodes of which a gang takes one: which of them its pods are tried on now.

A gang is tried on one kind after the other, each time as if it could use no other nodes. What it holds already decides:
pods that come later, or are made again while others run, go to nodes of the same kind.

Where pods take other amounts of devices on a kind, the gang is tried there with pods that ask for these. If it fits,
its pods keep the places for the cycle and are made again: a pod's requests cannot change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, product
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import GOT
from unisono.api.budgets import DEFAULT_PRICES, Prices
from unisono.api.one_of import PRICE, SPEED, NodeKind, OneOf, kind_told, one_of, times_of
from unisono.cluster.interning import Memory
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus
from unisono.engine.answers import BoolArray, Reason, Refusal
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

MOST_TRIALS = 16
"""Ways to give the parts of one gang a kind each that are tried in a cycle."""

REMAKE_SECONDS = 60.0
"""How long places are kept for pods that are to be made again; who does not make them blocks nobody any longer."""


@dataclass(slots=True)
class _Asked(Memory):
    """For which kinds pods are to be made again, as the PodGroup is told, and since when, by job."""

    since: dict[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Part:
    """Pods of a gang that take the same kind.

    Attributes:
        said: what they say.
        order: numbers of kinds in the order in which they are tried; one alone where the part holds nodes already.
        held: whether it does.
        now: the kind that is tried now.
        made: how many times as many devices its pods ask for as their template says.
        scales: they ask for devices at all.
    """

    said: OneOf
    order: tuple[int, ...]
    held: bool
    now: int
    made: int = 1
    scales: bool = False

    @property
    def kind(self) -> NodeKind:
        """The kind that is tried now."""
        return self.said.kinds[self.now]


@dataclass(slots=True)
class Choice:
    """What one job may take.

    Attributes:
        job: whose it is.
        parts: by the text of their lists; where lists were edited since, by the one of the pods that hold nodes.
        of_text: the part of pods with a list.
        told: the trial of which the report on the job tells what it lacked; None where none was tried.
        refused: trials in which a limit stood in the way, each with what it says.
        late: kinds for which pods should have been made again by now, and were not; empty: none.
        trials: for each trial the kind of each part, best first; at least one.
        record: of the job as it is.
    """

    job: JobState
    parts: dict[str, Part]
    record: Job
    of_text: Mapping[str, Part]
    trials: list[tuple[int, ...]] = field(default_factory=list)
    told: tuple[int, ...] | None = None
    refused: dict[tuple[int, ...], Refusal] = field(default_factory=dict)
    late: str = ""

    def set(self, trial: tuple[int, ...]) -> None:
        """Let this trial be the present one, and the job's pods ask for what they take there."""
        for part, number in zip(self.parts.values(), trial, strict=True):
            part.now = number
        self.job.record = self._as_tried() if self.made_again else self.record

    def rest(self) -> None:
        """Let that be the present trial by which a job that waits is judged: the first one of its pods as they are."""
        self.set(next((trial for trial in self.trials if self.suits(trial)), self.trials[0]))
        self.job.record = self.record

    @contextmanager
    def as_told(self) -> Iterator[None]:
        """Within, the trial is the present one of which the report tells, with its pods."""
        if self.told is not None:
            self.set(self.told)
        try:
            yield
        finally:
            self.rest()

    def suits(self, trial: tuple[int, ...]) -> bool:
        """Whether the pods ask for what they take there."""
        parts = zip(self.parts.values(), trial, strict=True)
        return all(not part.scales or part.said.kinds[number].times == part.made for part, number in parts)

    @property
    def made_again(self) -> bool:
        """Whether pods have to be made again for the present trial."""
        return not self.suits(self.now)

    @property
    def in_vain(self) -> bool:
        """Whether the pods should have been made again for the present trial by now, and were not."""
        return bool(self.late) and _names(self.parts.values(), self.now) == self.late

    def _as_tried(self) -> Job:
        """The job's record with pods that ask for what they take on the present kinds."""
        tried = copy(self.record)
        tried.derived = {}
        tried.pending = {key: self._pod(task) for key, task in self.record.pending.items()}
        tried.tasks = {**self.record.tasks, **tried.pending}
        return tried

    def _pod(self, task: Task) -> Task:
        said = one_of(task.pod_class.notes, self.record.annotations)
        part = self.of_text.get(said.text) if said is not None else None
        other = task.scaled.get(part.kind.times) if part is not None and part.kind.times != part.made else None
        if other is None:
            return task
        fresh = copy(task)
        fresh.pod_class = other
        return fresh

    @property
    def now(self) -> tuple[int, ...]:
        """The present trial."""
        return tuple(part.now for part in self.parts.values())

    def each(self, *, alike: bool = False) -> Iterator[tuple[int, ...]]:
        """One trial after the other; each is the present one while it is its turn, and the last one stays so.

        ``alike``: those alone for which pods need not be made again.
        """
        for trial in self.trials:
            if not alike or self.suits(trial):
                self.set(trial)
                yield trial


class Choices:
    """The choices of all jobs of a session that have any.

    Attributes:
        jobs: their keys.
        made_again: by job what PodGroups are told whose pods are to be made again.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._masks: dict[tuple[tuple[str, str], ...], BoolArray] = {}
        self._orders: dict[tuple[str, str, int, str], tuple[int, ...]] = {}
        words = session.snapshot.calendar.choosing
        tasks = session.snapshot.tasks
        pods = {task.job for kind, key in words if kind == "Pod" and (task := tasks.get(key)) is not None}
        self.jobs = {key for kind, key in words if kind == "PodGroup"} | (pods - {""})
        self._known: dict[str, Choice | None] = {}
        self.made_again: dict[str, Mapping[str, str]] = {}
        asked = session.snapshot.memo.of(_Asked, _Asked)
        asked.since = self._asked = {key: each for key, each in asked.since.items() if key in self.jobs}

    def of(self, job: JobState) -> Choice | None:
        """The choice of a job; None of one that has none."""
        if job.key not in self.jobs:
            return None
        if job.key not in self._known:
            self._known[job.key] = self._choice(job)
        return self._known[job.key]

    def part(self, job: JobState, pod_class: PodClass) -> Part | None:
        """The part of a job to which its pods of a class belong; None where they may use nodes of all kinds."""
        choice = self.of(job)
        said = one_of(pod_class.notes, job.record.annotations) if choice is not None else None
        return choice.of_text.get(said.text) if choice is not None and said is not None else None

    def nodes(self, kind: NodeKind) -> BoolArray:
        """``[N]`` nodes of a kind; read only."""
        mask = self._masks.get(kind.labels)
        if mask is None:
            table = self._session.snapshot.nodes
            mask = np.ones(len(table), dtype=np.bool_)
            for key, value in kind.labels:
                mask &= table.label_column(key) == table.label_code(key, value)
            self._masks[kind.labels] = mask
        return mask

    def got(self, job: JobState) -> Mapping[str, str]:
        """What the PodGroup is told: the kinds of nodes that the job holds; empty while it holds none."""
        if job.key in self.made_again:
            return self.made_again[job.key]
        choice = self.of(job)
        held = job.gained or (choice is not None and any(part.held for part in choice.parts.values()))
        if choice is None or not held:
            return {}
        return {GOT: _names([part for part in choice.parts.values() if part.held or job.gained])}

    # ---- what a job may take

    def _choice(self, job: JobState) -> Choice | None:
        parts: dict[str, Part] = {}
        nominated: dict[str, str] = {}
        of_text: dict[str, Part] = {}
        of_role: dict[str, Part] = {}
        # Those that hold nodes come first: what they got counts for their like, whatever lists say by now.
        for task in sorted(job.record.tasks.values(), key=lambda task: task.status not in ALLOCATED_STATES):
            said = one_of(task.pod_class.notes, job.record.annotations)
            if said is None:
                continue
            part = of_text.get(said.text)
            if part is None and task.role in of_role and of_role[task.role].held:
                part = of_text[said.text] = of_role[task.role]
            if part is None:
                said = self._with_told(said, task)
                order = self._order(said, job, task)
                made = times_of(task.annotations.get(GOT, ""))
                if made != 1:  # for that kind its pods were made, and they stay so while it has room
                    order = tuple(sorted(order, key=[one.times != made for one in said.kinds].__getitem__))
                part = parts[said.text] = of_text[said.text] = Part(said, order, held=False, now=order[0], made=made)
            if task.role:
                of_role.setdefault(task.role, part)
            part.scales |= any(other is not task.pod_class for other in task.scaled.values())
            if part.made != 1 or part.held:
                self._asked.pop(job.key, None)
            if not part.held and task.status in ALLOCATED_STATES:
                kind = self._kind_on(part.said, task, task.node)
                if kind is not None:
                    part.order, part.held, part.now = (kind,), True, kind
            if task.nominated_node and task.status is TaskStatus.PENDING:
                nominated.setdefault(said.text, task.nominated_node)
        for text, node in nominated.items():
            part = of_text[text]  # others were evicted there for it
            kind = self._kind_on(part.said, None, node)
            if kind is not None and not part.held:
                part.order = (kind, *(each for each in part.order if each != kind))
        if not parts:
            return None
        ways = product(*(part.order for part in parts.values()))
        choice = Choice(job, parts, job.record, of_text, list(islice(ways, MOST_TRIALS)))
        late = [trial for trial in choice.trials if self._in_vain(choice, trial)]
        if late:
            choice.late = _names(parts.values(), late[0])
            choice.trials = [trial for trial in choice.trials if trial not in late] or late
        choice.rest()
        return choice

    def _with_told(self, said: OneOf, task: Task) -> OneOf:
        """With the kind that a pod got which holds a node, where its list no longer names that."""
        given_kind = kind_told(task.annotations.get(GOT, "")) if task.status in ALLOCATED_STATES else None
        if given_kind is None or any(kind.name == given_kind.name for kind in said.kinds):
            return said
        return OneOf(said.text, (*said.kinds, given_kind), said.way)

    def _in_vain(self, choice: Choice, trial: tuple[int, ...]) -> bool:
        """Whether pods were to be made again for a trial, and nobody has done so."""
        key, parts = choice.job.key, choice.parts.values()
        if choice.suits(trial):
            return False
        names, since = self._asked.get(key, ("", 0.0))
        return names == _names(parts, trial) and self._session.now - since > REMAKE_SECONDS

    def make_again(self, choice: Choice) -> None:
        """Let the PodGroup be told for which kinds its pods are to be made again: those of the present trial."""
        key, names = choice.job.key, _names(choice.parts.values(), choice.now)
        self.made_again[key] = {GOT: names}
        if self._asked.get(key, ("", 0.0))[0] != names:
            self._asked[key] = names, self._session.now

    def _kind_on(self, said: OneOf, task: Task | None, node: str) -> int | None:
        """Number of the kind as which pods have a node: what the pod was told, else the first whose labels it has."""
        kind_name = task.annotations.get(GOT) if task is not None else None
        column = self._session.snapshot.nodes.index.get(node, -1)
        for number, kind in enumerate(said.kinds):
            if kind_name == kind.name:
                return number
        if column < 0:
            return None
        return next((at for at, kind in enumerate(said.kinds) if self.nodes(kind)[column]), None)

    def _order(self, said: OneOf, job: JobState, task: Task) -> tuple[int, ...]:
        every = tuple(range(len(said.kinds)))
        if said.way == SPEED:
            return tuple(sorted(every, key=lambda at: -said.kinds[at].speed))
        prices = self._session.snapshot.catalogue.prices.get(DEFAULT_PRICES)
        if said.way != PRICE or prices is None:
            return every
        key = said.text, said.way, task.pod_class.id, job.record.priority_class
        order = self._orders.get(key)
        if order is None:
            of = [task.scaled.get(kind.times, task.pod_class).requests for kind in said.kinds]
            pairs = zip(said.kinds, of, strict=True)
            cost = [self._cost(kind, requests, job.record.priority_class, prices) for kind, requests in pairs]
            order = self._orders[key] = tuple(sorted(every, key=cost.__getitem__))
        return order

    def _cost(self, kind: NodeKind, requests: Mapping[str, int], priority_class: str, prices: Prices) -> float:
        """Money for the work of one pod that takes an hour at speed 1, on the cheapest node of a kind."""
        table = self._session.snapshot.nodes
        columns = np.flatnonzero(self.nodes(kind))
        keys = sorted({key for price in prices.prices for key, _ in price.labels})
        if not len(columns):
            return inf
        codes = np.array([table.label_column(key)[columns] for key in keys]).reshape(len(keys), len(columns))
        _, firsts = np.unique(codes, axis=1, return_index=True) if keys else (None, np.zeros(1, dtype=np.intp))
        labels = (table.facts[columns[at]].labels for at in firsts.tolist())
        return min(prices.rate(requests, each, priority_class) for each in labels) / kind.speed


def _names(parts: Collection[Part], trial: Sequence[int] | None = None) -> str:
    """Of the kinds that parts take in a trial, or now."""
    numbers = [part.now for part in parts] if trial is None else trial
    return ", ".join(dict.fromkeys(part.said.kinds[at].name for part, at in zip(parts, numbers, strict=True)))


@lru_cache(maxsize=1024)
def not_of(name: str) -> Reason:
    """Why nodes of other kinds are left out."""
    return Reason(f"node(s) are not of {name}", unresolvable=True, cause=Cause.FILTERS, apart=True)


def choice_of(session: Session, job: JobState) -> Choice | None:
    """The choice of a job among kinds of nodes; None where it has none, or the plug-in one-of is not there."""
    choices = session.shared.find(Choices)
    return choices.of(job) if choices is not None else None


def tried_now(session: Session, pod_class: PodClass) -> tuple[str, BoolArray] | None:
    """The kind of nodes on which pods of ``session.subject`` are tried, and ``[N]`` these; None: they may use all."""
    choices, job = session.shared.find(Choices), session.subject
    part = choices.part(job, pod_class) if choices is not None and job is not None else None
    return (part.kind.name, choices.nodes(part.kind)) if choices is not None and part is not None else None


def open_choice(session: Session, job: JobState) -> Choice | None:
    """The choice of a job that holds nothing of this session yet, and that cannot just take what its pods ask for.

    It has several ways left to try, or one for which its pods have to be made again; None of others.
    """
    choice = choice_of(session, job)
    if choice is None or job.gained or (len(choice.trials) < 2 and choice.suits(choice.trials[0])):
        return None
    return choice
