"""Nodes as plug-ins see them: real columns of the session, a part of them, or hypothetical ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from unisono.cluster.nodes import Codes, NodeFacts, NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS, Matrix, Vector
from unisono.engine.answers import BoolArray

PortCheck = Callable[[PodClass, npt.NDArray[np.intp]], BoolArray]


def as_slice(rows: list[int]) -> slice | list[int]:
    """Rows of an array as a slice where they follow each other, so that picking them copies nothing."""
    first = rows[0] if rows else 0
    return slice(first, first + len(rows)) if rows == list(range(first, first + len(rows))) else rows


class NodeAt:
    """One node in plain numbers, for questions about one at a time; see `NodeView` for what the rows hold."""

    __slots__ = ("_leaving", "allocatable", "future", "nonzero", "pipelined", "releasing", "used")

    def __init__(self, column: list[int], rows: int, *, future: bool) -> None:
        self.allocatable = column[:rows]
        self.used = column[rows : 2 * rows]
        self.releasing = column[2 * rows : 3 * rows]
        self.pipelined = column[3 * rows : 4 * rows]
        self.nonzero = column[4 * rows : 4 * rows + 2]
        self._leaving = column[4 * rows + 2 :]
        self.future = future

    @property
    def evicted(self) -> list[int]:
        """The part of ``releasing`` that this session has evicted."""
        if not self._leaving:
            return self.releasing
        return [whole - before for whole, before in zip(self.releasing, self._leaving, strict=True)]

    def future_idle_of(self, row: int) -> int:
        """Allocatable less used, plus releasing less pipelined."""
        return self.allocatable[row] - self.used[row] + self.releasing[row] - self.pipelined[row]


class NodeView:
    """``M`` nodes; read only. Column ``i`` of every array is the node ``columns[i]`` of the table.

    Attributes:
        columns: ``[M]`` positions in the node table (names in order).
        allocatable, used, releasing, pipelined: ``[R, M]`` in engine units. ``used`` holds every pod on the node, those
            of other schedulers and those being deleted included, and what this session has allocated; ``pipelined`` is
            what this session has promised on resources not yet free.
        nonzero: ``[2, M]`` CPU and memory as kube-scheduler counts them for scores: 100m and 200Mi for containers that
            state none; with pods being deleted and what this session has promised, without what it has evicted.
        size: ``M``.
        future: the question is about resources that are being released too (the task would be pipelined).
    """

    __slots__ = (
        "_leaving", "_ports", "allocatable", "columns", "future", "nonzero", "pipelined", "releasing", "size", "steps",
        "table", "used",
    )  # fmt: skip

    def __init__(
        self,
        table: NodeTable,
        columns: npt.NDArray[np.intp],
        arrays: tuple[Matrix, Matrix, Matrix, Matrix, Matrix],
        ports: PortCheck,
        steps: npt.NDArray[np.intp] | None = None,
        leaving: Matrix | None = None,
    ) -> None:
        self.table = table
        self.columns = columns
        for array in arrays:  # parts of the session's matrix; a plug-in must not change it
            array.flags.writeable = False
        self.allocatable, self.used, self.releasing, self.pipelined, self.nonzero = arrays
        self.size = len(columns)
        self.steps = steps
        self.future = False
        self._ports = ports
        self._leaving = leaving

    @property
    def evicted(self) -> Matrix:
        """``[R, M]`` the part of ``releasing`` that this session has evicted."""
        return self.releasing if self._leaving is None else self.releasing - self._leaving

    @property
    def idle(self) -> Matrix:
        """``[R, M]`` allocatable less used; may be negative."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> Matrix:
        """``[R, M]`` idle plus releasing less pipelined."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    def future_idle_of(self, row: int) -> Vector:
        """``[M]`` one row of `future_idle`."""
        future: Vector = self.allocatable[row] - self.used[row] + self.releasing[row] - self.pipelined[row]
        return future

    @property
    def pods(self) -> Vector:
        """``[M]`` number of pods on the node."""
        row: Vector = self.used[PODS]
        return row

    @property
    def facts(self) -> list[NodeFacts]:
        """Static facts of each node, in column order."""
        every = self.table.facts
        return [every[column] for column in self.columns]

    @property
    def names(self) -> list[str]:
        """Node names, in column order."""
        every = self.table.names
        return [every[column] for column in self.columns]

    @property
    def unschedulable(self) -> BoolArray:
        """``[M]`` cordoned nodes."""
        return self.table.unschedulable[self.columns]

    @property
    def taint_codes(self) -> Codes:
        """``[M]`` index into ``table.taint_sets``: ask each distinct set once."""
        return self.table.taint_codes[self.columns]

    def label_codes(self, key: str) -> Codes:
        """``[M]`` codes of the label's values, -1 where absent; ``table.label_code`` gives a value's code."""
        return self.table.label_column(key)[self.columns]

    def row(self, resource: str) -> int | None:
        """Row of a resource in the arrays, None when no node and no pod has it."""
        return self.table.registry.find(resource)

    def port_conflicts(self, pod_class: PodClass) -> BoolArray:
        """``[M]`` nodes on which a host port of the class is taken."""
        taken = self._ports(pod_class, self.columns)
        if self.steps is not None and pod_class.host_ports:
            taken |= self.steps > 0
        return taken
