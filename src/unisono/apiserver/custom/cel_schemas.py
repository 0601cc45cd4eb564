"""CEL rules in definitions: expressions that cannot be compiled are errors of the definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.field_error import FieldError, invalid
from unisono.apiserver.custom import cel


def check_definition(crd: CustomResourceDefinition) -> Iterator[FieldError]:
    """Every rule and message expression that the engine cannot read."""
    for index, version in enumerate(crd.spec.versions or ()):
        schema = version.schema.open_apiv3_schema if version.schema else None
        if schema is not None:
            yield from _walk(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def _walk(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        for word in ("rule", "messageExpression"):
            expression = rule.get(word, "")
            why = cel.check_expression(expression) if expression.strip() else ""
            if why:
                yield invalid(f"{path}.x-kubernetes-validations[{index}].{word}", rule, why)
    for name, each in schema.get("properties", {}).items():
        yield from _walk(each, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _walk(schema[word], f"{path}.{word}")
