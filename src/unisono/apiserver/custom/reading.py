"""Reading definitions: words that schemas do not have are told like unknown fields."""

from __future__ import annotations

from typing import Any

from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.decode import Decoded, decode
from unisono.api.kind import Kind
from unisono.api.structural.dialect import read_schema


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
