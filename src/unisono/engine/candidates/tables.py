"""The tables of candidates of a session, found again by class, purpose and what plug-ins answer by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector
from unisono.cluster.waiting_jobs import Alike
from unisono.engine.answers import BoolArray, Normalise, Parts, Scope
from unisono.engine.candidates.static_answers import RawPoints, StaticResults
from unisono.engine.candidates.table import CandidateTable, Demand, Roomless
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.choices import Choices, tried_now
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.session import Session

# What the cluster could hold of a class of pods: empty, and as it is now.


@dataclass(frozen=True, slots=True)
class EmptyFit:
    """How many tasks of a class the nodes would hold if they were empty.

    Attributes:
        total: over all nodes that the static filters allow.
        best: name of the node that holds most, ``""`` when none holds any.
        per_node: how many that node holds.
        allowed: number of nodes that the static filters allow.
        largest: per resource row the most that any allowed node has, ``[R]``.
    """

    total: int
    best: str
    per_node: int
    allowed: int
    largest: Vector


class EmptyCluster:
    """What the cluster could hold of each pod class if it were empty; computed once per session.

    Of pods of ``session.subject`` that take one of several kinds of nodes: what those of the kind that is tried could.
    """

    def __init__(self, session: Session, hooks: CombinedAnswers, static: StaticResults) -> None:
        self.session = session
        self.hooks = hooks
        self.static = static
        self._empty: dict[tuple[int, str], EmptyFit] = {}

    def empty(self, pod_class: PodClass) -> EmptyFit:
        """See `EmptyFit`; pods of daemons and of other schedulers do not count either."""
        tried = tried_now(self.session, pod_class)
        key = pod_class.id, tried[0] if tried is not None else ""
        fit = self._empty.get(key)
        if fit is None:
            fit = self._empty[key] = self._measure(pod_class)
        return fit

    def allowed(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that the static filters allow."""
        allowed = self.static.result(pod_class, self.session, self.hooks).allowed
        tried = tried_now(self.session, pod_class)
        return allowed if tried is None else allowed & tried[1]

    def _measure(self, pod_class: PodClass) -> EmptyFit:
        session = self.session
        allowed = self.allowed(pod_class)
        allocatable = session.nodes.allocatable[:, allowed]
        zeros = np.zeros(session.rows, dtype=np.int64)
        if not allocatable.shape[1]:
            return EmptyFit(0, "", 0, 0, zeros)
        room = tasks_fitting(allocatable, pod_class)
        if pod_class.host_ports:
            room = np.minimum(room, 1)
        best = int(room.argmax())
        columns = np.flatnonzero(allowed)
        name = session.snapshot.nodes.names[int(columns[best])] if room[best] > 0 else ""
        return EmptyFit(int(room.sum()), name, int(room[best]), int(allowed.sum()), allocatable.max(axis=1))


_NOBODY: Final[frozenset[str]] = frozenset()
_ASKED: Final = ("static_filter", "static_score", "filter", "score")
_FIRST_NODES: Final = 64
"""How many nodes are looked at first."""
_OUT_OF_REACH: Final = 1e9
"""More points than all plug-ins together give."""


