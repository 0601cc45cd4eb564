"""The best node for a class where what placements change elsewhere is the same for whole groups of nodes.

A score that depends on the HyperNodes above a node moves for thousands of nodes with each placement, but it takes few
different values. So nodes are kept in *lines*, each with its best node by everything else, and after a placement only
the line of the node that changed is looked at again; the values of the lines are added when the best one is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import FloatArray

if TYPE_CHECKING:
    from unisono.engine.tables import CandidateTable

NOWHERE = float("-inf")
Index = npt.NDArray[np.intp]


class LineScore(Protocol):
    """Points of one class that all nodes of a line share.

    Attributes:
        codes: ``[N]`` the line of each node, fixed for the session.

    """

    codes: Index

    def points(self) -> FloatArray:
        """``[G]`` points of each line as things stand; exactly those that ``batch_score`` gives each node of it."""
        ...


class Lines:
    """The lines of one table of candidates.

    Attributes:
        seen: how much of the session's log of touched columns has been taken in.
        static: the static points that have been taken in.

    """

    __slots__ = (
        "_base",
        "_best",
        "_first",
        "_lines",
        "_order",
        "_place",
        "_present",
        "_score",
        "_starts",
        "seen",
        "static",
    )

    def __init__(self, table: CandidateTable, score: LineScore) -> None:
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

    def read(self, table: CandidateTable) -> None:
        """Take over the scores of all nodes without what the lines add."""
        self.seen = len(table.session.touched)
        self.static = table.static_points
        self._base: FloatArray = (table.dynamic + table.static_points)[self._order]
        self._best: FloatArray = np.maximum.reduceat(self._base, self._starts[:-1])
        leads = np.flatnonzero(self._base == self._best[self._lines])
        _, firsts = np.unique(self._lines[leads], return_index=True)
        self._first: Index = self._order[leads[firsts]]

    def stale(self, table: CandidateTable) -> bool:
        """Whether nodes have changed since that it has not been told of, or what is static about them."""
        return self.seen != len(table.session.touched) or self.static is not table.static_points

    def best(self) -> int:
        """Column of the best candidate, the first in name order among equally good lines; -1 when there is none."""
        totals = self._score.points().take(self._present)
        totals += self._best
        at = int(totals.argmax())
        top = totals.item(at)
        if top == NOWHERE:
            return -1
        return int(np.minimum.reduce(self._first[totals == top]))

    def set(self, table: CandidateTable, column: int, value: float) -> None:
        """A node has a new dynamic score."""
        place = int(self._place[column])
        line = int(self._lines[place])
        begin, end = self._starts[line], self._starts[line + 1]
        part = self._base[begin:end]
        part[place - begin] = value + table.static_points[column]
        lead = int(part.argmax())
        self._best[line] = part[lead]
        self._first[line] = self._order[begin + lead]
