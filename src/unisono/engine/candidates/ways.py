"""How candidates of a class are found: alone, in a line of equal pods, or with pods across nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector
from unisono.engine.answers import BoolArray, FloatArray, Veto
from unisono.engine.candidates.static_answers import RawPoints
from unisono.engine.contract.accelerated import Index, LineScore
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.session import Session

# The best node for a class where what placements change elsewhere is the same for whole groups of nodes.
#
# A score that depends on the HyperNodes above a node moves for thousands of nodes with each placement, but it takes few
# different values. So nodes are kept in *lines*, each with its best node by everything else, and after a placement only
# the line of the node that changed is looked at again; the values of the lines are added when the best one is chosen.
#
# Where placements only widen the lead of their own line (`LineScore.steady`), that line stays the best one for as long
# as its best node has not lost more than the lead, and no values are asked for.

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
        "_base", "_best", "_first", "_lead", "_leader", "_lines", "_order", "_place", "_present", "_score", "_starts",
        "_steady", "seen", "static",
    )  # fmt: skip

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


# What a placement may change on other nodes than its own: vetoes per domain, and points over all candidates.

HOOKS = ("domain_filter", "batch_score")
Stamps = list[int | None]


class CrossNodeAnswers:
    """What ``domain_filter`` and ``batch_score`` answer for one class: a placement may change it on other nodes.

    Attributes:
        alone: a placement of the class may change its own answers, so tasks are placed one by one.
        by_domains: placements change the answers through the session's pods per domain only.
        lines: the only answers are points that whole lines of nodes share; tasks are placed by them.
    """

    def __init__(
        self,
        pod_class: PodClass,
        session: Session,
        hooks: CombinedAnswers,
        plugins: list[Plugin],
        heeds: Callable[[Veto], bool],
    ) -> None:
        self.pod_class = pod_class
        self.session = session
        self.hooks = hooks
        self.heeds = heeds
        self.filters = [asked for asked in hooks.flat["domain_filter"] if asked[0] in plugins]
        self.scores = [asked for asked in hooks.flat["batch_score"] if asked[0] in plugins]
        self.alone = bool(self.scores) or any(
            hooks.query(plugin, "self_affecting", pod_class) for plugin, _ in self.filters
        )
        self.by_domains = not self.scores and all(
            hooks.query(plugin, "by_domains", pod_class) for plugin, _ in self.filters
        )
        self._stamp_of = [hooks.question(plugin, "stamp") for plugin in plugins]
        self._stamps: Stamps = []
        self.lines = self._shared()

    def _shared(self) -> LineScore | None:
        """The points of lines, where one plug-in scores by lines and no other plug-in is concerned."""
        if self.filters or len(self.scores) != 1:
            return None
        plugin, _ = self.scores[0]
        method = dict(self.hooks.flat["line_score"]).get(plugin)
        if method is None:
            return None
        line_score: LineScore | None = method(self.pod_class)
        return line_score

    def failed(self, error: BaseException) -> None:
        """The points of lines could not be asked: ``batch_score`` is."""
        self.lines = None
        for plugin, _ in self.scores:
            self.hooks.guard.caught(plugin, "line_score", self.pod_class, error)

    @classmethod
    def of(
        cls, pod_class: PodClass, session: Session, hooks: CombinedAnswers, heeds: Callable[[Veto], bool]
    ) -> CrossNodeAnswers | None:
        """The layer of a class; None when no plug-in is concerned."""
        plugins = [plugin for plugin in hooks.answering(*HOOKS) if hooks.query(plugin, "stamp", pod_class) is not None]
        return cls(pod_class, session, hooks, plugins, heeds) if plugins else None

    def stamps(self) -> Stamps:
        """What the plug-ins say of the state that their answers depend on."""
        pod_class = self.pod_class
        return [stamp(pod_class) for stamp in self._stamp_of]

    def moved(self, now: Stamps) -> bool:
        """Whether an answer may have changed since `blocked` was called; without scores, candidates do not matter."""
        return bool(self.scores) or -1 in now or self._stamps != now

    def blocked(self, now: Stamps | None = None) -> BoolArray:
        """``[N]`` nodes that a domain filter refuses; ``now``: the present stamps, where they are known."""
        self._stamps = self.stamps() if now is None else now
        return self.refused()

    def refused(self) -> BoolArray:
        """The same for those who do not keep the answer."""
        nodes = self.session.nodes
        refused = np.zeros(nodes.size, dtype=np.bool_)
        for _, method in self.filters:
            for veto in method(self.pod_class, nodes):
                if self.heeds(veto):
                    refused |= veto.nodes
        return refused

    def points(self, candidates: BoolArray) -> FloatArray | float:
        """``[N]`` points given the present candidates."""
        total: FloatArray | float = 0.0
        given = candidates.view()
        given.flags.writeable = False
        for _, method in self.scores:
            part = method(self.pod_class, self.session.nodes, given)
            if part is not None:
                total = total + part
        return total


# How a table of candidates places a run of equal tasks: all at once, one by one, or by lines of nodes.

FEW = 12
"""Up to so many nodes are looked at one by one, where plug-ins can do that."""


class Table(Protocol):
    """What a way uses of a `CandidateTable`; the attributes are explained there."""

    session: Session
    barred: BoolArray
    change: Vector
    memo: dict[bytes, float]
    layer: CrossNodeAnswers | None
    tracked: list[RawPoints]
    total: FloatArray
    dynamic: FloatArray
    points: FloatArray
    static_points: FloatArray
    seen: int

    def best(self) -> int:
        """Column of the best candidate."""
        ...

    def follow(self) -> None:
        """Look again at the nodes that have changed."""
        ...

    def look(self, column: int, key: bytes) -> float:
        """The score of a node as it is now."""
        ...

    def renormalise(self) -> None:
        """Add the static points again, after a node has ceased to be a candidate."""
        ...

    def sum_static(self) -> None:
        """Bring ``static_points`` up to date with the candidates."""
        ...

    def count_domains(self, column: int) -> None:
        """Count a pod on a node in the session's domains."""
        ...


