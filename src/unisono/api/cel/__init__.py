"""The Common Expression Language as Kubernetes uses it: schemas, conditions of webhooks and device selectors.

Expressions are limited in length and depth when they are compiled, and in cost when they run: every call, element and
character that is looked at counts, in the units of cel-go.
"""

from __future__ import annotations

from unisono.api.cel.program import Program, compile_expression
from unisono.api.cel.values import (
    Budget,
    CompileError,
    CostError,
    EvaluationError,
    MissingError,
    Optional,
    Quantity,
    Semver,
    UInt,
)

__all__ = [
    "Budget",
    "CompileError",
    "CostError",
    "EvaluationError",
    "MissingError",
    "Optional",
    "Program",
    "Quantity",
    "Semver",
    "UInt",
    "compile_expression",
]
