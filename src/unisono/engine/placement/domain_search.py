"""Domains to try for a job or a sub-group, and what is needed to place tasks in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unisono.cluster.hypertree import Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.candidates.static_answers import StaticResult, StaticResults
from unisono.engine.candidates.tables import Tables
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.domain_taker import DomainTaker
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import SubGroup, by_class, groups_of, wants_topology

# How many more tasks of a class nodes and domains could hold: bounds that spare hopeless trials.

Counts = npt.NDArray[np.int64]
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
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_FOLLOWED:
                self._known.clear()

            def count(columns: Index) -> Counts:
                return self._count(pod_class, result, columns, empty=empty)

            found = self._known[key] = result, FollowedSums(self.session, count)
        return found[1].follow()

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
        found: list[int] = self._followed(pod_class, empty=False).sums[list(domains)].tolist()
        return found

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

    def points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """``[len(domains)]`` points of all plug-ins."""
        total: FloatArray = np.zeros(len(domains), dtype=np.float64)
        for _, method in self.hooks.flat["domain_points"]:
            total = total + method(group, domains)
        return total

    def ranked(self, group: SubGroup, domains: Sequence[int]) -> list[tuple[int, float]]:
        """Domains with their points, best first; among equals that with most of the group's tasks, then by name."""
        points = self.points(group, domains).tolist()
        if not group.on:
            return sorted(zip(domains, points, strict=True), key=lambda item: (-item[1], item[0]))

        def key(item: tuple[int, float]) -> tuple[float, int, int]:
            at, value = item
            own = sum(number for leaf, number in group.on.items() if self.tree.is_above(at, leaf))
            return -value, -own, at

        return sorted(zip(domains, points, strict=True), key=key)

    def taker(
        self, group: SubGroup, domain: int, pod_class: PodClass, kept: BoolArray | None = None, *, future: bool
    ) -> DomainTaker:
        """The best nodes of a domain for tasks of a class; those ``kept`` alone, where that is given."""
        tables = self.tables if wants_topology(self.session, group.job) else self.cycle.tables
        table = tables.of(pod_class, future=future)
        return DomainTaker(table, self.tree.columns[domain], group, self.hooks, kept)

    def job_key(self, group: SubGroup, first: bool) -> tuple[Any, ...]:
        """Order of sub-groups: those that the gang needs first."""
        return (not first, *self.hooks.keys("group_key", group), group.number)

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
