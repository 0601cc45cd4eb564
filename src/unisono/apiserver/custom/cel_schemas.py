"""CEL rules in definitions: expressions must compile, and must be affordable for the largest value a schema allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unisono.api.cel import CompileError, compile_expression
from unisono.api.cel.estimate import DEFINITION_LIMIT, RULE_LIMIT, estimate, sized
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.field_error import FieldError, forbidden, invalid
from unisono.api.structural import Node, compile_schema
from unisono.apiserver.custom.cel import RULE_VARIABLES
from unisono.apiserver.custom.compiled import Compiled, compiled

_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def check_schemas(crd: CustomResourceDefinition) -> list[FieldError]:
    """Every rule and message expression that cannot be compiled or would cost too much; the schemas are compiled."""
    return list(_check_versions(crd))


def _check_versions(crd: CustomResourceDefinition) -> Iterator[FieldError]:
    for index, version in enumerate(crd.spec.versions or ()):
        found = compiled(version)
        if found.node.has_rules:
            yield from _check_version(found, f"spec.versions[{index}].schema.openAPIV3Schema")


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
