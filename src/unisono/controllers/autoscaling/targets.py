"""What autoscalers scale: any object of a served kind that has replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api import kinds
from unisono.api.base import LabelSelector, Object
from unisono.api.kind import Kind
from unisono.api.selecting import selector_text
from unisono.controllers.patching import to_json
from unisono.errors import NotFound
from unisono.kube.client import Client


@dataclass(frozen=True, slots=True)
class Target:
    """An object with replicas.

    Attributes:
        replicas: as its specification says; 1 where it says nothing.
        present: pods that it has, as its status says.

    """

    kind: Kind[Any]
    obj: Object
    replicas: int
    present: int


def scalable(api_version: str | None, kind: str) -> Kind[Any] | None:
    """The kind of a reference, if it can be scaled; without a version the first of that name."""
    if api_version:
        found = kinds.find(api_version, kind)
        return found if found is not None and found.scale is not None else None
    return next((each for each in kinds.ALL_KINDS if each.kind == kind and each.scale is not None), None)


async def find(client: Client, namespace: str, api_version: str | None, kind: str, name: str) -> Target:
    """The object that a reference names.

    Raises:
        NotFound: there is none, or its kind has no replicas.

    """
    found = scalable(api_version, kind)
    if found is None or found.scale is None:
        raise NotFound(f"{kind} of {api_version or 'any version'} is no kind that can be scaled here")
    obj = await client.get(found, name, namespace)
    value = to_json(obj)
    wanted = _at(value, found.scale.spec_replicas)
    return Target(found, obj, 1 if wanted is None else wanted, _at(value, found.scale.status_replicas) or 0)


async def scale(client: Client, target: Target, replicas: int) -> None:
    """Give the object other replicas.

    Raises:
        Conflict: it has changed since it was read.

    """
    assert target.kind.scale is not None
    meta = target.obj.metadata
    patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version}}
    at = patch
    *above, last = target.kind.scale.spec_replicas.strip(".").split(".")
    for part in above:
        at = at.setdefault(part, {})
    at[last] = replicas
    await client.patch(target.kind, meta.name, patch, namespace=meta.namespace)


def selector_of(target: Target) -> str:
    """The label selector of the pods of an object, as text; empty where its kind or its status names none."""
    assert target.kind.scale is not None
    found: Any = to_json(target.obj)
    for part in target.kind.scale.selector.strip(".").split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, dict):
        plain = not found.keys() <= {"matchLabels", "matchExpressions"}
        return selector_text(msgspec.convert({"matchLabels": found} if plain else found, LabelSelector))
    return found if isinstance(found, str) else ""


def _at(value: Any, path: str) -> int | None:
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, int) else None
