"""CustomResourceDefinitions and their objects, for tests."""

from __future__ import annotations

from typing import Any

from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.service import ObjectService
from unisono.apiserver.types import WriteOptions

CRDS = CUSTOM_RESOURCE_DEFINITIONS
GROUP = "example.com"


def obj_schema(**properties: Any) -> dict[str, Any]:
    """An object's schema; ``required`` among the arguments names required fields."""
    required = properties.pop("required", None)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def version(name: str = "v1", schema: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """One version; the first one of a definition is stored unless ``storage`` says otherwise."""
    found = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if schema is None else schema
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": found}, **fields}


def crd(plural: str = "widgets", *versions: dict[str, Any], scope: str = "Namespaced", **names: Any) -> dict[str, Any]:
    """A definition; without versions one that keeps everything."""
    kind = names.pop("kind", plural.removesuffix("s").capitalize())
    group = names.pop("group", GROUP)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, **names},
            "versions": list(versions) or [version()],
        },
    }


def widget(
    name: str = "w", spec: Any = None, *, api: str = "v1", kind: str = "Widget", **fields: Any
) -> dict[str, Any]:
    """An object of the kind that ``crd()`` defines; None leaves the spec out."""
    found: dict[str, Any] = {"apiVersion": f"{GROUP}/{api}", "kind": kind, "metadata": {"name": name}, **fields}
    if spec is not None:
        found["spec"] = spec
    return found


async def define(service: ObjectService, definition: dict[str, Any], at: str = "v1") -> Kind[Any]:
    """Create a definition; answers its kind under the version ``at``."""
    await service.create(CRDS, None, definition, WriteOptions())
    return served(service.context, definition["spec"]["names"]["kind"], at)


def served(context: Context, kind: str = "Widget", at: str = "v1") -> Kind[Any]:
    """A user-defined kind."""
    found = context.custom.find(f"{GROUP}/{at}", kind)
    assert found is not None
    return found
