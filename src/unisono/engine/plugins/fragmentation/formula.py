"""The measure of fragmentation and the score, as array formulas.

Units: CPU in milli-cores, GPUs in thousandths of a card. Shapes: ``n`` nodes, ``C`` cards of a node, ``K`` items of the
target workload, ``G`` groups of items that ask for the same cards. All sums are of whole numbers, so no answer depends
on which nodes are asked about together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

NEVER = np.int64(1) << 40
"""A need that no card meets."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What the cluster's pods usually ask for.

    Attributes:
        total: pods that it stands for, those without GPU included.
        weight: ``[K]`` how many pods an item with GPUs stands for; items of a group follow each other.
        cpu: ``[K]`` CPU of one.
        starts: ``[G]`` first item of each group.
        count: ``[G]`` cards of one.
        need: ``[G, N]`` what it needs of each card, by node; `NEVER` on nodes that cannot run it.

    """

    total: int
    weight: Ints
    cpu: Ints
    starts: Index
    count: Ints
    need: Ints

    def runnable(self, cpu: Ints) -> Ints:
        """``[G, n]`` pods of each group for which nodes with so much idle CPU have enough of it."""
        if not len(self.starts):
            return np.zeros((0, len(cpu)), dtype=np.int64)
        enough = self.weight[:, None] * (cpu[None] >= self.cpu[:, None])
        return np.asarray(np.add.reduceat(enough, self.starts, axis=0))


def fragments(work: Workload, columns: Index, cpu: Ints, free: Ints) -> Ints:
    """``[n]`` expected fragment of each node, times ``work.total``.

    A node's fragment for an item is all that is idle where the item cannot run (or needs no GPU), else what is idle on
    cards too full for it.

    Args:
        work: the target workload.
        columns: ``[n]`` positions of the nodes in ``work.need``.
        cpu: ``[n]`` idle CPU.
        free: ``[n, C]`` idle part of each card.

    """
    roomy = np.where(free[None] >= work.need[:, columns, None], free, 0)
    fits = np.count_nonzero(roomy, axis=2) >= work.count[:, None]
    useful = np.where(fits, roomy.sum(axis=2), 0)
    return np.asarray(work.total * free.sum(axis=1) - (work.runnable(cpu) * useful).sum(axis=0))


def fragments_by_card(work: Workload, columns: Index, cpu: Ints, free: Ints, taken: Ints) -> Ints:
    """``[n, C]`` as `fragments`, if ``taken`` (``[n]``) of that one card were taken; ``cpu`` is what is idle then."""
    need = work.need[:, columns, None]
    left = free - taken[:, None]
    before = np.where(free[None] >= need, free, 0)
    after = np.where(left[None] >= need, left, 0)
    number = np.count_nonzero(before, axis=2)[:, :, None] - (before > 0) + (after > 0)
    useful = np.where(number >= work.count[:, None, None], before.sum(axis=2)[:, :, None] - before + after, 0)
    idle = (free.sum(axis=1) - taken)[:, None]
    return np.asarray(work.total * idle - (work.runnable(cpu)[:, :, None] * useful).sum(axis=0))


def points(before: Ints, after: Ints, total: int) -> Ints:
    """``trunc(100 / (1 + exp(-(before - after) / 1000)))``, fragments in thousandths of a card: 50 changes nothing.

    ``before`` and ``after`` are fragments times ``total``, which is `Workload.total`.
    """
    gain = (before - after) / (1000.0 * max(total, 1))
    return np.asarray(np.trunc(100.0 / (1.0 + np.exp(-gain))), dtype=np.int64)
