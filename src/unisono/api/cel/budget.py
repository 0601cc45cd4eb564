"""How much an evaluation may cost, in the units of cel-go's runtime cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# What can be wrong with an expression, when it is compiled and when it runs.


class CompileError(ValueError):
    """The expression is not CEL, names something that does not exist, or is too long or too deep."""


class EvaluationError(Exception):
    """The expression has no value here: a key is missing, a type does not fit, a number overflows."""


class MissingError(EvaluationError):
    """A map has no such key, or a list no such index."""


def no_overload(function: str) -> EvaluationError:
    """The types of the arguments do not fit a function or operator."""
    return EvaluationError(f"no such overload: {function}")


EXPRESSION_LIMIT = 1_000_000
"""Of one evaluation; Kubernetes' ``PerCallLimit`` and ``CELSelectorExpressionMaxCost``."""
OBJECT_LIMIT = 10_000_000
"""Of all rules over one object; Kubernetes' ``RuntimeCELCostBudget``."""
_LOOKS = 20_000


class CostError(Exception):
    """An evaluation has cost or taken more than it may; no operator of the expression absorbs this."""


class Budget:
    """What is left for the evaluations of one request.

    Args:
        limit: cost units of all evaluations together.
        clock: seconds of a clock that only goes forward, looked at now and then; None for no time limit.
        seconds: time after which evaluations end.

    """

    __slots__ = ("_clock", "_ends", "left")

    def __init__(
        self, limit: int = OBJECT_LIMIT, clock: Callable[[], float] | None = None, seconds: float = 0.0
    ) -> None:
        self.left = limit
        self._clock = clock
        self._ends = clock() + seconds if clock is not None else 0.0

    def check_time(self) -> None:
        """Raise when the time is up.

        Raises:
            CostError: it is.

        """
        if self._clock is not None and self._clock() > self._ends:
            raise CostError("no further validation rules will be run due to call time exceeding the limit")


class EvaluationMeter:
    """Counts one evaluation: against the limit of an expression, and against what its budget has left."""

    __slots__ = ("_budget", "_stop", "floor", "left", "variables")

    def __init__(self, budget: Budget, variables: Mapping[str, Any]) -> None:
        self._budget = budget
        self.left: float = budget.left
        self._stop = max(0, budget.left - EXPRESSION_LIMIT)
        self.floor = self._next()
        self.variables = variables

    def spend(self, units: float) -> None:
        """Count ``units``.

        Raises:
            CostError: more than there were.

        """
        self.left -= units if units > 1 else 1
        if self.left < self.floor:
            self.look()

    def finish(self) -> None:
        """Take what was spent from the budget."""
        self._budget.left = max(0, int(self.left))

    def _next(self) -> float:
        return max(self._stop, self.left - _LOOKS)

    def look(self) -> None:
        """What ``left`` below ``floor`` means: the end, or time to look at the clock."""
        if self.left < self._stop:
            if self._stop:
                raise CostError("operation cancelled: actual cost limit exceeded")
            raise CostError("validation failed due to running out of cost budget, no further rules will be run")
        self._budget.check_time()
        self.floor = self._next()
