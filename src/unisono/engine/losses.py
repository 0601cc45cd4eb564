"""Which nodes to try first when least work shall be lost."""

from __future__ import annotations

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.cycle import Cycle
from unisono.engine.room import NOWHERE
from unisono.engine.victims import VictimIndex


class Losses:
    """What each evictable task would lose, as an order of nodes.

    The order is by each node's cheapest victim (lowest priority, then least lost), so it is a guess where several must
    go; nodes are compared by all their victims before one is chosen.
    """

    def __init__(self, cycle: Cycle, index: VictimIndex) -> None:
        self.hooks = cycle.hooks
        self.index = index
        self._nodes = cycle.session.nodes.size
        self._lost: FloatArray = np.full(len(index), np.nan)

    def note(self, victim: Task) -> None:
        """A task was evicted or is back: what else its gang has to lose may differ now."""
        self._lost[self.index.job == self.index.job[self.index.at(victim)]] = np.nan

    def cheapest_first(self, points: FloatArray, lacking: BoolArray, mask: BoolArray) -> FloatArray:
        """``[N]`` points that put nodes where less is lost before others, and keep the order of those that are equal.

        Args:
            points: ``[N]`` finite, or ``-inf`` where there is no room to be made.
            lacking: ``[N]`` nodes where somebody has to go.
            mask: ``[T]`` who may go.

        """
        index = self.index
        chosen = np.flatnonzero(mask & index.alive)
        for at in chosen[np.isnan(self._lost[chosen])].tolist():
            self._lost[at] = self.hooks.lost_work((index.tasks[at],))
        priorities = index.jobs.priority[index.job[chosen]].astype(np.float64)
        dearness = np.unique(np.stack((priorities, self._lost[chosen])), axis=1, return_inverse=True)[1].ravel() + 1
        ranks = np.full(self._nodes, len(chosen) + 1, dtype=np.intp)
        np.minimum.at(ranks, index.column[chosen], dearness)
        ranks[~lacking] = 0
        possible = points > NOWHERE
        found = np.full(len(points), NOWHERE)
        if possible.any():
            found[possible] = points[possible] - ranks[possible] * (float(np.ptp(points[possible])) + 1.0)
        return found
