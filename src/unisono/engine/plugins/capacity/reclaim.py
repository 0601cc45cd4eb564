"""Whose tasks the capacity plug-in lets go when a queue takes back what it deserves."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS
from unisono.engine.plugins.capacity.tree import ROOT, Branch
from unisono.engine.session.amounts import Amounts

Demand = list[tuple[int, int]]
"""(row, amount) of what a task asks for, without ``pods``."""


def demand_of(pod_class: PodClass) -> Demand:
    """What a task of the class asks for."""
    pairs = zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True)
    return [pair for pair in pairs if pair[0] != PODS]


def levels(branch: Branch, level: int) -> list[Branch]:
    """The ancestors below the root, nearest first, at most ``level`` of them."""
    above = [ancestor for ancestor in branch.chain() if ancestor is not branch and ancestor.name != ROOT]
    return above[:level]


class Reclaim:
    """Candidates one after the other; each one that is let go counts as gone for the next.

    Args:
        actor: branch of the queue that takes.
        wanted: what its task asks for, None for a whole gang.
        level: up to which ancestor a branch must be over its share as well.

    """

    def __init__(self, actor: Branch, wanted: Demand | None, level: int) -> None:
        self.actor = actor
        self.wanted = None if wanted is None else {row for row, _ in wanted}
        self.level = level
        self.shared = {id(branch) for branch in actor.chain()}
        self._near = {branch.name for branch in levels(actor, level)}
        self._gone: dict[str, Amounts] = {}

    def takes(self, branch: Branch, demand: Demand) -> bool:
        """Whether a task of ``branch`` that holds ``demand`` may go; if so it is gone from now on."""
        rows = [row for row, _ in demand]
        if self.wanted is not None and not any(row in self.wanted for row in rows):
            return False
        apart = [one for one in branch.chain() if id(one) not in self.shared]
        if not all(self._keeps_guarantee(one, demand) for one in apart):
            return False
        if not self._over(branch, rows, leaf=True):
            return False
        if not all(self._over(one, rows) for one in levels(branch, self.level) if id(one) not in self.shared):
            return False
        for one in branch.chain():
            held = self._held(one)
            for row, amount in demand:
                held[row] -= amount
        return True

    def _held(self, branch: Branch) -> Amounts:
        return self._gone.setdefault(branch.name, list(branch.held))

    def _keeps_guarantee(self, branch: Branch, demand: Demand) -> bool:
        left = list(self._held(branch))
        for row, amount in demand:
            left[row] -= amount
        return all(own <= rest for own, rest in zip(branch.guarantee, left, strict=True) if own)

    def _over(self, branch: Branch, rows: Sequence[int], *, leaf: bool = False) -> bool:
        """It deserves none of the task's resources, or holds more than it deserves of one of them."""
        deserved, held = branch.deserved, self._held(branch)
        relevant = [row for row in rows if deserved[row] > 0]
        if not relevant:
            return not (leaf and self._protected(branch, rows))
        return any(held[row] > deserved[row] for row in relevant)

    def _protected(self, branch: Branch, rows: Sequence[int]) -> bool:
        """Two queues without a share of their own below one ancestor do not take from each other."""
        if not self._near & {one.name for one in levels(branch, self.level)}:
            return False
        return not any(self.actor.deserved[row] > 0 for row in rows)
