"""Domains to try for a job or a sub-group, and the placing of a run of equal tasks in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unisono.cluster.hypertree import Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray, Normalise
from unisono.engine.candidates.static_answers import StaticResult, StaticResults
from unisono.engine.candidates.table import NOWHERE, CandidateTable, Demand
from unisono.engine.candidates.tables import Tables
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import SubGroup, by_class, groups_of, wants_topology


class DomainTaker:
    """A table of candidates seen through a domain.

    Static scores that are normalised over candidates are normalised over those of the domain; points of the topology
    follow the places that the sub-group has, task by task. Of its nodes only those ``kept`` are used, where given.
    """

    def __init__(
        self,
        table: CandidateTable,
        where: Index,
        group: SubGroup,
        hooks: CombinedAnswers,
        kept: BoolArray | None = None,
    ) -> None:
        self.table = table
        self.where = where
        self.group = group
        self.hooks = hooks
        self.guided = group.wants_topology and hooks.has("group_score")
        self._scores = [method for _, method in hooks.flat["group_score"]] if self.guided else []
        self.all_nodes = len(where) == len(table.total) and kept is None
        self._closed = None if kept is None else ~kept[where]
        self._span = _span(where)

    @property
    def demand(self) -> Demand:
        """What the table answers for."""
        return self.table.demand

    @property
    def counts_domains(self) -> bool:
        """As the table does, where it is asked for a whole run."""
        return self.all_nodes and not self.guided and self.table.counts_domains

    def admits(self, column: int) -> bool:
        """Whether a node is a candidate now."""
        return self.table.admits(column)

    def take(self, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks one after the other; returns their columns.

        Changes the session's matrix, the log of touched columns and the group's places, as `CandidateTable.take` does.
        """
        columns = self.table.take(wanted) if self.all_nodes and not self.guided else self._take_each(wanted)
        if not self.guided:
            self.group.took(columns)
        return columns

    def _take_each(self, wanted: int) -> list[int]:
        table, session = self.table, self.table.session
        columns: list[int] = []
        table.follow()
        parts = self._parts()
        points = self._points(parts)
        alone = not table.batchable or table.layer is not None
        if not parts and not alone:
            return self._take_together(wanted, points)
        for _ in range(wanted if not alone else min(wanted, 1)):
            at = int(points.argmax()) if len(points) else 0
            if not len(points) or points[at] == NOWHERE:
                break
            column = int(self.where[at])
            session.matrix[:, column] += table.change
            session.touched.append(column)
            columns.append(column)
            if alone:  # the session's domains and ports learn of it only now, and the table looks again after that
                if self.guided:
                    self.group.took((column,))
                break
            table.follow()
            before = parts
            if self.guided:
                self.group.took((column,))
                parts = self._parts()
            if before or parts or (table.tracked and table.total[column] == NOWHERE):
                points = self._points(parts)
            else:
                points[at] = NOWHERE if table.total[column] == NOWHERE else table.dynamic[column] + self._static[at]
        return columns

    def _take_together(self, wanted: int, points: FloatArray) -> list[int]:
        """Where a placement changes nothing but its node: as `ways.Together`, among the nodes of the domain."""
        table, columns = self.table, list[int]()
        matrix, memo, change = table.session.matrix, table.memo, table.change
        for _ in range(wanted if len(points) else 0):
            at = int(points.argmax())
            if points[at] == NOWHERE:
                break
            column = int(self.where[at])
            state = matrix[:, column]
            state += change
            columns.append(column)
            key = state.tobytes()
            value = memo.get(key)
            if value is None:
                value = table.look(column, key)
            table.dynamic[column] = value
            table.total[column] = value + table.points[column]
            points[at] = value + self._static[at]
            if value == NOWHERE and table.tracked:
                table.renormalise()
                points = self._points([])
        table.session.touched.extend(columns)
        table.seen = len(table.session.touched)
        if self.guided:
            self.group.took(columns)
        return columns

    def _points(self, parts: list[FloatArray]) -> FloatArray:
        table, where = self.table, self._span
        total: FloatArray = table.total[where]
        if self._closed is not None:
            total = np.where(self._closed, NOWHERE, total)
        self._static: FloatArray = table.points[where]
        if table.tracked and not self.all_nodes:
            candidates = total > NOWHERE
            self._static = self._static - table.static_points[where] + self._normalised(candidates)
            total = np.where(candidates, table.dynamic[where] + self._static, NOWHERE)
        for part in parts:
            total = total + part
        return total.copy() if total.base is not None else total  # the table's own are not changed here

    def _parts(self) -> list[FloatArray]:
        """Points of the topology; none where all nodes of the domain are equally near."""
        group, where = self.group, self.where
        return [part for score in self._scores if (part := score(group, where)) is not None]

    def _normalised(self, candidates: BoolArray) -> FloatArray:
        """Static points of the domain's nodes, over those of them that are candidates."""
        points: FloatArray = np.zeros(len(self.where), dtype=np.float64)
        for score in self.table.static.scores:
            raw = score.raw[self._span]
            if score.normalise is Normalise.NONE:
                points += score.weight * raw
                continue
            top = float(raw.max(where=candidates, initial=0.0))
            share = np.trunc(raw * 100.0 / top) if top > 0 else np.zeros_like(points)
            points += score.weight * (share if score.normalise is Normalise.MAX else 100.0 - share)
        return points


