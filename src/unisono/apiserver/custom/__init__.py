"""Kinds that users define: objects without a struct, held to the schema of their CustomResourceDefinition."""

from __future__ import annotations

from unisono.apiserver.custom.kinds import CustomKind, CustomObject, schema_for

__all__ = ["CustomKind", "CustomObject", "schema_for"]
