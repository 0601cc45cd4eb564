"""Kinds that users define: objects without a struct, held to the schema of their CustomResourceDefinition."""

from __future__ import annotations

from unisono.apiserver.custom.kinds import CustomKind, schema_for
from unisono.apiserver.custom.objects import CustomObject

__all__ = ["CustomKind", "CustomObject", "schema_for"]