def _span(columns: Index) -> slice | Index:
    """Ascending columns as a slice where none is left out, so that picking them copies nothing."""
    if len(columns) and int(columns[-1]) - int(columns[0]) + 1 == len(columns):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


# How many more tasks of a class nodes and domains could hold: bounds that spare hopeless trials.

Counts = npt.NDArray[np.int64]
_FEW = 4
"""Domains that are tried without another look."""
_MOST_FOLLOWED = 64
"""Classes of pods whose counts are kept at a time."""


class DomainSlots:
    """Upper bounds of how many tasks fit into domains, from resources and static filters alone."""

    def __init__(self, session: Session, hooks: CombinedAnswers, static: StaticResults) -> None:
        self.session = session
        self.hooks = hooks
        self.static = static
        self._known: dict[tuple[int, bool, int], tuple[StaticResult, FollowedSums]] = {}

    def slots(self, pod_class: PodClass, *, empty: bool = False) -> Counts:
        """``[N]`` how many more tasks each node could take, now or once what is released is gone; read only.

        With ``empty`` as if nothing ran there.
        """
        return self._followed(pod_class, empty=empty).values

    def _followed(self, pod_class: PodClass, *, empty: bool) -> FollowedSums:
        result = self.static.result(pod_class, self.session, self.hooks)
        key = (pod_class.id, empty, id(result))
        cached = self._known.get(key)
        if cached is None:
            if len(self._known) >= _MOST_FOLLOWED:
                self._known.clear()

            def count(columns: Index) -> Counts:
                return self._count(pod_class, result, columns, empty=empty)

            cached = self._known[key] = result, FollowedSums(self.session, count)
        return cached[1].follow()

    def _count(self, pod_class: PodClass, result: StaticResult, columns: Index, *, empty: bool) -> Counts:
        nodes, which = self.session.nodes, (pod_class.rows[:, None], columns)
        free = nodes.allocatable[which]
        if not empty:
            free -= nodes.used[which]
            free = np.maximum(free, free + nodes.releasing[which] - nodes.pipelined[which])
        free //= np.maximum(pod_class.amounts, 1)[:, None]
        count: Counts = np.minimum.reduce(free, axis=0, initial=np.iinfo(np.int32).max)
        np.maximum(count, 0, out=count)
        count[result.bits[columns] != 0] = 0
        return count

    def room(self, pod_class: PodClass, domains: Sequence[int]) -> list[int]:
        """``[len(domains)]`` how many more tasks of a class each domain could hold at most."""
        counts: list[int] = self._followed(pod_class, empty=False).sums[list(domains)].tolist()
        return counts

    def held(self, tasks: Iterable[Task], domains: Sequence[int], *, empty: bool = False) -> Counts:
        """``[len(domains)]`` how many of ``tasks`` each domain could hold at most (classes counted one by one)."""
        total: Counts = np.zeros(len(domains), dtype=np.int64)
        at = list(domains)
        for pod_class, number in by_class(tasks).items():
            total += np.minimum(self._followed(pod_class, empty=empty).sums[at], number)
        return total


