"""Which nodes to try first when least work shall be lost, and when further ones need not be tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.node_scores import NOWHERE
from unisono.engine.session.victims import VictimIndex


class LossOrder:
    """What each evictable task would lose, as an order of nodes.

    A node's order is that of its cheapest victim: lowest priority of its job, then least lost. That is a lower bound of
    what all its victims together cost, so once a node costs no more than the next one's bound none can be cheaper.
    """

    def __init__(self, cycle: Cycle, index: VictimIndex) -> None:
        self.hooks = cycle.hooks
        self.index = index
        self._nodes = cycle.session.nodes.size
        self._lost: FloatArray = np.full(len(index), np.nan)
        levels, level = np.unique(index.jobs.priority, return_inverse=True)
        self._level_of = {int(priority): at for at, priority in enumerate(levels)}
        self._level: FloatArray = level.astype(np.float64)[index.job]
        self._step = 1.0
        self._bounds: FloatArray = np.zeros(self._nodes)

    def note(self, victim: Task) -> None:
        """A task was evicted or is back: what else its gang has to lose may differ now."""
        job = int(self.index.job[self.index.at(victim)])
        self._lost[self.index.of_job(job)] = np.nan

    def cheapest_first(self, points: FloatArray, lacking: BoolArray, mask: BoolArray) -> FloatArray:
        """``[N]`` points that put nodes where less is lost before others, and keep the order of those that are equal.

        Args:
            points: ``[N]`` finite, or ``-inf`` where there is no room to be made.
            lacking: ``[N]`` nodes where a pod has to go.
            mask: ``[T]`` who may go.

        """
        index = self.index
        chosen = np.flatnonzero(mask & index.alive)
        for at in chosen[np.isnan(self._lost[chosen])].tolist():
            self._lost[at] = self.hooks.lost_work((index.tasks[at],)) or 0.0
        self._step = 1.0 + float(self._lost[chosen].sum())
        bounds = self._bounds = np.full(self._nodes, np.inf)
        np.minimum.at(bounds, index.column[chosen], self._level[chosen] * self._step + self._lost[chosen])
        bounds[~lacking] = -1.0
        possible = points > NOWHERE
        found = np.full(len(points), NOWHERE)
        if possible.any():
            ranks = np.unique(bounds[possible], return_inverse=True)[1]
            found[possible] = points[possible] - ranks * (float(np.ptp(points[possible])) + 1.0)
        return found

    def bound(self, column: int) -> float:
        """No victims on the node cost less than this, by the last `cheapest_first`."""
        return float(self._bounds[column])

    def cost(self, priority: int, victims: Sequence[Task]) -> float:
        """What victims cost, the highest priority of their jobs first; comparable with `bound`."""
        return self._level_of[priority] * self._step + (self.hooks.lost_work(victims) or 0.0)
