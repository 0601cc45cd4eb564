"""Queues, nodes and budgets as the SDK, the command line and the dashboard show them: what may be used, and what is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from unisono.api.budgets import Hold, count, plain, purse_of, tally_of, unit
from unisono.api.conditions import is_true
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kinds import POD_GROUPS
from unisono.api.node_checks import quarantined_by
from unisono.api.pod_states import has_ended
from unisono.api.resources import add, by_importance, pod_requests, readable, resource_list
from unisono.api.selecting import queue_of
from unisono.api.times import rfc3339, time_or
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.api.core import Node, Pod
    from unisono.api.groups.budgets import Budget
    from unisono.kube.client import Client

PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue.

    Attributes:
        name: of the queue.
        parent: the queue above it; ``root`` at the top.
        state: ``Open``, ``Closed``, ``Closing`` or ``Unknown``.
        weight: share among its siblings.
        groups: number of its PodGroups by phase: Inqueue, Pending, Running, Unknown, Completed; empty where the user
            may not list them.
        capability, deserved, guarantee, allocated: quantities by resource name.
    """

    name: str
    parent: str = "root"
    state: str = "Unknown"
    weight: int = 1
    groups: dict[str, int] = field(default_factory=dict)
    capability: dict[str, str] = field(default_factory=dict)
    deserved: dict[str, str] = field(default_factory=dict)
    guarantee: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """A table for notebooks: PodGroups by phase, and a row for each resource."""
        amounts = (self.allocated, self.deserved, self.guarantee, self.capability)
        names = dict.fromkeys(name for each in amounts for name in each)
        groups = ", ".join(f"{number} {phase}" for phase, number in self.groups.items() if number)
        head = f"{self.name}, {self.state}" + (f": {groups}" if groups else "")
        rows = ""
        for name in names:
            cells = "".join(f"<td>{escape(each.get(name, ''))}</td>" for each in amounts)
            rows += f"<tr><td>{escape(name)}</td>{cells}</tr>"
        titles = "".join(
            f"<th>{title}</th>" for title in ("resource", "allocated", "deserved", "guarantee", "capability")
        )
        return f"<table><caption>{escape(head)}</caption><tr>{titles}</tr>{rows}</table>"


async def all_groups(client: Client) -> list[PodGroup] | None:
    """All PodGroups, to be counted; None for a user who may not list them, such as one of a single namespace."""
    try:
        return (await client.list(POD_GROUPS)).items
    except ApiError as error:
        if error.code != 403:
            raise
        return None


def queue_views(queues: Iterable[Queue], groups: Iterable[PodGroup] | None) -> list[QueueView]:
    """Views of queues, by name. PodGroups are counted: the counters in a queue's status are not written any more.

    None for groups that the user may not list.
    """
    counts: dict[str, Counter[str]] = {}
    for group in groups or ():
        counts.setdefault(queue_of(group), Counter())[group.status.phase or "Pending"] += 1
    return [
        _view(queue, None if groups is None else counts.get(queue.metadata.name, Counter()))
        for queue in sorted(queues, key=lambda queue: queue.metadata.name)
    ]


def _view(queue: Queue, counts: Counter[str] | None) -> QueueView:
    name, spec = queue.metadata.name, queue.spec
    return QueueView(
        name,
        parent=spec.parent or ("" if name == "root" else "root"),
        state=queue.status.state or "Unknown",
        weight=spec.weight if spec.weight is not None else 1,
        groups={} if counts is None else {phase: counts[phase] for phase in PHASES},
        capability=_amounts(spec.capability),
        deserved=_amounts(spec.deserved),
        guarantee=_amounts(spec.guarantee.resource if spec.guarantee else None),
        allocated=_amounts(queue.status.allocated),
    )


def _amounts(amounts: dict[str, str | int | float] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}


# What nodes offer and what pods hold of it: a line for each node, and totals of each resource.


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of all ready nodes, in quantities for people.

    Attributes:
        name: such as ``cpu`` or ``nvidia.com/gpu``.
        used: requested by pods that have a node and have not ended.
        total: allocatable on nodes that take pods.
        largest: most that is free on one node.
        holes: of a device, number of nodes by how many are free there, most first.
    """

    name: str
    used: str
    total: str
    largest: str
    holes: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node.

    Attributes:
        name: of the node.
        state: ``idle``, ``mix``, ``alloc`` (no core or no device is left), ``drain`` (cordoned), ``down`` (not ready).
        cpus, memory: ``4/16``: requested by pods, and allocatable.
        devices: ``nvidia.com/gpu 2/8``; empty where it has none.
    """

    name: str
    state: str
    cpus: str
    memory: str
    devices: str = ""


def used_of_total(name: str, used: Mapping[str, int], there: Mapping[str, int]) -> str:
    """``4/16``: what is used of a resource and what there is of it, both from engine units."""
    return "/".join(readable({name: amounts.get(name, 0)}).get(name, "0") for amounts in (used, there))


def is_ready(node: Node) -> bool:
    """Whether a node's condition Ready is true."""
    return is_true(node.status.conditions, "Ready")


def used_by_node(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """What pods that have not ended hold of each node, in engine units, with their number as ``pods``."""
    used: dict[str, dict[str, int]] = defaultdict(dict)
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod):
            add(used[pod.spec.node_name], {**pod_requests(pod.spec), "pods": 1})
    return used


