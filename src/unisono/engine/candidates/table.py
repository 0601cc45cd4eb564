"""Which nodes a class of pods may use now, and how good each is, kept up to date row by row."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, FloatArray, Normalise, Reach, Veto
from unisono.engine.candidates.static_answers import StaticResult
from unisono.engine.candidates.ways import FEW, ByLines, CrossNodeAnswers, LinesFailed, OneByOne, Stamps, Together, Way
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.answer_checks import BadAnswer, all_finite
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.guarded_calls import let_users_interrupt
from unisono.engine.plugin_host.tiers import Asked
from unisono.engine.session.node_view import NodeAt, NodeView, as_slice
from unisono.engine.session.session import Session

# The score of one node for a class, in plain numbers: what a vector pass answers, for a thirtieth of its costs.

NOWHERE = float("-inf")


class SingleNodeScore:
    """Scores one node at a time for one class; see `of` for when that is possible."""

    def __init__(self, pod_class: PodClass, session: Session, filters: Asked, scores: Asked, *, future: bool) -> None:
        self.pod_class = pod_class
        self.session = session
        self.future = future
        self._filters = [method for _, method in filters]
        self._scores = [method for _, method in scores]
        self._demand = list(zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True))

    @classmethod
    def of(
        cls, pod_class: PodClass, session: Session, hooks: CombinedAnswers, silent: set[Plugin], *, future: bool
    ) -> SingleNodeScore | None:
        """None unless each plug-in that filters or scores the class by vectors can do so by single nodes, too."""
        chosen: list[Asked] = []
        for vector, single in (("filter", "filter_at"), ("score", "score_at")):
            concerned = [plugin for plugin, _ in hooks.flat[vector] if plugin not in silent]
            if vector == "filter":  # those have said all when the table was made
                concerned = [plugin for plugin in concerned if not plugin.steady]
            asked = [entry for entry in hooks.flat[single] if entry[0] not in silent]
            if [plugin for plugin, _ in asked] != concerned:
                return None
            chosen.append(asked)
        return cls(pod_class, session, *chosen, future=future)

    def value(self, column: int) -> float:
        """Dynamic points of a node as it is now, ``-inf`` where resources or a filter refuse it; may raise."""
        session, pod_class = self.session, self.pod_class
        node = NodeAt(session.matrix[:, column].tolist(), session.rows, future=self.future)
        looks_ahead = self.future or session.pipelining
        for row, amount in self._demand:
            idle = node.allocatable[row] - node.used[row] - amount
            if idle < 0 and not self.future:
                return NOWHERE
            if looks_ahead and idle + node.releasing[row] - node.pipelined[row] < 0:
                return NOWHERE
        for refuses in self._filters:
            if refuses(pod_class, node):
                return NOWHERE
        points = 0.0
        for score in self._scores:
            part = score(pod_class, node)
            if part is not None:
                points += part
        if not isfinite(points):
            raise ValueError("points are not finite")
        return points


# Nodes that have free what a pod asks for, whatever plug-ins say of them.

Rows = slice | list[int]
_ALL: Final = slice(None)


def fitting(
    view: NodeView, pod_class: PodClass, rows: Rows, *, future: bool, promises: bool, columns: slice = _ALL
) -> BoolArray:
    """``[M]`` nodes on which the request is idle (or will be, for ``future``).

    A task that starts now must also leave what is promised to pipelined tasks, so both are checked.

    Args:
        view: the nodes.
        pod_class: what is asked for.
        rows: its rows, as `as_slice` has them.
        future: count resources that are being released.
        promises: something is promised in this session.
        columns: which of the nodes.
    """
    idle = view.allocatable[rows, columns] - view.used[rows, columns] - pod_class.amounts[:, None]
    if future or promises:
        later = idle + view.releasing[rows, columns] - view.pipelined[rows, columns]
        fits_later = (later >= 0).all(axis=0)
        return np.asarray(fits_later if future else fits_later & (idle >= 0).all(axis=0))
    return np.asarray((idle >= 0).all(axis=0))


class Roomless:
    """Which demands no node has room for, in one session.

    Of one that has room, a node is remembered on which it has, the one with most of it; the others are only looked at
    again when that one is full.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[tuple[int, bool], tuple[int, int]] = {}

    def covers(self, pod_class: PodClass, *, future: bool) -> bool:
        """Whether no node has room for a pod of the class; ``future``: once what is being released is free."""
        key, now = (pod_class.id, future), len(self._session.touched)
        stamp, column = self._found.get(key, (-1, -1))
        if stamp != now:
            if column < 0 or not self._fits(pod_class, slice(column, column + 1), future=future).any():
                column = self._roomiest(pod_class, future=future)
            self._found[key] = now, column
        return column < 0

    def _fits(self, pod_class: PodClass, columns: slice, *, future: bool) -> BoolArray:
        session, rows = self._session, as_slice(pod_class.rows.tolist())
        return fitting(session.nodes, pod_class, rows, future=future, promises=session.pipelining, columns=columns)

    def _roomiest(self, pod_class: PodClass, *, future: bool) -> int:
        """A node with room, by what the class asks for last, which is mostly the scarcest; -1 where there is none."""
        where = np.flatnonzero(self._fits(pod_class, _ALL, future=future))
        if not len(where):
            return -1
        free = self._session.nodes.future_idle_of(int(pod_class.rows[-1]))[where]
        return int(where[free.argmax()])


