"""The best node for a class where what placements change elsewhere is the same for whole groups of nodes.

A score that depends on the HyperNodes above a node moves for thousands of nodes with each placement, but it takes few
different values. So nodes are kept in *lines*, each with its best node by everything else, and after a placement only
the line of the node that changed is looked at again; the values of the lines are added when the best one is chosen.

Where placements only widen the lead of their own line (`LineScore.steady`), that line stays the best one for as long as
its best node has not lost more than the lead, and no values are asked for.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unisono.engine.answers import FloatArray
from unisono.engine.contract.accelerated import Index, LineScore
from unisono.engine.session.session import Session

NOWHERE = float("-inf")
_NOISE = 1e-6
"""A smaller lead may be one of rounding."""


class Scores(Protocol):
    """The scores that the lines are read from: a table of candidates.

    Attributes:
        session: whose nodes are scored.
        dynamic: ``[N]`` points that a placement on a node changes.
        static_points: ``[N]`` points that stay.

    """

    session: Session
    dynamic: FloatArray
    static_points: FloatArray


class ScoresByLine:
    """The scores of one table of candidates, by line; a line is a group of nodes that share a part of their score.

    Attributes:
        seen: how much of the session's log of touched columns has been taken in.
        static: the static points that have been taken in.

    """

    __slots__ = (
        "_base",
        "_best",
        "_first",
        "_lead",
        "_leader",
        "_lines",
        "_order",
        "_place",
        "_present",
        "_score",
        "_starts",
        "_steady",
        "seen",
        "static",
    )

    def __init__(self, table: Scores, score: LineScore) -> None:
        self._score = score
        codes = score.codes
        self._order: Index = np.argsort(codes, kind="stable")
        ordered = codes[self._order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self._present: Index = ordered[starts]
        self._starts: list[int] = [*starts.tolist(), len(codes)]
        sizes = np.diff(self._starts)
        self._place: Index = np.empty(len(codes), dtype=np.intp)
        self._place[self._order] = np.arange(len(codes))
        self._lines: Index = np.repeat(np.arange(len(starts)), sizes)
        self.read(table)

    def read(self, table: Scores) -> None:
        """Take over the scores of all nodes without what the lines add."""
        self.seen = len(table.session.touched)
        self.static = table.static_points
        self.forget_lead()
        self._base: FloatArray = (table.dynamic + table.static_points)[self._order]
        self._best: FloatArray = np.maximum.reduceat(self._base, self._starts[:-1])
        leads = np.flatnonzero(self._base == self._best[self._lines])
        _, firsts = np.unique(self._lines[leads], return_index=True)
        self._first: Index = self._order[leads[firsts]]

    def stale(self, table: Scores) -> bool:
        """Whether nodes have changed since that it has not been told of, or what is static about them."""
        return self.seen != len(table.session.touched) or self.static is not table.static_points

    def forget_lead(self) -> None:
        """Something else has changed than what `best` chose: the next time all lines are compared."""
        self._leader, self._lead, self._steady = -1, NOWHERE, 0

    def best(self) -> int:
        """Column of the best candidate, the first in name order among equally good lines; -1 when there is none."""
        if self._steady > 0 and self._lead > _NOISE:
            return self._first.item(self._leader)
        totals = self._score.points().take(self._present)
        totals += self._best
        at = int(totals.argmax())
        top = totals.item(at)
        if top == NOWHERE:
            return -1
        column = int(np.minimum.reduce(self._first[totals == top]))
        line = self._leader = self._lines.item(self._place.item(column))
        totals[line] = NOWHERE
        self._lead = top - float(totals.max())
        self._steady = 1 + self._score.steady(self._present.item(line))
        return column

    def set(self, table: Scores, column: int, value: float) -> None:
        """A node has a new dynamic score, because the pod has been placed there for which `best` was asked."""
        place = self._place.item(column)
        line = self._lines.item(place)
        before = self._best.item(line)
        begin, end = self._starts[line], self._starts[line + 1]
        part = self._base[begin:end]
        part[place - begin] = value + table.static_points[column]
        lead = int(part.argmax())
        self._best[line] = after = part.item(lead)
        self._first[line] = self._order[begin + lead]
        self._lead += after - before
        self._steady -= 1