class Search:
    """What one cycle knows of domains.

    Attributes:
        tree: HyperNodes.
        slots: bounds of what domains hold.
        tables: candidates for tasks of jobs that ask for a topology; other jobs have their own, because plug-ins
            score their nodes differently.
    """

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.hooks = cycle.hooks
        self.session = cycle.session
        self.tree = cycle.session.snapshot.hyper_nodes
        static = cycle.tables.static
        self.slots = DomainSlots(cycle.session, cycle.hooks, static)
        self.tables = Tables(cycle.session, cycle.hooks, static)

    def gradients(self, job: JobState, group: SubGroup | None, top: int, *, evict: bool = False) -> list[Sequence[int]]:
        """Domains of a job or sub-group below ``top``; the first list is tried first."""
        for _, method in self.hooks.flat["domain_gradients"]:
            answer = method(job, group, top, evict=evict)
            if answer is not None:
                return [list(gradient) for gradient in answer if len(gradient)]
        return [[top]]

    def able(self, tasks: Sequence[Task], domains: Sequence[int], least: int) -> list[int]:
        """Those of the domains that may hold ``least`` of the tasks, and where one of these may be the first.

        Which nodes are free of unwanted company, or have the company that is wanted, is looked at for all domains at
        once: a trial of each takes many times as long. Where it is none, one is left, whose trial tells why.
        """
        held = self.slots.held(tasks, domains).tolist()
        able = [at for at, number in zip(domains, held, strict=True) if number >= least]
        if len(able) < _FEW:
            return able
        first = self._may_be_first(tasks)
        if first is None:
            return able
        opened = self.tree.sums_at(first.astype(np.int64), able).tolist()
        return [at for at, number in zip(able, opened, strict=True) if number] or able[:1]

    def _may_be_first(self, tasks: Iterable[Task]) -> BoolArray | None:
        """``[N]`` nodes off which what they want of other pods does not keep all of the tasks; None for all nodes."""
        open_nodes: BoolArray | None = None
        for pod_class in by_class(tasks):
            if pod_class.base is pod_class:
                return None
            for future in (False, True):
                layer = self.tables.of(pod_class, future=future).layer
                if layer is None or not layer.filters:
                    return None
                allowed = ~layer.refused()
                open_nodes = allowed if open_nodes is None else open_nodes | allowed
        return open_nodes

    def points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """``[len(domains)]`` points of all plug-ins."""
        total: FloatArray = np.zeros(len(domains), dtype=np.float64)
        for _, method in self.hooks.flat["domain_points"]:
            total = total + method(group, domains)
        return total

    def ranked(self, group: SubGroup, domains: Sequence[int]) -> list[tuple[int, float]]:
        """Domains with their points, best first; among equals that with most of the group's tasks, then by name.

        Those that the pods themselves prefer, for the company that they have there, come before all others.
        """
        points = self.points(group, domains).tolist()
        liked = self._liked(group, domains)
        if liked is not None:
            chosen = dict(zip(domains, liked, strict=True))
            return sorted(zip(domains, points, strict=True), key=lambda item: (-chosen[item[0]], -item[1], item[0]))
        if not group.on:
            return sorted(zip(domains, points, strict=True), key=lambda item: (-item[1], item[0]))

        def key(item: tuple[int, float]) -> tuple[float, int, int]:
            at, value = item
            own = sum(number for leaf, number in group.on.items() if self.tree.is_above(at, leaf))
            return -value, -own, at

        return sorted(zip(domains, points, strict=True), key=key)

    def _liked(self, group: SubGroup, domains: Sequence[int]) -> list[float] | None:
        """``[len(domains)]`` the most points that preferences about other pods give a node; None without any."""
        total: FloatArray | None = None
        for pod_class in by_class(group.tasks):
            terms = pod_class.terms
            layer = None
            if terms.preferred or any(not spread.hard for spread in terms.spread):
                layer = self.tables.of(pod_class).layer
            if layer is not None and layer.scores:
                points = layer.points(np.ones(self.session.nodes.size, dtype=np.bool_)) + np.zeros(1)
                total = points if total is None else total + points
        if total is None or not total.any():
            return None
        return [float(total[columns].max(initial=0.0)) for columns in (self.tree.columns[at] for at in domains)]

    def taker(
        self, group: SubGroup, domain: int, pod_class: PodClass, kept: BoolArray | None = None, *, future: bool
    ) -> DomainTaker:
        """The best nodes of a domain for tasks of a class; those ``kept`` alone, where that is given."""
        tables = self.tables if wants_topology(self.session, group.job) else self.cycle.tables
        table = tables.of(pod_class, future=future)
        return DomainTaker(table, self.tree.columns[domain], group, self.hooks, kept)

    def job_key(self, group: SubGroup, first: bool) -> tuple[Any, ...]:
        """Order of sub-groups: those that the gang needs first, then those for which others were evicted."""
        status = group.job.status
        promised = any(task.nominated_node and status(task) is TaskStatus.PENDING for task in group.tasks)
        return (not first, not promised, *self.hooks.keys("group_key", group), group.number)

    def needed(self, job: JobState) -> set[str]:
        """Keys of the smallest set of sub-groups with which each policy reaches its minimum."""
        groups = groups_of(self.session, job)
        needed = {group.key for group in groups.outermost if group.parts}
        for at, policy in enumerate(job.record.sub_groups):
            if not policy.minimum:
                continue
            own = [group for group in groups if group.policy == at and group.above is None]
            open_ones = [group for group in own if group.ready_count < group.minimum]
            missing = policy.minimum - (len(own) - len(open_ones))
            open_ones.sort(key=lambda group: self.job_key(group, first=False))
            needed.update(group.key for group in open_ones[: max(missing, 0)])
        return needed


def search_of(cycle: Cycle) -> Search:
    """The search of a cycle; made when it is first asked for."""
    return cycle.session.shared.of(Search, lambda: Search(cycle))
