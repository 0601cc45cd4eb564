"""What a member has and what of it is free, from the hub's state (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.groups.fleet import AcceleratorSummary, NodeSummary, ResourceSummary
from unisono.api.keys import GPU_PRODUCT
from unisono.api.resources import to_wire
from unisono.cluster.nodes import NodeTable
from unisono.fleet.jobs.translation import cluster_of

_TYPE_LABELS = (GPU_PRODUCT, "accelerator", "gpu")
# Resources of vendors' names that are no accelerators.
_OTHERS = ("hugepages-", "attachable-volumes-", "kubernetes.io/", "requests.", "limits.")


@dataclass(frozen=True, slots=True)
class MemberSummary:
    """Nodes, resources and accelerators of one member."""

    nodes: NodeSummary
    resources: ResourceSummary
    accelerators: list[AcceleratorSummary]


def accelerator_type(labels: Mapping[str, str]) -> str:
    """The model that a node's labels name; empty where they do not."""
    return next((labels[name] for name in _TYPE_LABELS if labels.get(name)), "")


def is_accelerator(resource: str) -> bool:
    """Whether a resource is a device of a vendor."""
    return "/" in resource and not resource.startswith(_OTHERS)


def summaries(table: NodeTable) -> dict[str, MemberSummary]:
    """Summary by member; nodes of the hub itself are left out."""
    rows: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(table.names):
        cluster = cluster_of(name)
        if cluster:
            rows[cluster].append(column)
    return {cluster: _summary(table, columns) for cluster, columns in rows.items()}


def _summary(table: NodeTable, columns: list[int]) -> MemberSummary:
    ready = [column for column in columns if table.ready[column]]
    names = table.registry.names
    whole, used = table.allocatable[:, ready].sum(axis=1), table.used[:, ready].sum(axis=1)
    allocatable = {name: int(whole[row]) for row, name in enumerate(names[: len(whole)]) if whole[row]}
    allocated = {name: int(used[row]) for row, name in enumerate(names[: len(used)]) if used[row]}
    return MemberSummary(
        NodeSummary(total_num=len(columns), ready_num=len(ready)),
        ResourceSummary(allocatable={**to_wire(allocatable)}, allocated={**to_wire(allocated)}),
        _accelerators(table, ready, [name for name in allocatable if is_accelerator(name)]),
    )


def _accelerators(table: NodeTable, ready: list[int], resources: list[str]) -> list[AcceleratorSummary]:
    found: list[AcceleratorSummary] = []
    for resource in sorted(resources):
        row = table.registry.names.index(resource)
        by_type: dict[str, list[int]] = defaultdict(list)
        for column in ready:
            if table.allocatable[row, column]:
                by_type[accelerator_type(table.facts[column].labels)].append(column)
        for model, columns in sorted(by_type.items()):
            total = table.allocatable[row, columns]
            free = (total - table.used[row, columns]).clip(min=0)
            figures = {"total": int(total.sum()), "free": int(free.sum()), "largest": int(free.max())}
            wire = {name: to_wire({resource: amount})[resource] for name, amount in figures.items()}
            found.append(
                AcceleratorSummary(
                    resource=resource,
                    type=model,
                    total=wire["total"],
                    free=wire["free"],
                    largest_free_block=wire["largest"],
                )
            )
    return found