class Way(ABC):
    """A way to place a run of equal tasks. It keeps no table: a table keeps its way, and both go with their session."""

    @abstractmethod
    def take(self, table: Table, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks one after the other, each on the best node; returns their columns.

        Changes the session's matrix and logs the touched columns; everything else is the caller's.
        """


class Together(Way):
    """Nothing but the node itself changes with a placement: the whole run needs no question to plug-ins in between."""

    def take(self, table: Table, wanted: int) -> list[int]:
        """See `Way`."""
        table.follow()
        columns: list[int] = []
        total, dynamic, points = table.total, table.dynamic, table.points
        if not len(total):
            return columns
        matrix, memo, change = table.session.matrix, table.memo, table.change
        argmax = total.argmax
        for _ in range(wanted):
            column = int(argmax())
            if total[column] == NOWHERE:
                break
            state = matrix[:, column]
            state += change
            columns.append(column)
            key = state.tobytes()
            value = memo.get(key)
            if value is None:
                value = table.look(column, key)
            dynamic[column] = value
            total[column] = value + points[column]
            if value == NOWHERE and table.tracked:
                table.renormalise()
                total, points = table.total, table.points
                argmax = total.argmax
        table.session.touched.extend(columns)
        table.seen = len(table.session.touched)
        return columns


class OneByOne(Way):
    """A placement may change what plug-ins say of other nodes.

    Args:
        counting: it does so through the session's domains only, which are counted here; else one task is placed, and
            the caller tells the plug-ins before the next.
    """

    def __init__(self, *, counting: bool) -> None:
        self.counting = counting

    def take(self, table: Table, wanted: int) -> list[int]:
        """See `Way`."""
        session, columns = table.session, list[int]()
        for _ in range(wanted if self.counting else min(wanted, 1)):
            column = table.best()
            if column < 0:
                break
            session.matrix[:, column] += table.change
            session.touched.append(column)
            columns.append(column)
            if self.counting:
                table.count_domains(column)
        return columns


class ByLines(Way):
    """Placements change the scores of whole lines of nodes (`unisono.engine.candidates.ways`)."""

    def __init__(self, score: LineScore) -> None:
        self.score = score
        self._lines: ScoresByLine | None = None

    def take(self, table: Table, wanted: int) -> list[int]:
        """See `Way`; raises `LinesFailed` with what was placed before the points of lines could not be asked."""
        session, columns = table.session, list[int]()
        for _ in range(wanted):
            try:
                lines = self._up_to_date(table)
                column = lines.best()
            except BaseException as error:
                raise LinesFailed(columns) from error
            if column < 0:
                break
            state = session.matrix[:, column]
            state += table.change
            session.touched.append(column)
            columns.append(column)
            key = state.tobytes()
            value = table.memo.get(key)
            value = table.look(column, key) if value is None else value
            table.dynamic[column] = value
            if value == NOWHERE and table.tracked:
                table.sum_static()
            if lines.static is table.static_points:
                lines.set(table, column, value)
                lines.seen += 1
            else:
                lines.read(table)
        return columns

    def _up_to_date(self, table: Table) -> ScoresByLine:
        """The lines with all nodes as they are."""
        lines = self._lines
        if lines is None:
            table.follow()
            lines = self._lines = ScoresByLine(table, self.score)
        elif lines.stale(table):
            self._take_over(table, lines, set(table.session.touched[lines.seen :]))
        return lines

    def _take_over(self, table: Table, lines: ScoresByLine, fresh: Iterable[int]) -> None:
        """Look again at nodes that others have changed."""
        changed = list(fresh)
        for column in changed:
            if not table.barred[column]:
                key = table.session.matrix[:, column].tobytes()
                value = table.memo.get(key)
                table.dynamic[column] = table.look(column, key) if value is None else value
        if table.tracked:
            table.sum_static()
        if lines.static is not table.static_points or len(changed) > FEW:
            lines.read(table)
            return
        for column in changed:
            lines.set(table, column, float(table.dynamic[column]))
        lines.seen = len(table.session.touched)
        lines.forget_lead()


class LinesFailed(Exception):
    """The points of lines could not be asked; the cause says why.

    Args:
        columns: what was placed before.
    """

    def __init__(self, columns: list[int]) -> None:
        super().__init__("the points of lines cannot be asked")
        self.columns = columns
