"""What can be wrong with an expression, when it is compiled and when it runs."""

from __future__ import annotations


class CompileError(ValueError):
    """The expression is not CEL, names something that does not exist, or is too long or too deep."""


class EvaluationError(Exception):
    """The expression has no value here: a key is missing, a type does not fit, a number overflows."""


class MissingError(EvaluationError):
    """A map has no such key, or a list no such index."""


def no_overload(function: str) -> EvaluationError:
    """The types of the arguments do not fit a function or operator."""
    return EvaluationError(f"no such overload: {function}")
