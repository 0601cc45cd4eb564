"""A control plane at a glance: parts that are alive, what nodes have left, what queues use, jobs that wait and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from unisono.api import messages
from unisono.api.annotations import CLUSTER, ORIGIN_GROUP, USER
from unisono.api.conditions import find_condition
from unisono.api.groups.fleet import READY
from unisono.api.kinds import LEASES, POD_GROUPS, PODS
from unisono.api.membership import controller_of, pod_group_of, queue_of
from unisono.api.messages import counted
from unisono.api.resources import resource_list
from unisono.api.times import time_or
from unisono.api.verdict import waiting_verdict
from unisono.sdk.components import Component, components
from unisono.sdk.node_capacity import (
    NodeLine,
    Resource,
    counted_resources,
    is_ready,
    node_line,
    resources,
    used_by_node,
    used_of_total,
)
from unisono.sdk.queues import QueueView, queue_views

if TYPE_CHECKING:
    from unisono.api.core import Lease, Node, Pod
    from unisono.api.groups.fleet import AttachedCluster
    from unisono.api.groups.scheduling import PodGroup, Queue

_WAITING = frozenset({"", "Pending", "Inqueue"})
# Containers that are on their way say so, too.
_STARTING = ("ContainerCreating", "PodInitializing")


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
        cause: of its waiting, a `unisono.api.verdict.Cause`; empty where no verdict says it.

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
    cause: str = ""

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
        unseen: kinds, in the plural, that the user may not list: nothing is known of them.
        within: the namespace whose jobs alone the user may list; empty for all. What nodes have left is not known then.

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
    unseen: tuple[str, ...] = ()
    within: str = ""

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Found:
    """What the server answered; ``problem`` is what its readiness says, empty where it is ready.

    Of a hub, ``clusters`` are its members, and the pods are those of its jobs in members. ``unseen`` and ``within`` are
    what the user may not see, as in ``Overview``.
    """

    problem: str
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    queues: Sequence[Queue]
    groups: Sequence[PodGroup]
    leases: Sequence[Lease]
    clusters: Sequence[AttachedCluster] = ()
    unseen: tuple[str, ...] = ()
    within: str = ""


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
        components(found.leases, now, found.problem, seen=LEASES.plural not in found.unseen),
        sorted(node.metadata.name for node in open_nodes),
        sorted(node.metadata.name for node in found.nodes if not is_ready(node)),
        sorted(node.metadata.name for node in ready if node.spec.unschedulable),
        [
            node_line(node, used.get(node.metadata.name, {}))
            for node in sorted(found.nodes, key=lambda node: node.metadata.name)
        ],
        resources(open_nodes, used) if _sees_all_pods(found) else [],
        queue_views(found.queues, None if found.within or POD_GROUPS.plural in found.unseen else found.groups),
        sorted((line for group, line in lines if _waits(group)), key=lambda line: -line.seconds),
        sorted((line for group, line in lines if not _waits(group)), key=lambda line: line.seconds),
        [_member(cluster, found.pods) for cluster in sorted(found.clusters, key=lambda each: each.metadata.name)],
        found.unseen,
        found.within,
    )


def _sees_all_pods(found: Found) -> bool:
    return not found.within and PODS.plural not in found.unseen


def _group_of(pod: Pod) -> str | None:
    """Key of a pod's PodGroup; of a hub's pod in a member, of that which stands for its job on the hub."""
    marks = pod.metadata.annotations or {}
    if CLUSTER in (pod.metadata.labels or {}) and marks.get(ORIGIN_GROUP):
        return f"{pod.metadata.namespace}/{marks[ORIGIN_GROUP]}"
    return pod_group_of(pod)


def _member(cluster: AttachedCluster, pods: Sequence[Pod]) -> MemberLine:
    name, status = cluster.metadata.name, cluster.status
    ready = find_condition(status.conditions, READY)
    problem = "" if status.ready else (ready.message if ready is not None else "") or messages.MEMBER_NOT_LOOKED_AT
    summary = status.resource_summary
    there = resource_list(summary.allocatable if summary is not None else None)
    held = resource_list(summary.allocated if summary is not None else None)
    running = sum(pod.status.phase == "Running" and (pod.metadata.labels or {}).get(CLUSTER) == name for pod in pods)
    return MemberLine(
        name,
        problem,
        (status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        {each: used_of_total(each, held, there) for each in counted_resources(there) if there[each] > 0},
        running,
    )


def _waits(group: PodGroup) -> bool:
    return (group.status.phase or "") in _WAITING


def _has_ended(group: PodGroup) -> bool:
    return group.status.phase == "Completed" or bool(group.metadata.deletion_timestamp)


def _job_line(group: PodGroup, pods: Sequence[Pod], now: float) -> JobLine:
    meta = group.metadata
    owner = controller_of(group)
    title = f"{owner.kind.lower()}/{owner.name}" if owner else f"podgroup/{meta.name}"
    running = [pod for pod in pods if pod.status.phase == "Running"]
    since = [time_or(pod.status.start_time) for pod in pods if pod.status.start_time]
    begun = min(since) if since and not _waits(group) else time_or(meta.creation_timestamp)
    verdict = waiting_verdict(meta.annotations, owned=owner is not None) if _waits(group) else None
    return JobLine(
        title,
        meta.namespace or "default",
        queue_of(group),
        max(0.0, now - begun) if begun else 0.0,
        len(running),
        group.spec.min_member or 1,
        "" if verdict is None else str(verdict),
        (meta.annotations or {}).get(USER, ""),
        tuple(sorted({pod.spec.node_name for pod in running if pod.spec.node_name})),
        "" if _waits(group) else _trouble(group.spec.min_member or 1, pods),
        "" if verdict is None else str(verdict.cause),
    )


def _trouble(gang: int, pods: Sequence[Pod]) -> str:
    """What someone on call wants to know of a job that runs."""
    parts = []
    alive = sum(pod.status.phase in ("Running", "Succeeded") for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    if failed:
        parts.append(f"{counted(failed, 'pod')} failed")
    if 0 < alive < gang:
        parts.append(f"{alive} of {gang} run")
    statuses = [status for pod in pods for status in pod.status.container_statuses or ()]
    restarts = sum(status.restart_count or 0 for status in statuses)
    if restarts:
        parts.append(counted(restarts, "restart"))
    waits = {status.state.waiting.reason or "" for status in statuses if status.state and status.state.waiting}
    return ", ".join([*parts, *sorted(waits - {"", *_STARTING})])
