"""What is checked of user-defined kinds: CEL rules of their schemas, and all that can be wrong with an object."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from unisono.api.cel import Budget, CompileError, CostError, EvaluationError, Optional, compile_expression
from unisono.api.cel.estimate import DEFINITION_LIMIT, RULE_LIMIT, estimate, sized
from unisono.api.cel.syntax import references
from unisono.api.cel.values import parse_duration
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.field_error import OMITTED, FieldError, duplicate, forbidden, invalid, json_type, required
from unisono.api.groups.admission_registration import CONDITION_VARIABLES
from unisono.api.structural import Node, check_lists, check_value, compile_schema
from unisono.api.structural.node import ABSENT, PathError, Rule, field_path
from unisono.api.structural.pruning import check_embedded
from unisono.api.structural.values import NOWHERE, identity, map_key
from unisono.api.validation.meta import validate_meta, validate_meta_update
from unisono.apiserver.custom.definitions import Compiled, compiled, find_value
from unisono.apiserver.custom.kinds import CustomKind, CustomObject

# JSON values as CEL sees them: typed by the schema, field names escaped as Kubernetes escapes them.

_KEYWORDS = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile("__|[./-]")


def escape(name: str) -> str:
    """A field's name in an expression."""
    return f"__{name}__" if name in _KEYWORDS else _ESCAPED.sub(lambda found: _ESCAPES[found.group()], name)


def to_cel(node: Node | None, value: Any) -> Any:
    """The value for the engine; what the schema does not describe stays as it is."""
    match value:
        case dict():
            return {_key(node, name): to_cel(node.child(name) if node else None, each) for name, each in value.items()}
        case list():
            return [to_cel(node.items if node else None, each) for each in value]
        case bool():
            return value
        case int() if node is not None and node.type == "number":
            return float(value)
        case str() if node is not None and node.type == "string":
            return _text(node.format, value)
        case _:
            return value


def _key(node: Node | None, name: str) -> str:
    # Keys of maps are data, only names of fields are escaped.
    return escape(name) if node is not None and node.additional is None else name


def _text(form: str, value: str) -> Any:
    try:
        match form:
            case "date-time":
                return datetime.fromisoformat(value)
            case "date":
                return datetime.fromisoformat(value).replace(tzinfo=UTC)
            case "duration":
                parsed = parse_duration(value)
                return value if parsed is None else parsed
            case "byte":
                return base64.b64decode(value)
    except ValueError:
        return value
    return value


# CEL rules of schemas (``x-kubernetes-validations``): which ones run for a write, and what they say.

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


