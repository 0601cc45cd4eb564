"""What a policy has brought to a cluster: a record beside the objects, so that nothing is forgotten in a crash (pure).

The record is a ConfigMap of the member. It is written with the old and the new objects before the first of them is
applied, and with the new ones alone after the old ones are gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from unisono.api.annotations import APPLICATION, HUB
from unisono.fleet.applications.bundle import Ref, rank
from unisono.fleet.members.joining import ACCOUNT_NAMESPACE

NAMESPACE: Final = ACCOUNT_NAMESPACE
_OBJECTS = "objects"


def record_ref(hub: str, application: str, policy: str) -> Ref:
    """Where the record of a policy is kept in its clusters."""
    digest = hashlib.sha256(json.dumps([hub, application, policy]).encode()).hexdigest()[:20]
    return Ref("v1", "ConfigMap", NAMESPACE, f"application-{digest}")


def record(ref: Ref, refs: Iterable[Ref], *, hub: str, application: str, policy: str) -> dict[str, Any]:
    """The ConfigMap that says what was brought."""
    listed = [[each.api_version, each.kind, each.namespace, each.name] for each in sorted(refs)]
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {HUB: hub},
            "annotations": {APPLICATION: application, "unisono.io/policy": policy},
        },
        "data": {_OBJECTS: json.dumps(listed)},
    }


def recorded(value: Mapping[str, Any] | None) -> set[Ref]:
    """The objects that a record names; none for one that is missing or cannot be read."""
    try:
        listed = json.loads(((value or {}).get("data") or {}).get(_OBJECTS, "[]"))
        return {Ref(*map(str, each)) for each in listed if len(each) == 4}
    except (ValueError, TypeError, AttributeError):
        return set()


def to_delete(before: Iterable[Ref], wanted: Iterable[Ref]) -> list[Ref]:
    """Objects that are no longer wanted, what others need last.

    An object whose API version alone has changed is the same object.
    """
    kept = {(_group(each), each.kind, each.namespace, each.name) for each in wanted}
    gone = [each for each in before if (_group(each), each.kind, each.namespace, each.name) not in kept]
    return sorted(gone, key=lambda each: (-rank(each.kind), each))


def _group(ref: Ref) -> str:
    return ref.api_version.rpartition("/")[0]
