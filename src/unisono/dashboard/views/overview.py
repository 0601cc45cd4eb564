"""The cluster at a glance: the SDK's overview, with what waits in groups and how much was used over time (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from unisono.api.resources import to_units
from unisono.dashboard.views.table import choices
from unisono.dashboard.views.units import ordered, quantity
from unisono.dashboard.views.wire import (
    Choice,
    ComponentView,
    JobRow,
    OverviewView,
    ResourceView,
    WaitingGroup,
)
from unisono.fleet.members.summary import accelerator_type, is_accelerator
from unisono.sdk.components import Component, components
from unisono.sdk.node_capacity import Resource, is_ready, resources

if TYPE_CHECKING:
    from unisono.api.core import Lease, Node

_MOST_GROUPS = 50
_MOST_NODES = 100
Used = Mapping[str, Mapping[str, int]]
"""What is held of each node, by resource, in engine units."""


def overview_view(
    nodes: Sequence[Node],
    used: Used,
    leases: Iterable[Lease],
    rows: Iterable[JobRow],
    hidden: Sequence[str],
    now: float,
    *,
    ready: bool = True,
) -> OverviewView:
    """Everything at one moment.

    Args:
        nodes: that the viewer may see.
        used: what pods hold of each, in engine units.
        leases: which tell which parts of the control plane are alive.
        rows: of the jobs.
        hidden: kinds that the viewer may not see.
        now: seconds since 1970.
        ready: everything was listed once.

    """
    rows = list(rows)
    ready_nodes = [node for node in nodes if is_ready(node)]
    return OverviewView(
        ready=ready,
        components=[] if "leases" in hidden else [component_view(each) for each in components(leases, now)[1:]],
        resources=resource_views([node for node in ready_nodes if not node.spec.unschedulable], used),
        groups=waiting_groups(rows),
        nodes_ready=sum(not node.spec.unschedulable for node in ready_nodes),
        nodes_down=sorted(node.metadata.name for node in nodes if not is_ready(node))[:_MOST_NODES],
        nodes_cordoned=sorted(node.metadata.name for node in ready_nodes if node.spec.unschedulable)[:_MOST_NODES],
        states=choices(row.state for row in rows),
        hidden=list(hidden),
    )


def component_view(component: Component) -> ComponentView:
    """A part of the control plane."""
    return ComponentView(name=component.name, problem=component.problem, note=component.note)


def waiting_groups(rows: Iterable[JobRow]) -> list[WaitingGroup]:
    """Jobs that wait, by cause and queue; the group with the most pods first."""
    groups: dict[tuple[str, str], list[JobRow]] = defaultdict(list)
    for row in rows:
        if row.state == "waiting":
            groups[row.cause, row.queue].append(row)
    found = []
    for (cause, queue), members in groups.items():
        oldest = min(members, key=lambda row: (row.created, row.key))
        found.append(
            WaitingGroup(
                key=f"{queue}/{cause}",
                cause=cause,
                queue=queue,
                jobs=len(members),
                pods=sum(row.gang for row in members),
                example=msgspec.structs.replace(oldest, waiting="", message=""),
                line=oldest.waiting,
                since=oldest.created,
            )
        )
    return sorted(found, key=lambda group: (-group.pods, group.key))[:_MOST_GROUPS]


def resource_views(nodes: Sequence[Node], used: Used) -> list[ResourceView]:
    """Each resource of the nodes that take pods, and below it each model of its devices where there are several."""
    by_name = {each.name: each for each in resources(nodes, used)}
    models: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        models[accelerator_type(node.metadata.labels or {})].append(node)
    of_model = {}
    if len(models) > 1:
        for model, members in sorted(models.items()):
            of_model[model] = {each.name: each for each in resources(members, used) if is_accelerator(each.name)}
    rows = []
    for name in ordered(by_name):
        rows.append(_resource(by_name[name]))
        with_it = {model: there[name] for model, there in of_model.items() if name in there}
        if len(with_it) > 1:
            rows += [_resource(each, model or "other") for model, each in with_it.items()]
    return rows


def _resource(told: Resource, model: str = "") -> ResourceView:
    used, total, largest = (to_units(told.name, text) for text in (told.used, told.total, told.largest))
    return ResourceView(
        name=told.name,
        model=model,
        used=quantity(told.name, used),
        total=quantity(told.name, total),
        largest=quantity(told.name, largest),
        share=part(used, total),
        holes=[Choice(value=str(free), count=nodes) for free, nodes in told.holes.items()],
    )


def part(amount: int, total: int) -> float:
    """A part of a total, from 0 to 1 and a little beyond where more is used than there is."""
    return round(amount / total, 4) if total > 0 else 0.0