def node_line(node: Node, used: Mapping[str, int]) -> NodeLine:
    """The line of a node of which pods hold ``used``, in engine units."""
    there = resource_list(node.status.allocatable)
    devices = devices_of(there)

    shown = ", ".join(f"{name} {used_of_total(name, used, there)}" for name in devices)
    cpus, memory = (used_of_total(name, used, there) for name in _FIRST)
    return NodeLine(node.metadata.name, node_state(node, there, used), cpus, memory, shown)


def node_state(node: Node, there: Mapping[str, int], used: Mapping[str, int]) -> str:
    """A node's state, as `NodeLine` has it.

    Args:
        node: the node.
        there: what it has for pods, in engine units.
        used: what pods hold of it.
    """
    if not is_ready(node):
        return "down"
    if node.spec.unschedulable or quarantined_by(node.spec.taints):
        return "drain"
    full = any(there[name] <= used.get(name, 0) for name in ("cpu", *devices_of(there)) if there.get(name, 0))
    return "alloc" if full else "mix" if any(amount for name, amount in used.items() if name != "pods") else "idle"


def devices_of(there: Mapping[str, int]) -> list[str]:
    """Names of what a node has besides CPU and memory."""
    return [name for name in counted_resources(there) if name not in _FIRST]


def resources(nodes: Sequence[Node], used: Mapping[str, Mapping[str, int]]) -> list[Resource]:
    """Totals and holes of every resource that nodes offer; ``used`` is by name of the node."""
    free = {node.metadata.name: resource_list(node.status.allocatable) for node in nodes}
    total: dict[str, int] = {}
    for amounts in free.values():
        add(total, amounts)
    taken: dict[str, int] = {}
    for name, left in free.items():
        held = used.get(name, {})
        add(taken, held)
        for resource, amount in held.items():
            left[resource] = left.get(resource, 0) - amount
    return [_resource(name, taken, total, free) for name in counted_resources(total) if total[name] > 0]


_FIRST = ("cpu", "memory")
_LEFT_OUT = ("pods", "ephemeral-storage")


def counted_resources(total: Mapping[str, int]) -> list[str]:
    """CPU and memory, then devices by name; what people do not count, such as pods and huge pages, is left out."""
    counted = (name for name in total if name not in _LEFT_OUT and not name.startswith("hugepages-"))
    return sorted(counted, key=by_importance)


def _resource(
    name: str, used: Mapping[str, int], total: Mapping[str, int], free: Mapping[str, Mapping[str, int]]
) -> Resource:
    left = [max(0, amounts.get(name, 0)) for amounts in free.values() if name in amounts]
    holes: dict[int, int] = {}
    if name not in _FIRST:
        # Devices are counted in thousandths, as all that are no bytes; what is left of a shared one is no hole.
        counted = Counter(amount // 1000 for amount in left if amount >= 1000)
        holes = dict(sorted(counted.items(), reverse=True))

    def text(amount: int) -> str:
        return readable({name: amount}).get(name, "0")

    return Resource(name, text(used.get(name, 0)), text(total[name]), text(max(left, default=0)), holes)


_NEVER = 4e10
"""Seconds since 1970 from which on a period is said to have no end."""


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One amount of a budget, as of now: what has been used since it was counted is counted on.

    Attributes:
        name: of the budget.
        mode: ``Hard`` or ``Soft``; ``invalid`` where the budget breaks a rule, which ``exhausted`` then says.
        unit: of the amounts: ``hours of nvidia.com/gpu``.
        amount, used, left, rate: in that unit; the rate is what is used in an hour.
        end: of the period, RFC 3339; empty where it has none.
        exhausted: when it is used up if it goes on like this, or ``used up``; empty where it lasts.
        part: of the amount that is used, from 0 to 1 and beyond where it is overdrawn.
        whose: queues, namespaces and users that share it.
    """

    name: str
    mode: str = "invalid"
    unit: str = ""
    amount: str = ""
    used: str = ""
    left: str = ""
    rate: str = ""
    end: str = ""
    exhausted: str = ""
    part: float = 0.0
    whose: tuple[str, ...] = ()


def budget_lines(budgets: Iterable[Budget], now: float) -> list[BudgetLine]:
    """One line for each amount of each budget at ``now``, seconds since 1970."""
    lines: list[BudgetLine] = []
    for budget in sorted(budgets, key=lambda one: one.metadata.name):
        spec = budget.spec
        whose = (*(spec.queues or ()), *(spec.namespaces or ()), *(spec.users or ()))
        try:
            purse = purse_of(budget)
        except ValueError as error:
            lines.append(BudgetLine(budget.metadata.name, amount=str(error), whose=whose))
            continue
        tally = tally_of(budget, purse)
        rates = {name: float(text) for name, text in (budget.status.rate or {}).items()}
        tally = count(purse, tally, [Hold(tally.at, now, rates)], now)
        up, ends = purse.used_up(tally.used), budget.status.exhausted_at
        exhausted = "used up" if up else ends or ""
        if exhausted and not up and time_or(ends) <= now:
            exhausted = "used up"
        for name, amount in purse.amounts.items():
            used = tally.used.get(name, 0.0)
            lines.append(
                BudgetLine(
                    purse.name,
                    "Hard" if purse.hard else "Soft",
                    unit(name),
                    plain(amount),
                    plain(used),
                    plain(amount - used),
                    plain(rates.get(name, 0.0)),
                    end=rfc3339(tally.end) if tally.end < _NEVER else "",
                    exhausted=exhausted if name in (up or purse.amounts) else "",
                    part=used / amount if amount > 0 else 1.0,
                    whose=whose,
                )
            )
    return lines