# Candidate nodes of a pod class with their scores, kept up to date row by row.
#
# A table is built with one vector pass over all nodes. After a placement only the node that changed is looked at
# again, and its new score is taken from a memo by the node's amounts: equal nodes with equal loads have equal dynamic
# scores. A miss fills the memo for the next few placements of the same class on that node at once. So a run of equal
# tasks costs one pass and then an argmax and a few dictionary look-ups per task, and gives what placing one by one
# gives.

CHAIN = 8
"""How many placements ahead a miss of the memo is filled, per node."""
FRONT = 8
"""On how many of the best nodes."""
_STEPS = np.arange(CHAIN, dtype=np.int64)
_REPEATED = np.tile(_STEPS, FRONT + 1)


@dataclass(slots=True)
class Demand:
    """What a table answers for.

    Attributes:
        pod_class: the class.
        future: count resources that are being released (tasks would be pipelined).
    """

    pod_class: PodClass
    future: bool

    def heeds(self, veto: Veto) -> bool:
        """Whether a veto makes a node no candidate: each does, but for those of the other time."""
        return not (veto.now if self.future else veto.later)


class CandidateTable:
    """Scores of all nodes for one demand; ``-inf`` where the node is no candidate.

    Attributes:
        total: ``[N]`` dynamic plus static points.
        change: what one placement adds to a column of the session's matrix.
        silent: plug-ins whose filter and score do not concern the class.
        barred: ``[N]`` nodes that are no candidates whatever is placed.
        batchable: placements of a run need no question to plug-ins in between.
        layer: what placements may change on other nodes; None where nothing is.
        way: how runs of tasks are placed.
    """

    def __init__(self, demand: Demand, session: Session, hooks: CombinedAnswers, static: StaticResult) -> None:
        self.demand = demand
        self.session = session
        self.hooks = hooks
        self.static = static
        pod_class = demand.pod_class
        self.rows = as_slice(pod_class.rows.tolist())
        self.change = session.change_of(pod_class, pipelined=demand.future)
        plugins = hooks.answering("filter", "score")
        self.silent = hooks.silent(pod_class, plugins)
        self.steady = [
            (plugin, method) for plugin, method in hooks.flat["filter"] if plugin.steady and plugin not in self.silent
        ]
        if self.silent:
            plugins = [plugin for plugin in plugins if plugin not in self.silent]
        self.by_row = all(plugin.reach is Reach.ROW for plugin in plugins)
        self.blocked = np.zeros(0, dtype=np.bool_)
        self.batchable = self.by_row and not pod_class.host_ports and hooks.pure(pod_class, plugins)
        self.tracked = [
            score for score in static.scores if not score.constant and score.normalise is not Normalise.NONE
        ]
        self.single = (
            SingleNodeScore.of(pod_class, session, hooks, self.silent, future=demand.future) if self.batchable else None
        )
        self.memo: dict[bytes, float] = {}
        self.layer = CrossNodeAnswers.of(pod_class, session, hooks, demand.heeds)
        self._build()
        self.way = self._way()

    # ---- building and following

    def _build(self) -> None:
        self.maxima: list[float] | None = None
        refused = self.barred = self._barred()
        if refused.all():  # whatever scores they would have: labels, taints or states rule all nodes out
            self.dynamic = np.full(len(refused), NOWHERE)
        else:
            self.dynamic = self._evaluate(self.session.nodes)
            self.dynamic[refused] = NOWHERE
        self._sum_static()
        self.seen = len(self.session.touched)

    def _barred(self) -> BoolArray:
        """``[N]`` nodes that are no candidates whatever is placed."""
        barred = np.asarray(self.static.bits != 0)
        if self.steady:
            self.session.nodes.future = self.demand.future
        for _, method in self.steady:
            for veto in method(self.demand.pod_class, self.session.nodes):
                if self.demand.heeds(veto):
                    barred = barred | veto.nodes
        return barred

    def _sum_blocked(self, layer: CrossNodeAnswers, now: Stamps) -> None:
        """Take over what a layer of filters refuses now; without scores over candidates nothing else changes."""
        blocked = layer.blocked(now)
        moved = np.flatnonzero(blocked != self.blocked)
        self.blocked = blocked
        if len(moved):
            points = self.dynamic[moved] + self.points[moved]
            self.total[moved] = np.where(blocked[moved], NOWHERE, points)

    def _sum_static(self) -> None:
        """Static points over the present candidates, and those of the layer, added to the dynamic ones."""
        candidates = self.dynamic > NOWHERE
        if self.layer is None:
            self.points = self._static_points(candidates)
            self.total: FloatArray = self.dynamic + self.points
            return
        self.blocked = self.layer.blocked()
        candidates &= ~self.blocked
        points = self._static_points(candidates)
        layer = self.layer.points(candidates)
        self.points = points + layer
        self.total = np.where(candidates, self.dynamic + points + layer, NOWHERE)

    def _static_points(self, candidates: npt.NDArray[np.bool_]) -> FloatArray:
        maxima = self._maxima(candidates)
        if maxima == self.maxima:
            return self.static_points
        self.maxima = maxima
        points: FloatArray | float = 0.0
        for score in self.static.scores:
            raw = score.raw[:1] if score.constant else score.raw  # one number stands for all
            if score.normalise is Normalise.NONE:
                points = points + score.weight * raw
                continue
            top = float(score.raw.max(where=candidates, initial=0.0))
            share = np.trunc(raw * 100.0 / top) if top > 0 else np.zeros_like(raw)
            points = points + score.weight * (share if score.normalise is Normalise.MAX else 100.0 - share)
        self.static_points: FloatArray = np.zeros(len(self.dynamic), dtype=np.float64) + points
        return self.static_points

    def _maxima(self, candidates: npt.NDArray[np.bool_]) -> list[float]:
        return [float(score.raw.max(where=candidates, initial=0.0)) for score in self.tracked]

    def follow(self) -> None:
        """Look again at the nodes that have changed since the last time."""
        touched = self.session.touched
        if self.seen == len(touched):
            return
        fresh = touched[self.seen :]
        if not self.by_row or 2 * len(fresh) > len(self.dynamic):
            self._build()
            return
        self.seen = len(touched)
        self._revalue(sorted(set(fresh)))
        layer = self.layer
        if layer is not None and layer.moved(now := layer.stamps()):
            if self.tracked or layer.scores:
                self._sum_static()
            else:
                self._sum_blocked(layer, now)

    def _revalue(self, columns: list[int]) -> None:
        matrix, memo, misses = self.session.matrix, self.memo, []
        moved = False
        for column in columns:
            if self.barred[column]:
                continue
            value = memo.get(matrix[:, column].tobytes()) if self.batchable else None
            if value is None:
                misses.append(column)
            else:
                moved |= self._set(column, value)
        if self.single is not None and len(misses) <= FEW:
            for column in misses:
                moved |= self._set(column, self.look(column, matrix[:, column].tobytes()))
        elif misses:
            where = np.array(misses, dtype=np.intp)
            values = self._evaluate(self.session.part(where)).tolist()
            for column, value in zip(misses, values, strict=True):
                if self.batchable:
                    memo[matrix[:, column].tobytes()] = value
                moved |= self._set(column, value)
        if moved and self.tracked:
            self.renormalise()

    def _set(self, column: int, value: float) -> bool:
        """Note a node's new dynamic score; True when it became, or ceased to be, a candidate."""
        moved = (self.dynamic[column] == NOWHERE) != (value == NOWHERE)
        self.dynamic[column] = value
        free = self.layer is None or not self.blocked[column]
        self.total[column] = value + self.points[column] if free else NOWHERE
        return bool(moved)

    def sum_static(self) -> None:
        """Bring ``static_points`` up to date with the candidates."""
        self._static_points(self.dynamic > NOWHERE)

    def renormalise(self) -> None:
        """Add the static points again, after a node became, or ceased to be, a candidate."""
        if self.layer is not None:
            if not self.layer.moved(self.layer.stamps()):
                self._sum_static()
        elif self._maxima(self.dynamic > NOWHERE) != self.maxima:
            self._sum_static()

    # ---- asking

    def best(self) -> int:
        """Column of the best candidate, the first in name order among equals; -1 when there is none."""
        self.follow()
        if not len(self.total):
            return -1
        column = int(self.total.argmax())
        return column if self.total[column] > NOWHERE else -1

    def admits(self, column: int) -> bool:
        """Whether a node is a candidate now."""
        self.follow()
        return bool(self.total[column] > NOWHERE)

    def take(self, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks one after the other, each on the best node; returns their columns.

        Changes the session's matrix and logs the touched columns; everything else is the caller's.
        """
        try:
            return self.way.take(self, wanted)
        except LinesFailed as failed:
            if self.layer is not None and failed.__cause__ is not None:
                self.layer.failed(failed.__cause__)
            self._build()
            self.way = self._way()
            return failed.columns + self.way.take(self, wanted - len(failed.columns))

    def _way(self) -> Way:
        """How runs of tasks are placed."""
        layer = self.layer
        if self.batchable and layer is not None and layer.lines is not None and len(self.dynamic):
            return ByLines(layer.lines)
        if self.batchable and (layer is None or not layer.alone):
            return Together()
        return OneByOne(counting=self.batchable and layer is not None and layer.by_domains)

    @property
    def counts_domains(self) -> bool:
        """Whether `take` counts what it places in the session's domains, because the next task depends on it."""
        return isinstance(self.way, OneByOne) and self.way.counting

    @property
    def by_lines(self) -> bool:
        """Whether nodes are chosen line by line."""
        return isinstance(self.way, ByLines)

    def count_domains(self, column: int) -> None:
        """Count a pod of the class on a node in the session's domains."""
        self.session.domains.move(self.demand.pod_class, (column,), 1)

    def look(self, column: int, key: bytes) -> float:
        """The score of a node as it is now, of which ``key`` are the amounts; goes into the memo."""
        if self.single is not None:
            try:
                value = self.memo[key] = self.single.value(column)
            except BaseException as error:
                let_users_interrupt(error)
                self.single = None  # the vector pass finds out which plug-in it was
            else:
                return value
        return self._look_ahead(column)

    def _look_ahead(self, column: int) -> float:
        """Fill the memo for what is likely to be asked next; returns the score of ``column`` as it is now.

        That is: this node and the next best ones, each with the next few placements of the class on it. The vector pass
        costs the same for one column as for a hundred.
        """
        matrix, change = self.session.matrix, self.change
        rivals = [other for other in self._front() if other != column and self.total[other] > NOWHERE]
        where = np.array([column, *rivals], dtype=np.intp)
        base = matrix[:, where]
        base[:, 1:] += change[:, None]  # the rivals' scores matter once they have been chosen
        states = (base[:, :, None] + change[:, None, None] * _STEPS).reshape(len(matrix), -1)
        steps = _REPEATED[: len(where) * CHAIN]
        values = self._evaluate(self.session.view(np.repeat(where, CHAIN), states, steps)).tolist()
        keys = np.ascontiguousarray(states.T)
        memo = self.memo
        for key, value in zip(keys, values, strict=True):
            memo[key.tobytes()] = value
        return float(values[0])

    def _front(self) -> list[int]:
        """The few best candidates, in no particular order."""
        if len(self.total) <= FRONT:
            return list(range(len(self.total)))
        front: list[int] = np.argpartition(self.total, -FRONT)[-FRONT:].tolist()
        return front

    def _evaluate(self, view: NodeView) -> FloatArray:
        """``[M]`` dynamic points, ``-inf`` where resources or a dynamic filter refuse the node."""
        pod_class, silent = self.demand.pod_class, self.silent
        view.future = self.demand.future
        refused = ~self.fits(view)
        if refused.all():
            return np.full(view.size, NOWHERE)  # whatever plug-ins would say
        for plugin, method in self.hooks.flat["filter"]:
            if plugin in silent or plugin.steady:
                continue
            for veto in method(pod_class, view):
                if self.demand.heeds(veto):
                    refused |= veto.nodes
        whole = not self.by_row or view is not self.session.nodes
        if whole or 2 * np.count_nonzero(refused) <= view.size:
            points = self._points(view)
            points[refused] = NOWHERE
            return points
        # Scores of single nodes: on a full cluster few of them matter, or none.
        candidates = np.flatnonzero(~refused)
        points = np.full(view.size, NOWHERE)
        if len(candidates):
            points[candidates] = self._points(self.session.part(candidates))
        return points

    def _points(self, view: NodeView) -> FloatArray:
        """``[M]`` points of the plug-ins that score."""
        view.future = self.demand.future
        points = np.zeros(view.size, dtype=np.float64)
        for plugin, method in self.hooks.flat["score"]:
            if plugin in self.silent:
                continue
            part = method(self.demand.pod_class, view)
            if part is not None:
                points += part
        if not all_finite(points):
            points = self._finite(view)
        return points

    def _finite(self, view: NodeView) -> FloatArray:
        """The points without those of built-in plug-ins that answer something else than numbers."""
        points = np.zeros(view.size, dtype=np.float64)
        for plugin, method in self.hooks.flat["score"]:
            part = method(self.demand.pod_class, view) if plugin not in self.silent else None
            if part is not None and all_finite(part):
                points += part
            elif part is not None:
                error = BadAnswer("answered points that are not finite numbers")
                self.hooks.guard.caught(plugin, "score", self.demand.pod_class, error)
        return points

    def fits(self, view: NodeView) -> npt.NDArray[np.bool_]:
        """``[M]`` nodes on which there is room."""
        demand = self.demand
        return fitting(view, demand.pod_class, self.rows, future=demand.future, promises=self.session.pipelining)
