"""Which machines are not needed any more, by what their nodes hold (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from unisono.api.annotations import SCALE_DOWN
from unisono.api.core import Node, Pod, PodDisruptionBudget
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import DO_NOT_DISRUPT, MIRROR_POD, SAFE_TO_EVICT, SCALE_DOWN_DISABLED
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import controller_of, pod_group_of, selects
from unisono.controllers.node_scaling.decide import Demand, Pool, Room, Trial, booting, demand_of, serve

# Which machines are not needed any more (pure).
#
# A machine may go when it is empty, or when all of its pods may move and have room elsewhere, and has been so for as
# long as its pool says. Machines that a waiting gang is going to use are needed, and a pool keeps its minimum.

MOST_AT_ONCE = 10
"""Empty machines of one pool that are given back at a time."""
MOST_DRAINED = 1
"""Machines whose pods are moved at a time, in the whole cluster."""
_MOST_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Held:
    """A node and what it holds.

    Attributes:
        name: of the node.
        pool: name of its pool; empty where none is known: it is never given back.
        room: what is free on it, as if it were a pool of one machine.
        movable: pods that may start again elsewhere.
        stays: why the machine may not go: a pod that must stay, or a wish of its owner; empty where it may.
        marked: it was chosen to go and takes no pods.
    """

    name: str
    pool: str
    room: Pool
    movable: tuple[Demand, ...] = ()
    stays: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Shrinking:
    """What to do with the nodes.

    Attributes:
        since: when each node that is not needed was first found so; to be handed in next time.
        mark: nodes that are to take no more pods.
        clear: marked nodes that are needed after all.
        drain: marked nodes whose pods are to move.
        remove: marked nodes that are empty.
    """

    since: Mapping[str, float] = field(default_factory=dict)
    mark: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


def shrinking(
    nodes: Sequence[Held],
    pools: Sequence[Pool],
    gangs: Iterable[Sequence[Demand]],
    since: Mapping[str, float],
    now: float,
    settled: Set[str] | None = None,
) -> Shrinking:
    """Decide which machines to give back.

    Args:
        nodes: all nodes that take pods, also those of no pool.
        pools: all pools; nodes without one are kept.
        gangs: for each waiting gang all of its pods without a place.
        since: ``since`` of the answer before.
        now: seconds since 1970.
        settled: names of the pools that may shrink now, None for all; of others the time goes on.
    """
    by_name = {pool.name: pool for pool in pools}
    unneeded = _unneeded(nodes, by_name, gangs)
    begun = {name: min(since.get(name, now), now) for name in unneeded}
    # A node that was marked has had its time; a new process does not begin to count again.
    due = [
        each
        for each in nodes
        if each.name in unneeded
        and (settled is None or each.pool in settled)
        and (each.marked or now - begun[each.name] >= by_name[each.pool].unneeded_seconds)
    ]
    left, moved, marked = dict[str, int](), 0, list[Held]()
    for each in sorted(due, key=lambda each: (not each.marked, len(each.movable), each.name)):
        if left.setdefault(each.pool, MOST_AT_ONCE) <= 0 or (each.movable and moved >= MOST_DRAINED):
            continue
        left[each.pool] -= 1
        moved += bool(each.movable)
        marked.append(each)
    return Shrinking(
        since=begun,
        mark=tuple(each.name for each in marked if not each.marked),
        clear=tuple(each.name for each in nodes if each.marked and each.name not in unneeded),
        drain=tuple(each.name for each in marked if each.marked and each.movable),
        remove=tuple(each.name for each in marked if each.marked and not each.movable),
    )


def _unneeded(nodes: Sequence[Held], pools: Mapping[str, Pool], gangs: Iterable[Sequence[Demand]]) -> set[str]:
    """Nodes that can all go together."""
    spare = {name: pool.replicas - pool.least for name, pool in pools.items() if pool.least is not None}
    # What must stay anyway is filled first, then the cheapest: the dearest machines are left over.
    ordered = sorted(nodes, key=lambda each: (_may_go(each, spare), _cost(each, pools), each.name))
    rooms_now = [Room(each.room, dict(each.room.offers)) for each in ordered]
    trial = Trial(tuple(pools.values()), [*rooms_now, *booting(pools.values())])
    for gang in gangs:
        trial = serve(gang, trial) or trial
    rooms = {each.name: room for each, room in zip(ordered, trial.machines, strict=False)}
    removable, looked = set[str](), 0
    for each in reversed(ordered):
        if not _may_go(each, spare) or spare[each.pool] <= 0 or rooms[each.name].used:
            continue
        if each.movable:
            looked += 1
            others = [rooms[other.name] for other in ordered if other.name not in removable and other.name != each.name]
            if looked > _MOST_LOOKED_AT or not _move(each.movable, others):
                continue
        removable.add(each.name)
        spare[each.pool] -= 1
    return removable


def _move(pods: Sequence[Demand], rooms: Sequence[Room]) -> bool:
    """Give the pods places in these rooms, all or none; rooms that take some are used from then on."""
    trial = Trial((), rooms)
    if not all(trial.place(each) for each in pods):
        return False
    for room, after in zip(rooms, trial.machines, strict=True):
        room.free, room.used = after.free, after.used
    return True


def _may_go(each: Held, spare: Mapping[str, int]) -> bool:
    return not each.stays and spare.get(each.pool, 0) > 0


def _cost(each: Held, pools: Mapping[str, Pool]) -> float:
    return pools[each.pool].cost if each.pool in pools else 0.0


# What nodes hold, as far as giving machines back goes by it (pure).

_REPLACED = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Owners that make a pod once more when it is gone, and whose pods lose little by that."""


