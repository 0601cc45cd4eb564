"""Reading definitions: words that schemas do not have are told like unknown fields, and what is not done is said."""

from __future__ import annotations

from typing import Any

from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.decode import Decoded, decode
from unisono.api.kind import Kind
from unisono.api.structural import compile_schema
from unisono.api.structural.dialect import read_schema
from unisono.apiserver.custom import cel


def decode_definition(kind: Kind[Any], body: dict[str, Any]) -> Decoded[Any]:
    """Decode a CustomResourceDefinition; its schemas keep only the words that schemas have."""
    decoded: Decoded[Any] = decode(kind, body)
    crd: CustomResourceDefinition = decoded.obj
    for index, version in enumerate(crd.spec.versions or ()):
        if version.schema is None or version.schema.open_apiv3_schema is None:
            continue
        at = f"spec.versions[{index}].schema.openAPIV3Schema"
        clean, unknown, errors = read_schema(version.schema.open_apiv3_schema, at)
        version.schema.open_apiv3_schema = clean
        decoded.unknown_fields.extend(unknown)
        decoded.type_errors.extend(errors)
    return decoded


def notes(obj: Any) -> list[str]:
    """Warnings for whoever writes a definition that asks for more than this server does."""
    if not isinstance(obj, CustomResourceDefinition):
        return []
    return _rules(obj)


def _rules(crd: CustomResourceDefinition) -> list[str]:
    """Warnings about CEL rules that are not checked."""
    schemas = [version.schema.open_apiv3_schema for version in crd.spec.versions or () if version.schema]
    rules = [rule for schema in schemas if schema for node in compile_schema(schema).walk() for rule in node.rules]
    if rules and not cel.available():
        return [
            "x-kubernetes-validations: these rules are not checked, because no CEL engine is installed; "
            "pip install 'unisono[cel]' and restart the server to have them checked"
        ]
    return [
        f"x-kubernetes-validations: this rule is not checked, because the CEL engine has no {lacking}: {rule.rule}"
        for rule in rules
        if (lacking := cel.unsupported(rule.rule))
    ]