def check_rules(node: Node, value: Any, old: Any = ABSENT, *, left: Budget | None = None) -> list[FieldError]:
    """What the rules of a schema say about a value that the schema allows otherwise.

    Args:
        node: the schema.
        value: decoded JSON.
        old: the value before an update; ``ABSENT`` for a new one.
        left: what the rules may cost together; Kubernetes' limits when None.
    """
    checker = _Checker(left or budget())
    errors: list[FieldError] = []
    try:
        errors.extend(checker.walk(node, value, old, ""))
    except CostError as error:
        errors.append(invalid("<nil>", node.type or "object", str(error)))
    return errors


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
            old_by_key = {}
            if node.list_type == "map" and isinstance(old, list):
                old_by_key = {identity(map_key(node, each)): each for each in old}
            for index, each in enumerate(value):
                before = old_by_key.get(identity(map_key(node, each)), ABSENT) if old_by_key else ABSENT
                yield from self.walk(node.items, each, before, f"{path}[{index}]")

    def _rule(self, rule: Rule, node: Node, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        at, shown = path or "<nil>", node.type or "object"
        try:
            program = compile_expression(rule.rule.strip(), RULE_VARIABLES)
        except CompileError as error:
            # Written before rules were checked: what a rule may forbid is not let through unseen.
            yield invalid(at, shown, f"rule compile error: {error}: {_rule_text(rule)}")
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
            yield invalid(at, shown, f"{error} evaluating rule: {_rule_text(rule)}")
            return
        if result is not True:
            yield _error(rule, node, value, path, self._message(rule, variables))

    def _message(self, rule: Rule, variables: dict[str, Any]) -> str:
        evaluated: Any = None
        if rule.message_expression:
            try:
                evaluated = compile_expression(rule.message_expression.strip(), RULE_VARIABLES).evaluate(
                    variables, self._budget
                )
            except (CompileError, EvaluationError):
                evaluated = None  # The rule is broken whatever its message says; the plain message serves then.
        if (
            isinstance(evaluated, str)
            and evaluated.strip()
            and "\n" not in evaluated
            and len(evaluated) <= _LONGEST_MESSAGE
        ):
            return evaluated.strip()
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
    shown_value = OMITTED if isinstance(value, dict | list) else value
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(at, text)
        case "FieldValueRequired":
            return required(at, text)
        case "FieldValueDuplicate":
            return duplicate(at, shown_value)
        case _:
            return invalid(at, shown_value, text)


def _rule_text(rule: Rule) -> str:
    return rule.message.strip() or rule.rule.strip()


# CEL rules in definitions: expressions must compile, and must be affordable for the largest value a schema allows.

_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def check_schemas(crd: CustomResourceDefinition) -> list[FieldError]:
    """Every rule and message expression that cannot be compiled or would cost too much; the schemas are compiled."""
    return list(_check_versions(crd))


def _check_versions(crd: CustomResourceDefinition) -> Iterator[FieldError]:
    for index, version in enumerate(crd.spec.versions or ()):
        compiled_schema = compiled(version)
        if compiled_schema.node.has_rules:
            yield from _check_version(compiled_schema, f"spec.versions[{index}].schema.openAPIV3Schema")


@dataclass(slots=True)
class _Total:
    cost: float = 0.0


def _check_version(found: Compiled, path: str) -> Iterator[FieldError]:
    total = _Total()
    yield from _walk(found.schema, found.node, path, 1.0, total)
    if total.cost > DEFINITION_LIMIT:
        why = _exceeded("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", total.cost)
        yield forbidden(path, why)


def _walk(schema: dict[str, Any], node: Node, path: str, times: float, total: _Total) -> Iterator[FieldError]:
    if not node.has_rules:
        return
    rules = schema.get("x-kubernetes-validations", ())
    value = sized(node) if rules else None
    for index, rule in enumerate(rules):
        for word in ("rule", "messageExpression"):
            text = rule.get(word, "").strip()
            if text:
                yield from _check(text, rule, value, f"{path}.x-kubernetes-validations[{index}].{word}", times, total)
    for name, each in schema.get("properties", {}).items():
        yield from _walk(each, node.properties[name], f"{path}.properties[{name}]", times, total)
    for word, below in (("items", node.items), ("additionalProperties", node.additional)):
        if below is not None and below.has_rules:
            inside = times * max(1.0, sized(compile_schema(_without_inner(schema))).size)
            yield from _walk(schema[word], below, f"{path}.{word}", inside, total)


def _check(text: str, rule: dict[str, Any], value: Any, path: str, times: float, total: _Total) -> Iterator[FieldError]:
    try:
        tree = compile_expression(text, RULE_VARIABLES).tree
    except CompileError as error:
        yield invalid(path, rule, f"compilation failed: {error}")
        return
    cost = estimate(tree, {"self": value, "oldSelf": value}) * times
    total.cost += cost
    if cost > RULE_LIMIT:
        yield forbidden(path, _exceeded("estimated rule cost", cost, RULE_LIMIT))


def _exceeded(what: str, cost: float, limit: float = DEFINITION_LIMIT) -> str:
    factor = cost / limit
    shown = f"{factor:.1f}x" if factor < 100 else "more than 100x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def _without_inner(schema: dict[str, Any]) -> dict[str, Any]:
    """As much of a schema as says how many entries there are."""
    word = "items" if "items" in schema else "additionalProperties"
    below = schema[word]
    least = {name: below[name] for name in ("type", "required", "properties") if name in below}
    return {**{name: schema[name] for name in ("type", "maxItems", "maxProperties") if name in schema}, word: least}


# Everything that can be wrong with an object of a user-defined kind, told as Kubernetes tells it.

_LARGEST = 2**31 - 1
# Errors that leave open what type a value has: rules are not run on such objects.
_BLOCKING = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def check_object(kind: CustomKind, obj: CustomObject, old: CustomObject | None) -> list[FieldError]:
    """All errors of a new object, or of the update of ``old``; empty when it is valid."""
    errors = [*validate_meta(kind, obj.metadata)]
    before: Any = ABSENT
    value = obj.values()
    if old is not None:
        errors += validate_meta_update(obj.metadata, old.metadata)
        before = old.values()
    errors += check_value(kind.node, value, before)
    errors += _scale(kind, value)
    errors += check_embedded(kind.node, value)
    if old is None or not any(check_lists(kind.node, before)):
        errors += check_lists(kind.node, value)
    if kind.node.has_rules:
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid(NOWHERE, None, _UNCHECKED))
        else:
            errors += check_rules(kind.node, value, before)
    return list({error.message(): error for error in errors}.values())


def _scale(kind: CustomKind, value: dict[str, Any]) -> Iterator[FieldError]:
    if kind.scale is None:
        return
    for path in (kind.scale.spec_replicas, kind.scale.status_replicas):
        field_value = find_value(value, path)
        if field_value is None:
            continue
        if isinstance(field_value, bool) or not isinstance(field_value, int):
            why = f"{path} accessor error: {field_value} is of the type {json_type(field_value)}, expected int64"
            yield invalid(path, 0, why)
        elif field_value < 0:
            yield invalid(path, field_value, "should be a non-negative integer")
        elif field_value > _LARGEST:
            yield invalid(path, field_value, f"should be less than or equal to {_LARGEST}")
    if kind.scale.selector:
        field_value = find_value(value, kind.scale.selector)
        if field_value is not None and not isinstance(field_value, str):
            why = f"{kind.scale.selector} accessor error: it is of the type {json_type(field_value)}, expected string"
            yield invalid(kind.scale.selector, "", why)
