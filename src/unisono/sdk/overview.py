"""A control plane at a glance: parts that are alive, what nodes have left, what queues use, jobs that wait and run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from unisono.api.annotations import CLUSTER, ORIGIN_GROUP, SCHEDULER_CYCLES, SCHEDULER_NAMES, USER
from unisono.api.fleet import READY
from unisono.api.membership import pod_group_of, queue_of
from unisono.api.resources import add, pod_requests, readable, resource_list
from unisono.api.times import parse_time
from unisono.api.verdict import waiting_text
from unisono.sdk.queues import QueueView, queue_views
from unisono.sdk.scheduler_health import judge, trusted

if TYPE_CHECKING:
    from unisono.api.core import Lease, Node, Pod
    from unisono.api.fleet import AttachedCluster
    from unisono.api.scheduling import PodGroup, Queue

_WAITING = frozenset({"", "Pending", "Inqueue"})
_ENDED = frozenset({"Succeeded", "Failed"})
_COMPONENT = "unisono-"
_SYSTEM = "kube-system"
_LEASE_SECONDS = 15.0
# Containers that are on their way say so, too.
_STARTING = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the control plane; ``problem`` is empty where it is alive."""

    name: str
    problem: str = ""
    note: str = ""


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


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job that waits or runs.

    Attributes:
        title: ``job/train``.
        namespace: of the job.
        queue: where it is.
        seconds: how long it has waited, or run.
        pods: pods that run.
        gang: pods that start together.
        waiting: why it waits; empty where no verdict says it yet.
        user: who submitted it, where the server knows.
        nodes: where its pods run.
        trouble: what is wrong with its pods although it runs: ``1 of 2 pods run``, ``3 restarts``; empty for nothing.

    """

    title: str
    namespace: str
    queue: str
    seconds: float
    pods: int = 0
    gang: int = 1
    waiting: str = ""
    user: str = ""
    nodes: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def name(self) -> str:
        """``train`` of ``job/train``."""
        return self.title.partition("/")[2]


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A member of a fleet, as its hub sees it.

    Attributes:
        name: of the member.
        problem: why it takes no work; empty where it is ready.
        nodes: that are ready.
        used: ``4/16``: requested by pods, and allocatable, by resource.
        pods: of the hub's jobs that run there.

    """

    name: str
    problem: str
    nodes: int
    used: dict[str, str]
    pods: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment.

    Attributes:
        components: parts of the control plane.
        ready, not_ready, cordoned: names of nodes.
        nodes: all of them, by name.
        resources: of the nodes that take pods.
        queues: by name.
        waiting: jobs, the one that waits longest first.
        running: jobs, the youngest first.
        members: of a hub, by name.

    """

    components: list[Component]
    ready: list[str]
    not_ready: list[str]
    cordoned: list[str]
    nodes: list[NodeLine]
    resources: list[Resource]
    queues: list[QueueView]
    waiting: list[JobLine]
    running: list[JobLine]
    members: list[MemberLine] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Found:
    """What the server answered; ``problem`` is what its readiness says, empty where it is ready.

    Of a hub, ``clusters`` are its members, and the pods are those of its jobs in members.
    """

    problem: str
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    queues: Sequence[Queue]
    groups: Sequence[PodGroup]
    leases: Sequence[Lease]
    clusters: Sequence[AttachedCluster] = ()


def overview(found: Found, now: float) -> Overview:
    """The overview of what a server answered at ``now``, seconds since the epoch."""
    ready = [node for node in found.nodes if is_ready(node)]
    open_nodes = [node for node in ready if not node.spec.unschedulable]
    used = used_by_node(found.pods)
    by_group: dict[str, list[Pod]] = defaultdict(list)
    for pod in found.pods:
        if key := _group_of(pod):
            by_group[key].append(pod)
    lines = [(group, _job_line(group, by_group[group.key], now)) for group in found.groups if not _has_ended(group)]
    return Overview(
        components(found.leases, now, found.problem),
        sorted(node.metadata.name for node in open_nodes),
        sorted(node.metadata.name for node in found.nodes if not is_ready(node)),
        sorted(node.metadata.name for node in ready if node.spec.unschedulable),
        [
            _node_line(node, used.get(node.metadata.name, {}))
            for node in sorted(found.nodes, key=lambda node: node.metadata.name)
        ],
        resources(open_nodes, used),
        queue_views(found.queues, found.groups),
        sorted((line for group, line in lines if _waits(group)), key=lambda line: -line.seconds),
        sorted((line for group, line in lines if not _waits(group)), key=lambda line: line.seconds),
        [_member(cluster, found.pods) for cluster in sorted(found.clusters, key=lambda each: each.metadata.name)],
    )


def _group_of(pod: Pod) -> str | None:
    """Key of a pod's PodGroup; of a hub's pod in a member, of that which stands for its job on the hub."""
    marks = pod.metadata.annotations or {}
    if CLUSTER in (pod.metadata.labels or {}) and marks.get(ORIGIN_GROUP):
        return f"{pod.metadata.namespace}/{marks[ORIGIN_GROUP]}"
    return pod_group_of(pod)


def _member(cluster: AttachedCluster, pods: Sequence[Pod]) -> MemberLine:
    name, status = cluster.metadata.name, cluster.status
    ready = next((each for each in status.conditions or () if each.type == READY), None)
    problem = "" if status.ready else (ready.message if ready is not None else "") or "the hub has not looked at it"
    summary = status.resource_summary
    there = resource_list(summary.allocatable if summary is not None else None)
    held = resource_list(summary.allocated if summary is not None else None)
    running = sum(pod.status.phase == "Running" and (pod.metadata.labels or {}).get(CLUSTER) == name for pod in pods)
    return MemberLine(
        name,
        problem,
        (status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        {each: _part(each, held, there) for each in _ordered(there) if there[each] > 0},
        running,
    )


def _part(name: str, used: Mapping[str, int], there: Mapping[str, int]) -> str:
    """``4/16``, for people."""
    return "/".join(readable({name: amounts.get(name, 0)}).get(name, "0") for amounts in (used, there))


def is_ready(node: Node) -> bool:
    """Whether a node's condition Ready is true."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


