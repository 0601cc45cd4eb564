"""The clusters of a fleet: what each has, what is used of it, and how many jobs are there (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api import messages
from unisono.api.conditions import find_condition
from unisono.api.fleet import READY, AttachedCluster
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list, to_units
from unisono.api.times import time_or
from unisono.dashboard.views.overview import part
from unisono.dashboard.views.units import ordered, quantity
from unisono.dashboard.views.wire import FleetView, MemberRow, ResourceView

_LEFT_OUT = ("pods", "ephemeral-storage")


def fleet_view(
    clusters: Iterable[AttachedCluster], jobs: Mapping[str, int], waiting: int, *, ready: bool = True
) -> FleetView:
    """All members that the viewer may see, by name.

    Args:
        clusters: of the hub.
        jobs: that have not ended, by the member that they are in.
        waiting: jobs that are in none.
        ready: everything was listed once.

    """
    rows = {}
    for cluster in sorted(clusters, key=lambda each: (each.metadata.name, each.metadata.namespace or "")):
        row = member_row(cluster, jobs.get(cluster.metadata.name, 0))
        rows[f"{row.namespace}/{row.name}"] = row
    return FleetView(ready=ready, order=list(rows), rows=rows, waiting=waiting)


def member_row(cluster: AttachedCluster, jobs: int) -> MemberRow:
    """The row of one member."""
    status = cluster.status
    told = find_condition(status.conditions, READY)
    return MemberRow(
        name=cluster.metadata.name,
        namespace=cluster.metadata.namespace or "",
        ready=bool(status.ready),
        message=(told.message or "") if told is not None else messages.MEMBER_NOT_LOOKED_AT,
        version=status.kubernetes_version or "",
        region=(cluster.metadata.labels or {}).get(TOPOLOGY_REGION, ""),
        nodes=(status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        jobs=jobs,
        resources=_resources(cluster),
        lost=time_or(status.lost_since),
    )


def _resources(cluster: AttachedCluster) -> list[ResourceView]:
    summary = cluster.status.resource_summary
    if summary is None:
        return []
    try:
        whole, used = resource_list(summary.allocatable), resource_list(summary.allocated)
        largest: dict[str, int] = {}
        models: dict[str, set[str]] = {}
        for each in cluster.status.accelerators or ():
            name = each.resource or ""
            largest[name] = max(largest.get(name, 0), to_units(name, each.largest_free_block or 0))
            models.setdefault(name, set()).update({each.type} if each.type else ())
    except QuantityError:
        # What a hub of another version has written is no reason to show no other member.
        return []
    return [
        ResourceView(
            name=name,
            model=", ".join(sorted(models.get(name, ()))),
            used=quantity(name, used.get(name, 0)),
            total=quantity(name, whole[name]),
            largest=quantity(name, largest[name]) if name in largest else "",
            share=part(used.get(name, 0), whole[name]),
        )
        for name in ordered(whole)
        if whole[name] and name not in _LEFT_OUT and not name.startswith("hugepages-")
    ]
