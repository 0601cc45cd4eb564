"""PodGroups of ``scheduling.k8s.io``: what their status says, and which one the pods of an object name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unisono.api.groups.workload import COMPOSITE_SCHEDULED, MOST_LEVELS, SCHEDULED
from unisono.api.kind_families import COMPOSITE_POD_GROUPS, WORKLOAD_POD_GROUPS
from unisono.sdk.fixes.owners import Raw, read
from unisono.sdk.fixes.pod_specs import pod_specs

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient


def is_workload_group(item: Mapping[str, Any]) -> bool:
    """Whether the object is such a PodGroup."""
    return WORKLOAD_POD_GROUPS.matches(str(item.get("apiVersion", "")), str(item.get("kind", "")))


def why_unscheduled(group: Mapping[str, Any]) -> str:
    """What its condition says while it waits; empty where that is nothing."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    types = (*SCHEDULED, *COMPOSITE_SCHEDULED)
    condition: Mapping[str, Any] = next(
        (one for one in conditions if one.get("type") in types and one.get("status") != "True"), {}
    )
    return str(condition.get("message") or "")


async def read_workload_group(client: HttpClient, name: str, namespace: str | None) -> Raw | None:
    """The PodGroup as the server sends it; None where there is none of that name."""
    return await read(client, WORKLOAD_POD_GROUPS, name, namespace)


async def top_name(client: HttpClient, group: Mapping[str, Any]) -> str:
    """Name of the group at the top of the tree that a group is in, which the PodGroup of ours has, too."""
    meta = group.get("metadata") or {}
    name, spec = str(meta.get("name")), group.get("spec") or {}
    for _ in range(MOST_LEVELS):
        above = spec.get("parentCompositePodGroupName")
        if not above:
            break
        name = str(above)
        spec = (await read(client, COMPOSITE_POD_GROUPS, name, meta.get("namespace")) or {}).get("spec") or {}
    return name


def named_in(owner: Raw) -> str:
    """The name that ``schedulingGroup`` of the pods of an object gives; empty without one."""
    groups = (spec.get("schedulingGroup") or {} for spec in pod_specs(owner))
    return next((str(group["podGroupName"]) for group in groups if group.get("podGroupName")), "")


async def group_named_in(client: HttpClient, owner: Raw) -> Raw | None:
    """The PodGroup that the pods of an object name; None where they name none, or it does not exist."""
    name = named_in(owner)
    return await read_workload_group(client, name, owner["metadata"].get("namespace")) if name else None