def _waits(group: PodGroup) -> bool:
    return (group.status.phase or "") in _WAITING


def _has_ended(group: PodGroup) -> bool:
    return group.status.phase == "Completed" or bool(group.metadata.deletion_timestamp)


def _job_line(group: PodGroup, pods: Sequence[Pod], now: float) -> JobLine:
    meta = group.metadata
    owner = next((each for each in meta.owner_references or () if each.controller), None)
    title = f"{owner.kind.lower()}/{owner.name}" if owner else f"podgroup/{meta.name}"
    running = [pod for pod in pods if pod.status.phase == "Running"]
    since = [_seconds(pod.status.start_time) for pod in pods if pod.status.start_time]
    begun = min(since) if since and not _waits(group) else _seconds(meta.creation_timestamp)
    return JobLine(
        title,
        meta.namespace or "default",
        queue_of(group),
        max(0.0, now - begun) if begun else 0.0,
        len(running),
        group.spec.min_member or 1,
        waiting_text(meta.annotations) if _waits(group) else "",
        (meta.annotations or {}).get(USER, ""),
        tuple(sorted({pod.spec.node_name for pod in running if pod.spec.node_name})),
        "" if _waits(group) else _trouble(group.spec.min_member or 1, pods),
    )


def _trouble(gang: int, pods: Sequence[Pod]) -> str:
    """What someone on call wants to know of a job that runs."""
    parts = []
    alive = sum(pod.status.phase in ("Running", "Succeeded") for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    if failed:
        parts.append(f"{failed} pod{'' if failed == 1 else 's'} failed")
    if 0 < alive < gang:
        parts.append(f"{alive} of {gang} run")
    statuses = [status for pod in pods for status in pod.status.container_statuses or ()]
    restarts = sum(status.restart_count or 0 for status in statuses)
    if restarts:
        parts.append(f"{restarts} restart{'' if restarts == 1 else 's'}")
    waits = {status.state.waiting.reason or "" for status in statuses if status.state and status.state.waiting}
    return ", ".join([*parts, *sorted(waits - {"", *_STARTING})])


def _seconds(time: str | None) -> float:
    try:
        return parse_time(time or "")
    except ValueError:
        return 0.0


def used_by_node(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """What pods that have not ended hold of each node, in engine units, with their number as ``pods``."""
    used: dict[str, dict[str, int]] = defaultdict(dict)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            add(used[pod.spec.node_name], {**pod_requests(pod.spec), "pods": 1})
    return used


def _node_line(node: Node, used: Mapping[str, int]) -> NodeLine:
    there = resource_list(node.status.allocatable)
    devices = devices_of(there)

    shown = ", ".join(f"{name} {_part(name, used, there)}" for name in devices)
    cpus, memory = (_part(name, used, there) for name in _FIRST)
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
    if node.spec.unschedulable:
        return "drain"
    full = any(there[name] <= used.get(name, 0) for name in ("cpu", *devices_of(there)) if there.get(name, 0))
    return "alloc" if full else "mix" if any(amount for name, amount in used.items() if name != "pods") else "idle"


def devices_of(there: Mapping[str, int]) -> list[str]:
    """Names of what a node has besides CPU and memory."""
    return [name for name in _ordered(there) if name not in _FIRST]


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
    return [_resource(name, taken, total, free) for name in _ordered(total) if total[name] > 0]


_FIRST = ("cpu", "memory")
_LEFT_OUT = ("pods", "ephemeral-storage")


def _ordered(total: Mapping[str, int]) -> list[str]:
    others = sorted(name for name in total if name not in (*_FIRST, *_LEFT_OUT) and not name.startswith("hugepages-"))
    return [*(name for name in _FIRST if name in total), *others]


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


def components(leases: Iterable[Lease], now: float, problem: str = "") -> list[Component]:
    """Parts of the control plane: the API server with what its readiness says, and those that tell it by a Lease."""
    leases = list(leases)
    parts = [Component("api server", problem)]
    cycles = trusted(lease for lease in leases if SCHEDULER_CYCLES in (lease.metadata.labels or {}))
    # Users may write Leases of any name in their own namespaces.
    where = {_SYSTEM, *(lease.metadata.namespace for lease in cycles)}
    served = sorted({tuple(_names(lease)) for lease in cycles} - {()})
    for names in served:
        health = judge([lease for lease in cycles if tuple(_names(lease)) == names], names[0], now)
        refused = f"its newest configuration is refused: {health.configuration_error}"
        problem = health.silent or (refused if health.configuration_error else "")
        parts.append(Component("scheduler", problem, f"for {', '.join(names)}"))
    if not served:
        parts.append(Component("scheduler", "no scheduler has ever told that it is alive"))
    for lease in sorted(leases, key=lambda each: each.metadata.name):
        own = not cycles or lease.metadata.namespace in where
        if own and lease.metadata.name.startswith(_COMPONENT) and lease not in cycles:
            parts.append(_elected(lease, now))
    return parts


def _elected(lease: Lease, now: float) -> Component:
    """A component of which one process at a time holds a Lease."""
    name = lease.metadata.name.removeprefix(_COMPONENT)
    if not lease.spec.holder_identity:
        return Component(name, "no process of it is running")
    age = now - _seconds(lease.spec.renew_time)
    if age > float(lease.spec.lease_duration_seconds or _LEASE_SECONDS):
        return Component(name, f"{lease.spec.holder_identity} has not answered for {age:.0f} s")
    return Component(name, note=lease.spec.holder_identity)


def _names(lease: Lease) -> list[str]:
    return [name for name in (lease.metadata.annotations or {}).get(SCHEDULER_NAMES, "").split(",") if name]
