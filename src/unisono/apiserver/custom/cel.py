"""CEL rules of schemas (``x-kubernetes-validations``): which ones run for a write, and what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from unisono.api.admission_registration import CONDITION_VARIABLES
from unisono.api.cel import Budget, CompileError, CostError, EvaluationError, Optional, compile_expression
from unisono.api.cel.syntax import references
from unisono.api.field_error import OMITTED, FieldError, duplicate, forbidden, invalid, required
from unisono.api.structural import Node
from unisono.api.structural.lists import identity, map_key
from unisono.api.structural.node import ABSENT, Rule
from unisono.api.structural.paths import PathError, field_path
from unisono.apiserver.custom.cel_values import to_cel

RULE_VARIABLES = frozenset(("self", "oldSelf"))
_LONGEST_MESSAGE = 5 * 1024
_MOST_SECONDS = 5.0
Clock = Callable[[], float]


def check_expression(expression: str, variables: frozenset[str] = RULE_VARIABLES) -> str:
    """Why an expression cannot be compiled; empty when it can."""
    try:
        compile_expression(expression.strip(), variables)
    except CompileError as error:
        return f"compilation failed: {error}"
    return ""


def holds(expression: str, variables: dict[str, Any], budget: Budget) -> bool:
    """Whether an expression over ``object``, ``oldObject`` and ``request`` is true.

    Raises:
        CompileError: it cannot be read.
        EvaluationError: it has no value.
        CostError: it costs more than it may.

    """
    return compile_expression(expression.strip(), CONDITION_VARIABLES).evaluate(variables, budget) is True


def budget(clock: Clock = time.monotonic) -> Budget:
    """What the expressions of one request may cost, and how long they may take."""
    return Budget(clock=clock, seconds=_MOST_SECONDS)


def check_rules(
    node: Node, value: Any, old: Any = ABSENT, path: str = "", *, left: Budget | None = None
) -> list[FieldError]:
    """What the rules of a schema say about a value that the schema allows otherwise.

    Args:
        node: the schema.
        value: decoded JSON.
        old: the value before an update; ``ABSENT`` for a new one.
        path: of the value, for the errors.
        left: what the rules may cost together; Kubernetes' limits when None.

    """
    checker = _Checker(left or budget())
    found: list[FieldError] = []
    try:
        found.extend(checker.walk(node, value, old, path))
    except CostError as error:
        found.append(invalid(path or "<nil>", node.type or "object", str(error)))
    return found


class _Checker:
    """One walk over a value, with one budget."""

    def __init__(self, left: Budget) -> None:
        self._budget = left

    def walk(self, node: Node, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        """Every rule of the value and of what is below it."""
        if value is None or not node.has_rules:
            return
        for rule in node.rules:
            yield from self._rule(rule, node, value, old, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) and node.map_type != "atomic" else {}
            for name, each in value.items():
                below = node.properties.get(name)
                if below is not None:
                    yield from self.walk(below, each, before.get(name, ABSENT), f"{path}.{name}" if path else name)
                elif node.additional is not None:
                    yield from self.walk(node.additional, each, before.get(name, ABSENT), f"{path}[{name}]")
        elif isinstance(value, list) and node.items is not None:
            known = {}
            if node.list_type == "map" and isinstance(old, list):
                known = {identity(map_key(node, each)): each for each in old}
            for index, each in enumerate(value):
                before = known.get(identity(map_key(node, each)), ABSENT) if known else ABSENT
                yield from self.walk(node.items, each, before, f"{path}[{index}]")

    def _rule(self, rule: Rule, node: Node, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        at, shown = path or "<nil>", node.type or "object"
        try:
            program = compile_expression(rule.rule.strip(), RULE_VARIABLES)
        except CompileError as error:
            # Written before rules were checked: what a rule may forbid is not let through unseen.
            yield invalid(at, shown, f"rule compile error: {error}: {_text(rule)}")
            return
        transition = "oldSelf" in references(program.tree)
        if transition and old is ABSENT and not rule.optional_old_self:
            return
        if not transition and old is not ABSENT and identity(old) == identity(value):
            return
        variables = _variables(rule, node, value, old)
        try:
            result = program.evaluate(variables, self._budget)
        except EvaluationError as error:
            yield invalid(at, shown, f"{error} evaluating rule: {_text(rule)}")
            return
        if result is not True:
            yield _error(rule, node, value, path, self._message(rule, variables))

    def _message(self, rule: Rule, variables: dict[str, Any]) -> str:
        found: Any = None
        if rule.message_expression:
            try:
                found = compile_expression(rule.message_expression.strip(), RULE_VARIABLES).evaluate(
                    variables, self._budget
                )
            except (CompileError, EvaluationError):
                found = None  # The rule is broken whatever its message says; the plain message serves then.
        if isinstance(found, str) and found.strip() and "\n" not in found and len(found) <= _LONGEST_MESSAGE:
            return found.strip()
        return rule.message.strip() or f"failed rule: {rule.rule.strip()}"


def _variables(rule: Rule, node: Node, value: Any, old: Any) -> dict[str, Any]:
    variables = {"self": to_cel(node, value)}
    before = None if old is ABSENT else to_cel(node, old)
    if rule.optional_old_self:
        variables["oldSelf"] = Optional() if old is ABSENT else Optional(before, present=True)
    elif old is not ABSENT:
        variables["oldSelf"] = before
    return variables


def _error(rule: Rule, node: Node, value: Any, path: str, text: str) -> FieldError:
    at = path
    if rule.field_path:
        try:
            shown = field_path(rule.field_path, node)[1]
        except PathError:
            shown = ""
        at = f"{path}.{shown}" if path and shown else shown or path
    at = at or "<nil>"
    told = OMITTED if isinstance(value, dict | list) else value
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(at, text)
        case "FieldValueRequired":
            return required(at, text)
        case "FieldValueDuplicate":
            return duplicate(at, told)
        case _:
            return invalid(at, told, text)


def _text(rule: Rule) -> str:
    return rule.message.strip() or rule.rule.strip()