def held_by(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    pool_of_node: Mapping[str, str],
    groups: Mapping[str, PodGroup],
    budgets: Sequence[PodDisruptionBudget],
) -> list[Held]:
    """All nodes that take pods, with their free room and the pods that may or must not move.

    Args:
        nodes: all nodes.
        pods: all pods.
        pool_of_node: pool by node name.
        groups: PodGroups by key.
        budgets: all disruption budgets.
    """
    on_node: dict[str, list[Pod]] = {}
    running: Counter[str] = Counter()
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod):
            on_node.setdefault(pod.spec.node_name, []).append(pod)
            running[pod_group_of(pod)] += 1
    return [
        _held(node, on_node.get(node.metadata.name, []), pool_of_node, groups, running, budgets)
        for node in nodes
        if takes_pods(node)
    ]


def _held(
    node: Node,
    pods: Sequence[Pod],
    pool_of_node: Mapping[str, str],
    groups: Mapping[str, PodGroup],
    running: Mapping[str, int],
    budgets: Sequence[PodDisruptionBudget],
) -> Held:
    name, notes = node.metadata.name, node.metadata.annotations or {}
    free = resource_list(node.status.allocatable)
    for pod in pods:
        for resource, amount in pod_requests(pod.spec).items():
            free[resource] = free.get(resource, 0) - amount
    free["pods"] = free.get("pods", 0) - len(pods)
    taints = node.spec.taints or ()
    room = Pool(
        name,
        1,
        0,
        1,
        {resource: max(0, amount) for resource, amount in free.items()},
        node.metadata.labels or {},
        tuple(taint for taint in taints if taint.key != SCALE_DOWN),
    )
    mine = [pod for pod in pods if not is_of_node(pod)]
    stays = next(filter(None, (why_it_stays(pod, budgets) for pod in mine)), "")
    if notes.get(SCALE_DOWN_DISABLED) == "true" or notes.get(DO_NOT_DISRUPT) == "true":
        stays = "its annotations say that it is to be kept"
    here = Counter(key for pod in mine if (key := pod_group_of(pod)))
    for key, count in here.items():
        group = groups.get(key)
        least = group.spec.min_member or 0 if group is not None else 0
        if least > 1 and running[key] - count < least:
            stays = f"it runs pods of the gang {key}, which needs {least}"
    movable = () if stays else tuple(demand_of(pod.spec) for pod in mine)
    return Held(name, pool_of_node.get(name, ""), room, movable, stays, any(each.key == SCALE_DOWN for each in taints))


def is_of_node(pod: Pod) -> bool:
    """The pod belongs to its node and goes with it."""
    owner = controller_of(pod)
    return (owner is not None and owner.kind == "DaemonSet") or MIRROR_POD in (pod.metadata.annotations or {})


def why_it_stays(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> str:
    """Why the pod may not be moved; empty when it may. Gangs are not looked at."""
    notes, owner = pod.metadata.annotations or {}, controller_of(pod)
    if notes.get(SAFE_TO_EVICT) == "false" or notes.get(DO_NOT_DISRUPT) == "true":
        return f"pod {pod.key} says that it is not to be moved"
    if notes.get(SAFE_TO_EVICT) != "true" and (owner is None or owner.kind not in _REPLACED):
        return f"pod {pod.key} would lose its work"
    for budget in budgets:
        same = budget.metadata.namespace == pod.metadata.namespace
        if same and selects(budget.spec.selector, pod.metadata.labels) and not budget.status.disruptions_allowed:
            return f"the disruption budget {budget.key} keeps pod {pod.key}"
    return ""


def takes_pods(node: Node) -> bool:
    """The node is ready and stays, and is open to new pods."""
    ready = next((each.status for each in node.status.conditions or () if each.type == "Ready"), "")
    return ready == "True" and not node.spec.unschedulable and node.metadata.deletion_timestamp is None
