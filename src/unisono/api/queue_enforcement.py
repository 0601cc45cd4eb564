"""Fields of a Queue that only some scheduler configurations enforce, and what to say where one is not enforced."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from unisono.api.annotations import ENFORCED_QUEUE_FIELDS
from unisono.api.scheduling import QueueSpec

NEEDS: Final[dict[str, str]] = {
    "weight": "list the plug-in proportion",
    "deserved": "list the plug-in capacity",
    "guarantee": "list the plug-in capacity or proportion",
    "priority": "list the plug-in capacity or proportion",
    "affinity": "list the plug-in nodegroup",
    "parent": "list the plug-in capacity with enableHierarchy: true (capabilities of parents hold without it)",
}
"""By field of the spec what it takes. ``capability`` always holds, also that of parents."""

_ROOT = ("", "root", None)


def unenforced(spec: QueueSpec, enforced: Collection[str]) -> Iterator[str]:
    """Names of fields that the queue states and that are not among ``enforced``.

    A value that means what holds without it (weight 1, no amounts) is none that is stated.
    """
    stated = {
        "weight": (spec.weight or 1) != 1,
        "deserved": bool(spec.deserved),
        "guarantee": spec.guarantee is not None and bool(spec.guarantee.resource),
        "priority": bool(spec.priority),
        "affinity": spec.affinity is not None,
        "parent": spec.parent not in _ROOT and bool(spec.deserved or (spec.guarantee and spec.guarantee.resource)),
    }
    return (field for field in NEEDS if stated[field] and field not in enforced)


def warnings_of(spec: QueueSpec, lease_annotations: Mapping[str, str] | None) -> list[str]:
    """One sentence for each such field, by what the scheduler's Lease says of its configuration, if there is one."""
    told = (lease_annotations or {}).get(ENFORCED_QUEUE_FIELDS)
    if told is None:
        return []
    return [
        f"spec.{field}: the scheduler's configuration does not enforce it; {NEEDS[field]}"
        for field in unenforced(spec, told.split(","))
    ]
