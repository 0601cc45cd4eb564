"""How a table of candidates places a run of equal tasks: all at once, one by one, or by lines of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from unisono.cluster.resources import Vector
from unisono.engine.answers import FloatArray
from unisono.engine.candidates.cross_node import CrossNodeAnswers
from unisono.engine.candidates.line_scores import ScoresByLine
from unisono.engine.candidates.static_answers import RawPoints, StaticResult
from unisono.engine.contract.accelerated import LineScore
from unisono.engine.session.session import Session

NOWHERE = float("-inf")
FEW = 12
"""Up to so many nodes are looked at one by one, where plug-ins can do that."""


class Table(Protocol):
    """What a way uses of a `CandidateTable`; the attributes are explained there."""

    session: Session
    static: StaticResult
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
    """Placements change the scores of whole lines of nodes (`unisono.engine.candidates.line_scores`)."""

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
            if not table.static.bits[column]:
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
