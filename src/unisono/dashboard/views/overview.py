"""The cluster at a glance: the SDK's overview, with what waits in groups and how much was used over time (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from unisono.api.resources import add, pod_requests, resource_list, to_units
from unisono.dashboard.views.table import choices
from unisono.dashboard.views.units import ordered, quantity
from unisono.dashboard.views.wire import (
    Choice,
    ComponentView,
    JobRow,
    OverviewView,
    ResourceView,
    Sample,
    WaitingGroup,
)
from unisono.fleet.members.summary import accelerator_type, is_accelerator
from unisono.sdk.overview import Component, Found, Resource, overview

_MOST_GROUPS = 50
_MOST_NODES = 100
_ENDED = ("Succeeded", "Failed")


def overview_view(
    found: Found,
    rows: Iterable[JobRow],
    samples: Sequence[Sample],
    hidden: Sequence[str],
    now: float,
    *,
    ready: bool = True,
) -> OverviewView:
    """Everything at one moment.

    Args:
        found: objects that the viewer may see.
        rows: of the jobs.
        samples: how much was used.
        hidden: kinds that the viewer may not see.
        now: seconds since 1970.
        ready: everything was listed once.

    """
    told = overview(found, now)
    rows = list(rows)
    return OverviewView(
        ready=ready,
        components=[] if "leases" in hidden else [component_view(each) for each in told.components[1:]],
        resources=resources(found, told.resources, now),
        groups=waiting_groups(rows),
        nodes_ready=len(told.ready),
        nodes_down=told.not_ready[:_MOST_NODES],
        nodes_cordoned=told.cordoned[:_MOST_NODES],
        states=choices(row.state for row in rows),
        hidden=list(hidden),
        samples=list(samples),
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


def resources(found: Found, told: Iterable[Resource], now: float) -> list[ResourceView]:
    """Each resource of the nodes that take pods, and below it each model of its devices where there are several."""
    by_name = {each.name: each for each in told}
    models: dict[str, set[str]] = defaultdict(set)
    for node in found.nodes:
        models[accelerator_type(node.metadata.labels or {})].add(node.metadata.name)
    of_model = {}
    if len(models) > 1:
        for model in sorted(models):
            nodes = [node for node in found.nodes if node.metadata.name in models[model]]
            pods = [pod for pod in found.pods if pod.spec.node_name in models[model]]
            alone = overview(Found("", nodes, pods, [], [], []), now).resources
            of_model[model] = {each.name: each for each in alone if is_accelerator(each.name)}
    rows = []
    for name in ordered(by_name):
        rows.append(_resource(by_name[name]))
        with_it = {model: there[name] for model, there in of_model.items() if name in there}
        if len(with_it) > 1:
            rows += [_resource(each, model or "other") for model, each in with_it.items()]
    return rows


def used_parts(found: Found) -> dict[str, float]:
    """Used part of each resource of all nodes, from 0 to 1."""
    total: dict[str, int] = {}
    nodes = set()
    for node in found.nodes:
        nodes.add(node.metadata.name)
        add(total, resource_list(node.status.allocatable))
    used: dict[str, int] = {}
    for pod in found.pods:
        if pod.spec.node_name in nodes and pod.status.phase not in _ENDED:
            add(used, pod_requests(pod.spec))
    return {name: part(used.get(name, 0), amount) for name, amount in total.items() if amount and name != "pods"}


def sample(found: Found, waiting: int, now: float) -> Sample:
    """How much is used now: of each resource, and of its largest resource by each queue."""
    total: dict[str, int] = {}
    for node in found.nodes:
        add(total, resource_list(node.status.allocatable))
    queues = {}
    for queue in found.queues:
        if queue.metadata.name != "root":
            queues[queue.metadata.name] = dominant(resource_list(queue.status.allocated), total)
    return Sample(time=now, resources=used_parts(found), queues=queues, waiting=waiting)


def dominant(amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
    """The largest of the amounts' parts of the total."""
    return max((part(amount, total.get(name, 0)) for name, amount in amounts.items()), default=0.0)


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
