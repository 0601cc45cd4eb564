"""Candidate nodes of a pod class with their scores, kept up to date row by row.

A table is built with one vector pass over all nodes. After a placement only the node that changed is looked at
again, and its new score is taken from a memo by the node's amounts: equal nodes with equal loads have equal dynamic
scores. A miss fills the memo for the next few placements of the same class on that node at once. So a run of equal
tasks costs one pass and then an argmax and a few dictionary look-ups per task, and gives what placing one by one gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray, Normalise, Reach, Veto
from unisono.engine.candidates.cross_node import Layer
from unisono.engine.candidates.line_scores import Lines
from unisono.engine.candidates.single_node import Single
from unisono.engine.candidates.static_answers import StaticResult
from unisono.engine.contract.accelerated import LineScore
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.answer_checks import BadAnswer
from unisono.engine.plugin_host.combined_answers import Hooks
from unisono.engine.plugin_host.guarded_calls import let_users_interrupt
from unisono.engine.session.node_view import NodeView, as_slice
from unisono.engine.session.session import Session

NOWHERE = float("-inf")
CHAIN = 8
"""How many placements ahead a miss of the memo is filled, per node."""
FRONT = 8
"""On how many of the best nodes."""
FEW = 12
"""Up to so many nodes are looked at one by one, where plug-ins can do that."""
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
        """Whether a veto makes a node no candidate: each does, but for promises those that hold only now."""
        return not (veto.now and self.future)


class CandidateTable:
    """Scores of all nodes for one demand; ``-inf`` where the node is no candidate.

    Attributes:
        total: ``[N]`` dynamic plus static points.
        change: what one placement adds to a column of the session's matrix.
        silent: plug-ins whose filter and score do not concern the class.
        batchable: placements of a run need no question to plug-ins in between.
        layer: what placements may change on other nodes; None where nothing is.

    """

    def __init__(self, demand: Demand, session: Session, hooks: Hooks, static: StaticResult) -> None:
        self.demand = demand
        self.session = session
        self.hooks = hooks
        self.static = static
        pod_class = demand.pod_class
        self.rows = as_slice(pod_class.rows.tolist())
        self.change = session.change_of(pod_class, pipelined=demand.future)
        plugins = _dynamic_plugins(hooks)
        self.silent = hooks.silent(pod_class, plugins)
        plugins = [plugin for plugin in plugins if plugin not in self.silent]
        self.by_row = all(plugin.reach is Reach.ROW for plugin in plugins)
        pure = all(hooks.query(plugin, "is_pure", pod_class) for plugin in plugins)
        self.blocked = np.zeros(0, dtype=np.bool_)
        self.batchable = self.by_row and pure and not pod_class.host_ports
        self.tracked = [
            score for score in static.scores if not score.constant and score.normalise is not Normalise.NONE
        ]
        self.single = (
            Single.of(pod_class, session, hooks, self.silent, future=demand.future) if self.batchable else None
        )
        self.memo: dict[bytes, float] = {}
        self.layer = Layer.of(pod_class, session, hooks, demand.heeds)
        self.lines: Lines | None = None
        self._build()

    # ---- building and following

    def _build(self) -> None:
        self.maxima: list[float] | None = None
        self.dynamic = self._evaluate(self.session.nodes)
        self.dynamic[self.static.bits != 0] = NOWHERE
        self._sum_static()
        self.seen = len(self.session.touched)

    def _sum_blocked(self, layer: Layer) -> None:
        """Take over what a layer of filters refuses now; without scores over candidates nothing else changes."""
        blocked = layer.blocked()
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
        """Look again at the nodes that somebody has changed since the last time."""
        touched = self.session.touched
        if self.seen == len(touched):
            return
        fresh = touched[self.seen :]
        if not self.by_row or 2 * len(fresh) > len(self.dynamic):
            self._build()
            return
        self.seen = len(touched)
        self._revalue(sorted(set(fresh)))
        if self.layer is not None and self.layer.moved():
            if self.tracked or self.layer.scores:
                self._sum_static()
            else:
                self._sum_blocked(self.layer)

    def _revalue(self, columns: list[int]) -> None:
        matrix, memo, misses = self.session.matrix, self.memo, []
        moved = False
        for column in columns:
            if self.static.bits[column]:
                continue
            value = memo.get(matrix[:, column].tobytes()) if self.batchable else None
            if value is None:
                misses.append(column)
            else:
                moved |= self._set(column, value)
        if self.single is not None and len(misses) <= FEW:
            for column in misses:
                moved |= self._set(column, self._look(column, matrix[:, column].tobytes()))
        elif misses:
            where = np.array(misses, dtype=np.intp)
            values = self._evaluate(self.session.part(where)).tolist()
            for column, value in zip(misses, values, strict=True):
                if self.batchable:
                    memo[matrix[:, column].tobytes()] = value
                moved |= self._set(column, value)
        if moved and self.tracked:
            self._renormalise()

    def _set(self, column: int, value: float) -> bool:
        """Note a node's new dynamic score; True when it became, or ceased to be, a candidate."""
        moved = (self.dynamic[column] == NOWHERE) != (value == NOWHERE)
        self.dynamic[column] = value
        free = self.layer is None or not self.blocked[column]
        self.total[column] = value + self.points[column] if free else NOWHERE
        return bool(moved)

    def _renormalise(self) -> None:
        if self.layer is not None:
            if not self.layer.moved():
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

    def take(self, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks one after the other, each on the best node; returns their columns.

        Changes the session's matrix and logs the touched columns; everything else is the caller's.
        """
        columns: list[int] = []
        if self.by_lines:
            return self._take_by_lines(wanted)
        if not self.batchable or (self.layer is not None and self.layer.alone):
            domains, pod_class = self.session.domains, self.demand.pod_class
            for _ in range(wanted if self.counts_domains else min(wanted, 1)):
                column = self.best()
                if column < 0:
                    break
                self.session.matrix[:, column] += self.change
                self.session.touched.append(column)
                columns.append(column)
                if self.counts_domains:
                    domains.move(pod_class, (column,), 1)
            return columns
        self.follow()
        total, dynamic, points = self.total, self.dynamic, self.points
        if not len(total):
            return columns
        matrix, memo, change = self.session.matrix, self.memo, self.change
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
                value = self._look(column, key)
            dynamic[column] = value
            total[column] = value + points[column]
            if value == NOWHERE and self.tracked:
                self._renormalise()
                total, points = self.total, self.points
                argmax = total.argmax
        self.session.touched.extend(columns)
        self.seen = len(self.session.touched)
        return columns

    @property
    def counts_domains(self) -> bool:
        """Whether `take` counts what it places in the session's domains, because the next task depends on it."""
        return self.batchable and self.layer is not None and self.layer.alone and self.layer.by_domains

    @property
    def by_lines(self) -> bool:
        """Whether nodes are chosen line by line."""
        return self.batchable and self.layer is not None and self.layer.lines is not None and len(self.dynamic) > 0

    def _take_by_lines(self, wanted: int) -> list[int]:
        """As `take`, where placements change the scores of whole lines of nodes."""
        columns: list[int] = []
        layer, session = self.layer, self.session
        for _ in range(wanted):
            if layer is None or layer.lines is None:
                break
            try:
                if self.lines is None or self.lines.stale(self):
                    self.lines = self._lines_now(layer.lines)
                column = self.lines.best()
            except BaseException as error:
                layer.failed(error)
                self._build()
                return columns + self.take(wanted - len(columns))
            if column < 0:
                break
            state = session.matrix[:, column]
            state += self.change
            session.touched.append(column)
            columns.append(column)
            key = state.tobytes()
            value = self.memo.get(key)
            value = self._look(column, key) if value is None else value
            self.dynamic[column] = value
            if value == NOWHERE and self.tracked:
                self._static_points(self.dynamic > NOWHERE)
            if self.lines.static is self.static_points:
                self.lines.set(self, column, value)
                self.lines.seen += 1
            else:
                self.lines.read(self)
        return columns

    def _lines_now(self, score: LineScore) -> Lines:
        """The lines with all nodes as they are."""
        lines, touched = self.lines, self.session.touched
        if lines is None:
            self.follow()
            return Lines(self, score)
        fresh = set(touched[lines.seen :])
        for column in fresh:
            if not self.static.bits[column]:
                key = self.session.matrix[:, column].tobytes()
                value = self.memo.get(key)
                self.dynamic[column] = self._look(column, key) if value is None else value
        if self.tracked:
            self._static_points(self.dynamic > NOWHERE)
        if lines.static is not self.static_points or len(fresh) > FEW:
            lines.read(self)
        else:
            for column in fresh:
                lines.set(self, column, float(self.dynamic[column]))
            lines.seen = len(touched)
            lines.forget_lead()
        return lines

    def _look(self, column: int, key: bytes) -> float:
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
        for plugin, method in self.hooks.flat["filter"]:
            if plugin in silent:
                continue
            for veto in method(pod_class, view):
                if self.demand.heeds(veto):
                    refused |= veto.nodes
        points = np.zeros(view.size, dtype=np.float64)
        for plugin, method in self.hooks.flat["score"]:
            if plugin in silent:
                continue
            part = method(pod_class, view)
            if part is not None:
                points += part
        if not np.isfinite(points).all():
            points = self._finite(view)
        points[refused] = NOWHERE
        return points

    def _finite(self, view: NodeView) -> FloatArray:
        """The points without those of built-in plug-ins that answer something else than numbers."""
        points = np.zeros(view.size, dtype=np.float64)
        for plugin, method in self.hooks.flat["score"]:
            part = method(self.demand.pod_class, view) if plugin not in self.silent else None
            if part is not None and np.isfinite(part).all():
                points += part
            elif part is not None:
                error = BadAnswer("answered points that are not finite numbers")
                self.hooks.guard.caught(plugin, "score", self.demand.pod_class, error)
        return points

    def fits(self, view: NodeView) -> npt.NDArray[np.bool_]:
        """``[M]`` nodes on which the request is idle (or will be, for ``future``).

        A task that starts now must also leave what is promised to pipelined tasks, so both are checked.
        """
        rows, amounts = self.rows, self.demand.pod_class.amounts[:, None]
        idle = view.allocatable[rows] - view.used[rows] - amounts
        if self.demand.future or self.session.pipelining:
            later = idle + view.releasing[rows] - view.pipelined[rows]
            fitting = (later >= 0).all(axis=0)
            if self.demand.future:
                return np.asarray(fitting)
            return np.asarray(fitting & (idle >= 0).all(axis=0))
        return np.asarray((idle >= 0).all(axis=0))


def _dynamic_plugins(hooks: Hooks) -> list[Plugin]:
    return [plugin for hook in ("filter", "score") for plugin, _ in hooks.flat[hook]]
