"""What all kinds of jobs say about their PodGroup: how it is made, what it asks for, whether it was admitted (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from unisono.api.annotations import CHECKED, GOT, LATER_PARTS, WAITS_SUSPENDED
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import PodSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind import Kind
from unisono.api.resources import add, pod_limits, pod_requests, to_wire
from unisono.controllers.objects import field_diff, to_json
from unisono.controllers.owners import owned_by

PENDING: Final = "Pending"
"""Phase of a PodGroup that waits for its admission."""

# Annotations that say something of the job alone.
_OWN = frozenset({LAST_APPLIED, CHECKED, LATER_PARTS, GOT})
# Resources of which a quota counts limits.
_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})


def pod_group_of_job(
    kind: Kind[Any],
    job: Object,
    name: str,
    spec: PodGroupSpec,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> PodGroup:
    """The PodGroup that a job controls; it takes over the job's annotations for others, and these besides."""
    handed = {k: v for k, v in (job.metadata.annotations or {}).items() if k not in _OWN}
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=job.metadata.namespace,
            labels=dict(labels) if labels else None,
            annotations={**handed, **(annotations or {})} or None,
            owner_references=[owned_by(kind, job)],
        ),
        spec=spec,
        status=PodGroupStatus(phase=PENDING),
    )


def waits_suspended(group: PodGroup) -> bool:
    """Whether a suspended job keeps this group: it waits in its queue meanwhile."""
    return WAITS_SUSPENDED in (group.metadata.annotations or {})


def is_admitted(group: PodGroup) -> bool:
    """Whether the scheduler has let the gang into its queue: pods may exist from then on."""
    return (group.status.phase or PENDING) != PENDING


# Fields of a spec that follow the job. The queue is fixed once the PodGroup is admitted.
_FOLLOWED = ("minMember", "minTaskMember", "minResources", "priorityClassName", "networkTopology", "subGroupPolicy")
# Maps in which an entry too many is wrong.
_EXACT = frozenset({"minTaskMember", "minResources"})


def spec_patch(found: PodGroup, wanted: PodGroup, *, kept: Collection[str] = ()) -> dict[str, Any]:
    """Merge patch that brings a PodGroup's spec to what its job asks for; empty when it is so already.

    Args:
        found: the PodGroup.
        wanted: as the job asks for it.
        kept: fields that others may set where the job says nothing.
    """
    return field_diff(to_json(found.spec), to_json(wanted.spec), _FOLLOWED, exact=_EXACT, kept=kept)


def foreign_group(group: PodGroup) -> str:
    """What a job is told whose PodGroup's name is taken."""
    return f"pod group {group.key} exists and belongs to something else; delete it to let this job start"


def most_requested(alternatives: Iterable[Iterable[tuple[PodSpec, int]]]) -> dict[str, str]:
    """Of each resource the most that one of several sets of pods requests, as wire quantities."""
    most: dict[str, int] = {}
    for parts in alternatives:
        for name, amount in _requested(parts).items():
            most[name] = max(amount, most.get(name, 0))
    return to_wire(most)


def sum_requests(parts: Iterable[tuple[PodSpec, int]]) -> dict[str, str]:
    """Requests of so many pods of each spec, as wire quantities."""
    return to_wire(_requested(parts))


def _requested(parts: Iterable[tuple[PodSpec, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for spec, count in parts:
        if count > 0:
            add(total, {name: amount * count for name, amount in pod_requests(spec).items()})
    return total


def sum_usage(parts: Iterable[tuple[PodSpec, int]]) -> dict[str, str]:
    """Quota usage, as wire quantities, of so many pods of each spec (Kubernetes' pod quota evaluator)."""
    parts = [(spec, count) for spec, count in parts if count > 0]
    limits: dict[str, int] = {}
    for spec, count in parts:
        add(limits, {name: amount * count for name, amount in pod_limits(spec).items()})
    pods = sum(count for _, count in parts)
    usage = {"pods": str(pods), "count/pods": str(pods)} if pods else {}
    for name, quantity in sum_requests(parts).items():
        usage[name] = usage[f"requests.{name}"] = quantity
    for name, quantity in to_wire(limits).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = quantity
    return usage
