"""Placing a run of equal tasks of a sub-group on the best nodes of one domain."""

from __future__ import annotations

import numpy as np

from unisono.cluster.hypertree import Index
from unisono.engine.answers import BoolArray, FloatArray, Normalise
from unisono.engine.candidates.table import NOWHERE, CandidateTable, Demand
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.sub_groups import SubGroup


class DomainTaker:
    """A table of candidates seen through a domain.

    Static scores that are normalised over candidates are normalised over those of the domain; points of the topology
    follow the places that the sub-group has, task by task. Of its nodes only those ``kept`` are used, where given.
    """

    def __init__(
        self,
        table: CandidateTable,
        where: Index,
        group: SubGroup,
        hooks: CombinedAnswers,
        kept: BoolArray | None = None,
    ) -> None:
        self.table = table
        self.where = where
        self.group = group
        self.hooks = hooks
        self.guided = group.wants_topology and hooks.has("group_score")
        self._scores = [method for _, method in hooks.flat["group_score"]] if self.guided else []
        self.all_nodes = len(where) == len(table.total) and kept is None
        self._closed = None if kept is None else ~kept[where]
        self._span = _span(where)

    @property
    def demand(self) -> Demand:
        """What the table answers for."""
        return self.table.demand

    @property
    def counts_domains(self) -> bool:
        """As the table does, where it is asked for a whole run."""
        return self.all_nodes and not self.guided and self.table.counts_domains

    def admits(self, column: int) -> bool:
        """Whether a node is a candidate now."""
        return self.table.admits(column)

    def take(self, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks one after the other; returns their columns.

        Changes the session's matrix, the log of touched columns and the group's places, as `CandidateTable.take` does.
        """
        columns = self.table.take(wanted) if self.all_nodes and not self.guided else self._take_each(wanted)
        if not self.guided:
            for column in columns:
                self.group.took(column)
        return columns

    def _take_each(self, wanted: int) -> list[int]:
        table, session = self.table, self.table.session
        columns: list[int] = []
        table.follow()
        parts = self._parts()
        points = self._points(parts)
        alone = not table.batchable or table.layer is not None
        if not parts and not alone:
            return self._take_together(wanted, points)
        for _ in range(wanted if not alone else min(wanted, 1)):
            at = int(points.argmax()) if len(points) else 0
            if not len(points) or points[at] == NOWHERE:
                break
            column = int(self.where[at])
            session.matrix[:, column] += table.change
            session.touched.append(column)
            columns.append(column)
            if alone:  # the session's domains and ports learn of it only now, and the table looks again after that
                if self.guided:
                    self.group.took(column)
                break
            table.follow()
            before = parts
            if self.guided:
                self.group.took(column)
                parts = self._parts()
            if before or parts or (table.tracked and table.total[column] == NOWHERE):
                points = self._points(parts)
            else:
                points[at] = NOWHERE if table.total[column] == NOWHERE else table.dynamic[column] + self._static[at]
        return columns

    def _take_together(self, wanted: int, points: FloatArray) -> list[int]:
        """Where a placement changes nothing but its node: as `ways.Together`, among the nodes of the domain."""
        table, columns = self.table, list[int]()
        matrix, memo, change = table.session.matrix, table.memo, table.change
        for _ in range(wanted if len(points) else 0):
            at = int(points.argmax())
            if points[at] == NOWHERE:
                break
            column = int(self.where[at])
            state = matrix[:, column]
            state += change
            columns.append(column)
            key = state.tobytes()
            value = memo.get(key)
            if value is None:
                value = table.look(column, key)
            table.dynamic[column] = value
            table.total[column] = value + table.points[column]
            points[at] = value + self._static[at]
            if value == NOWHERE and table.tracked:
                table.renormalise()
                points = self._points([])
        table.session.touched.extend(columns)
        table.seen = len(table.session.touched)
        if self.guided:
            for column in columns:
                self.group.took(column)
        return columns

    def _points(self, parts: list[FloatArray]) -> FloatArray:
        table, where = self.table, self._span
        total: FloatArray = table.total[where]
        if self._closed is not None:
            total = np.where(self._closed, NOWHERE, total)
        self._static: FloatArray = table.points[where]
        if table.tracked and not self.all_nodes:
            candidates = total > NOWHERE
            self._static = self._static - table.static_points[where] + self._normalised(candidates)
            total = np.where(candidates, table.dynamic[where] + self._static, NOWHERE)
        for part in parts:
            total = total + part
        return total.copy() if total.base is not None else total  # the table's own are not changed here

    def _parts(self) -> list[FloatArray]:
        """Points of the topology; none where all nodes of the domain are equally near."""
        group, where = self.group, self.where
        return [part for score in self._scores if (part := score(group, where)) is not None]

    def _normalised(self, candidates: BoolArray) -> FloatArray:
        """Static points of the domain's nodes, over those of them that are candidates."""
        points: FloatArray = np.zeros(len(self.where), dtype=np.float64)
        for score in self.table.static.scores:
            raw = score.raw[self._span]
            if score.normalise is Normalise.NONE:
                points += score.weight * raw
                continue
            top = float(raw.max(where=candidates, initial=0.0))
            share = np.trunc(raw * 100.0 / top) if top > 0 else np.zeros_like(points)
            points += score.weight * (share if score.normalise is Normalise.MAX else 100.0 - share)
        return points


def _span(columns: Index) -> slice | Index:
    """Ascending columns as a slice where none is left out, so that picking them copies nothing."""
    if len(columns) and int(columns[-1]) - int(columns[0]) + 1 == len(columns):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
