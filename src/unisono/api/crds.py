"""CustomResourceDefinitions of the custom kinds, generated from structs, columns and kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.columns import columns
from unisono.api.keys import HELM_RESOURCE_POLICY
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_KINDS
from unisono.api.schema import schema_of
from unisono.api.shape import prepare

# Strategic merge is for built-in kinds; an API server refuses these extensions in a CRD.
_PATCH_EXTENSIONS = ("x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy")


def crd_manifests() -> list[dict[str, Any]]:
    """One ``apiextensions.k8s.io/v1`` CustomResourceDefinition per custom kind, as JSON values of the caller's own."""
    prepare(kind.struct for kind in CUSTOM_KINDS)
    return [_manifest(kind) for kind in CUSTOM_KINDS]


def _manifest(kind: Kind[Any]) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular_name,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Removing a release must not remove the jobs of its users.
        "metadata": {"name": kind.resource, "annotations": {HELM_RESOURCE_POLICY: "keep"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, name) for name in (kind.version, *kind.alias_versions)],
        },
    }


def _version(kind: Kind[Any], name: str) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": name == kind.version,
        "schema": {"openAPIV3Schema": structural_schema(kind)},
        "subresources": _subresources(kind),
    }
    printed = [column.manifest() for column in columns(kind)]
    if printed:
        version["additionalPrinterColumns"] = printed
    return version


def _subresources(kind: Kind[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"status": {}} if kind.status_subresource else {}
    if kind.scale is not None:
        found["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        }
        if kind.scale.selector:
            found["scale"]["labelSelectorPath"] = kind.scale.selector
    return found


def structural_schema(kind: Kind[Any]) -> dict[str, Any]:
    """The kind's schema as a CRD may hold it: the API server itself knows ``metadata``."""
    # A copy by way of JSON: these schemas are large, and a control plane makes all of them when it starts.
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema_of(kind)))
    schema["properties"]["metadata"] = {"type": "object"}
    _restrict(schema)
    return schema


def _restrict(schema: dict[str, Any]) -> None:
    """Drop what a structural schema may not say, everywhere below ``schema``."""
    for extension in _PATCH_EXTENSIONS:
        schema.pop(extension, None)
    _restrict_list(schema)
    for below in schema.get("properties", {}).values():
        _restrict(below)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            _restrict(schema[name])


def _restrict_list(schema: dict[str, Any]) -> None:
    """In a CRD the keys of a map list must be required or have a default; otherwise the list is atomic."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys is None:
        return
    item = schema["items"]
    if "protocol" in keys:
        item["properties"]["protocol"]["default"] = "TCP"
    known = set(item.get("required", ()))
    if not all(key in known or "default" in item["properties"][key] for key in keys):
        del schema["x-kubernetes-list-map-keys"]
        schema["x-kubernetes-list-type"] = "atomic"
