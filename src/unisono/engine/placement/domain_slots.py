"""How many more tasks of a class nodes and domains could hold: bounds that spare hopeless trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from unisono.cluster.hypertree import Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.candidates.static_answers import StaticResult, StaticResults
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.session import Session
from unisono.engine.session.task_runs import by_class

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

    def held(self, tasks: Iterable[Task], domains: Sequence[int], *, empty: bool = False) -> Counts:
        """``[len(domains)]`` how many of ``tasks`` each domain could hold at most (classes counted one by one)."""
        total: Counts = np.zeros(len(domains), dtype=np.int64)
        at = list(domains)
        for pod_class, number in by_class(tasks).items():
            total += np.minimum(self._followed(pod_class, empty=empty).sums[at], number)
        return total
