"""CEL conditions of webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unisono.api.admission_registration import MatchCondition
from unisono.api.cel import CompileError, CostError, EvaluationError
from unisono.apiserver.custom import cel


class ConditionError(ValueError):
    """A condition cannot be evaluated."""


def met(conditions: Iterable[MatchCondition] | None, variables: dict[str, Any]) -> bool:
    """Whether all conditions hold.

    Args:
        conditions: of the webhook.
        variables: ``request``, ``object`` and ``oldObject`` as JSON values.

    Raises:
        ConditionError: one cannot be evaluated, and none is false.

    """
    left = cel.budget()
    trouble = ""
    for condition in conditions or ():
        try:
            if not cel.holds(condition.expression, variables, left):
                return False
        except (CompileError, EvaluationError, CostError) as error:
            trouble = trouble or f"{condition.name}: {error}"
    if trouble:
        raise ConditionError(trouble)
    return True
