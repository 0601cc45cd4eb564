"""The objects of one policy, checked and marked, in the order in which a cluster needs them (pure)."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from unisono.api.annotations import APPLICATION, HUB
from unisono.errors import ConfigError

APP_NAME_LABEL: Final = "apps.kurator.dev/app-name"
MOST_OBJECTS: Final = 1000
"""Objects of one policy."""
MOST_BYTES: Final = 16 * 1024**2
"""Size of all objects of one policy, as JSON."""

# What others need comes first; what checks the requests of others comes last. Helm's order, shortened.
_FIRST = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
)
_LAST = (
    "APIService",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_RANKS = {kind: rank - len(_FIRST) for rank, kind in enumerate(_FIRST)} | {
    kind: rank + 1 for rank, kind in enumerate(_LAST)
}


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Name of an object in a cluster; cluster-scoped objects have an empty namespace."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As messages name it: ``Queue training``, ``ConfigMap web/settings``."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def rank(kind: str) -> int:
    """Place of a kind: negative before the ordinary ones, positive after them."""
    return _RANKS.get(kind, 0)


def bundle(
    objects: Sequence[Mapping[str, Any]],
    *,
    hub: str,
    application: str,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Objects ready to be applied, with the marks by which they are known later.

    Args:
        objects: as written or rendered; a ``List`` stands for its items.
        hub: identity of the hub.
        application: ``NAMESPACE/NAME``.
        namespace: namespace for all objects that have one, whatever they say; each keeps its own without it.
        labels: for all objects (``commonMetadata``).
        annotations: likewise.

    Raises:
        ConfigError: an object cannot be applied, or there are too many.

    """
    found: list[dict[str, Any]] = []
    seen: set[tuple[str, str, str, str]] = set()
    for place, value in _flat(objects):
        meta = _metadata(value, place)
        made = copy.deepcopy(dict(value))
        made.pop("status", None)
        made["metadata"] = meta
        if namespace and value["kind"] != "Namespace":
            meta["namespace"] = namespace
        name = application.rpartition("/")[2][:63]
        meta["labels"] = {**(meta.get("labels") or {}), **(labels or {}), HUB: hub, APP_NAME_LABEL: name}
        meta["annotations"] = {**(meta.get("annotations") or {}), **(annotations or {}), APPLICATION: application}
        key = (value["apiVersion"], value["kind"], meta.get("namespace") or "", meta["name"])
        if key in seen:
            raise ConfigError(f"{place}: {value['kind']} {meta['name']} is there twice")
        seen.add(key)
        found.append(made)
        if len(found) > MOST_OBJECTS:
            raise ConfigError(f"a policy may have {MOST_OBJECTS} objects at most: divide it")
    if sum(len(json.dumps(each)) for each in found) > MOST_BYTES:
        raise ConfigError(f"the objects of a policy may have {MOST_BYTES // 1024**2} MiB at most: divide it")
    return sorted(found, key=lambda each: rank(each["kind"]))


def belongs_to(live: Mapping[str, Any], application: str, hub: str) -> bool:
    """Whether an object of a cluster was brought by this Application of this hub, or was handed over to it."""
    meta = live.get("metadata") or {}
    marked = (meta.get("annotations") or {}).get(APPLICATION) == application
    return marked and (meta.get("labels") or {}).get(HUB, hub) == hub


def _flat(objects: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for index, value in enumerate(objects):
        place = f"object {index}"
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place}: is no Kubernetes object but {type(value).__name__}")
        items = value.get("items")
        if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
            found += [(f"{place}.items[{number}]", item) for number, item in enumerate(items)]
        else:
            found.append((place, value))
    return found


def _metadata(value: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: is no Kubernetes object but {type(value).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ConfigError(f"{place}: {field} must be set")
    meta = value.get("metadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise ConfigError(
            f"{place}: metadata.name of the {value['kind']} must be set; generateName is not possible here"
        )
    for field in ("labels", "annotations"):
        if meta.get(field) is not None and not isinstance(meta[field], Mapping):
            raise ConfigError(f"{place}: metadata.{field} of the {value['kind']} must be a map of texts")
    if meta.get("namespace") is not None and not isinstance(meta["namespace"], str):
        raise ConfigError(f"{place}: metadata.namespace of the {value['kind']} must be a text")
    written_by_the_server = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
    return {key: each for key, each in copy.deepcopy(dict(meta)).items() if key not in written_by_the_server}
