"""Kubernetes' authorizer library: ``authorizer.group('').resource('pods').check('get').allowed()``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from unisono.api.cel.errors import no_overload


@dataclass(frozen=True, slots=True)
class Authorizer:
    """A question about rights, as far as an expression has put it; the variable ``authorizer`` is an empty one.

    Attributes:
        decide: answers the whole question.

    """

    decide: Callable[[Authorizer], bool]
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    verb: str = ""


def _step(part: str) -> Callable[[Any, Any], Authorizer]:
    def call(asked: Any, value: Any) -> Authorizer:
        if not isinstance(asked, Authorizer) or not isinstance(value, str):
            raise no_overload(part)
        step: dict[str, Any] = {part: value}
        return replace(asked, **step)

    return call


def _allowed(asked: Any) -> bool:
    if not isinstance(asked, Authorizer):
        raise no_overload("allowed")
    return asked.decide(asked)


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    **{part: _step(part) for part in ("group", "resource", "namespace", "name")},
    "check": _step("verb"),
}
ANSWERS: dict[str, Callable[[Any], Any]] = {"allowed": _allowed}
# What a question costs in cel-go's estimate for Kubernetes.
COST = 350_000.0