class Tables:
    """The tables of one session, made when first asked for.

    Attributes:
        roomless: demands for which no node has room.
    """

    def __init__(self, session: Session, hooks: CombinedAnswers, static: StaticResults) -> None:
        self.session = session
        self.hooks = hooks
        self.static = static
        self._tables: dict[tuple[int, bool, str, frozenset[str]], CandidateTable] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._answers: list[Callable[..., Any]] | None = None
        self._pipelining = session.pipelining
        self.roomless = Roomless(session)

    def rules_out(self, pod_class: PodClass, *, future: bool) -> bool:
        """Whether no node has room for the class, so that no plug-in need be asked.

        Only where they answer by the job, which costs much: else a table says so as cheaply.
        """
        return self.scope is Scope.JOB and self.roomless.covers(pod_class, future=future)

    @cached_property
    def scope(self) -> Scope:
        """The widest scope of a plug-in."""
        return max((plugin.scope for plugin in self.hooks.answering(*_ASKED)), default=Scope.CLASS)

    @cached_property
    def _by_subject(self) -> list[Plugin]:
        return [plugin for plugin in self.hooks.answering(*_ASKED) if plugin.scope is Scope.JOB]

    def of(self, pod_class: PodClass, *, future: bool = False) -> CandidateTable:
        """The table of a class: for resources idle now, or also those being released (``future``)."""
        if self._pipelining != self.session.pipelining:
            self._tables.clear()
            self._pipelining = self.session.pipelining
        refused = self._refused_by() if self.session.snapshot.setbacks else _NOBODY
        key = (pod_class.id, future, self.alike(pod_class), refused)
        table = self._tables.get(key)
        if table is None:
            static = self.static.result(pod_class, self.session, self.hooks)
            if refused:
                static = replace(static, scores=[*static.scores, self._last(refused)])
            table = self._tables[key] = CandidateTable(Demand(pod_class, future), self.session, self.hooks, static)
        return table

    def places(self, job: JobState, pod_class: PodClass, number: int) -> int:
        """How many of ``number`` pods of a class of the job's nodes could take at most, if nothing else were there.

        As far as static filters tell, of which each answers of a node and a class alone. It is asked while a session
        opens: what else plug-ins would say depends on what is not known yet.
        """
        choices = self.session.shared.find(Choices)
        if self.hooks.guard.any_dead() or (choices is not None and job.key in choices.jobs):
            return number  # of several kinds of nodes only one is tried at a time
        if self.hooks.first("valid", job) is not None:
            return 0
        asked, count = self._places.get(pod_class.id, (0, 0))
        if count == asked < number:
            asked, count = self._places[pod_class.id] = number, self._count_places(pod_class, number)
        return min(count, number)

    def _count_places(self, pod_class: PodClass, number: int) -> int:
        table, static = self.session.snapshot.nodes, self.static.result(pod_class, self.session, self.hooks)
        if not pod_class.host_ports:  # mostly the first few nodes are enough
            some, has = static.least(table)
            demand = zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True)
            each = (has[row] // need if row < len(has) else 0 for row, need in demand)
            if some * min(each, default=number) >= number:
                return number
        allocatable, columns = table.allocatable, np.flatnonzero(~static.closed)
        places, start, size = 0, 0, _FIRST_NODES
        while places < number and start < len(columns):
            room = tasks_fitting(allocatable[:, columns[start : start + size]], pod_class)
            places += int((np.minimum(room, 1) if pod_class.host_ports else room).sum())
            start, size = start + size, 4 * size
        return min(places, number)

    def _refused_by(self) -> frozenset[str]:
        """Nodes that refused a bind of the job that is being placed."""
        subject = self.session.subject
        setback = self.session.snapshot.setbacks.get(subject.key) if subject is not None else None
        return setback.nodes if setback is not None else _NOBODY

    def _last(self, names: frozenset[str]) -> RawPoints:
        """Points that leave these nodes for when no other takes the task."""
        raw = np.zeros(self.session.nodes.size, dtype=np.float64)
        index = self.session.snapshot.nodes.index
        raw[[index[name] for name in names if name in index]] = -1.0
        return RawPoints(raw, _OUT_OF_REACH, Normalise.NONE, constant=False)

    def alike(self, pod_class: PodClass) -> str:
        """What tells subjects apart to which the plug-ins may answer differently about a class."""
        subject = self.session.subject
        if self.scope is Scope.CLASS or subject is None:
            return ""
        if self.scope is Scope.QUEUE:
            return subject.queue.name
        if not self._by_subject or self.hooks.guard.failures:
            return subject.key
        if self._answers is None:
            self._answers = [self.hooks.question(plugin, "answers_alike") for plugin in self._by_subject]
        parts = [answer(pod_class) for answer in self._answers]
        return subject.key if None in parts else f"{subject.queue.name}/{'/'.join(parts)}"

    def parts(self, jobs: Alike) -> Parts | None:
        """As `alike` for jobs of one shape at once, ``session.subject`` being one of them; None: not known."""
        subject = self.session.subject
        if subject is None or len(self._by_subject) != 1 or self.hooks.guard.failures:
            return None
        pod_class = next(iter(subject.record.pending.values())).pod_class
        parts = self._by_subject[0].answers_in_parts(pod_class, jobs)
        if parts is None:
            return None
        queue = subject.queue.name
        return Parts(f"{queue}/{parts.usual}", parts.others, f"{queue}/{parts.other}")
