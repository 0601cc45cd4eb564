"""Builders of cluster objects in a few words, and a runner of one cycle.

::

    state = cluster(nodes(3, cpu=4), queue("q"), gang("j", 3, queue="q", cpu=1))
    decisions = schedule(state)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from unisono.api import kinds
from unisono.api.annotations import LICENSES
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from unisono.api.groups.budgets import Budget, BudgetSpec, BudgetStatus, Price, PriceList, PriceListSpec
from unisono.api.groups.calendar import Reservation, ReservationSpec, TemporaryQuota
from unisono.api.groups.health import NodeCheck, NodeCheckSpec
from unisono.api.groups.quota import FloatingResource, FloatingResourceSpec
from unisono.api.groups.scheduling import (
    Guarantee,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)
from unisono.api.groups.topology import HyperNode
from unisono.api.kind import Kind
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.arguments import FLAG_KEYS
from unisono.engine.config.model import SchedulerConfig, from_flags
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions

START = 1_700_000_000.0
"""Creation time 0 of the builders."""

_KINDS: dict[type, Kind[Any]] = {
    Node: kinds.NODES,
    Pod: kinds.PODS,
    PodGroup: kinds.POD_GROUPS,
    Queue: kinds.QUEUES,
    PriorityClass: kinds.PRIORITY_CLASSES,
    HyperNode: kinds.HYPER_NODES,
    ResourceQuota: kinds.RESOURCE_QUOTAS,
    Reservation: kinds.RESERVATIONS,
    TemporaryQuota: kinds.TEMPORARY_QUOTAS,
    FloatingResource: kinds.FLOATING_RESOURCES,
    Budget: kinds.BUDGETS,
    PriceList: kinds.PRICE_LISTS,
    NodeCheck: kinds.NODE_CHECKS,
}

_SHORT = {
    "gpu": "nvidia.com/gpu",
    "mem": "memory",
    "matlab": "licenses.unisono.io/matlab",
    "ansys": "licenses.unisono.io/ansys",
}


def kind_of(obj: Object) -> Kind[Any]:
    """The kind of one of the builders' objects."""
    return _KINDS[type(obj)]


def amounts(given: Mapping[str, Any]) -> dict[str, str]:
    """Resource amounts by short name: ``{"cpu": 2, "gpu": 1}``."""
    return {_SHORT.get(name, name.replace("_", "-")): str(value) for name, value in given.items()}


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[tuple[str, str, str]] = (),
    unschedulable: bool = False,
    ready: bool = True,
    pods: int = 110,
    **resources: Any,
) -> Node:
    """A node; resources by short name (``cpu=4, mem="8Gi", gpu=1``)."""
    allocatable = amounts({"cpu": 8, "mem": "32Gi"} | resources) | {"pods": str(pods)}
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=dict(labels) if labels else None),
        spec=NodeSpec(
            unschedulable=unschedulable or None,
            taints=[Taint(key=key, value=value, effect=effect) for key, value, effect in taints] or None,
        ),
        status=NodeStatus(
            allocatable=allocatable,  # type: ignore[arg-type]
            capacity=dict(allocatable),  # type: ignore[arg-type]
            conditions=[NodeCondition(type="Ready", status="True" if ready else "False")],
        ),
    )


def nodes(number: int, prefix: str = "n", **given: Any) -> list[Node]:
    """``number`` equal nodes, named ``n000``, ``n001``, ..."""
    return [node(f"{prefix}{index:03}", **given) for index in range(number)]


def pod(
    name: str,
    group: str = "",
    *,
    namespace: str = "ns",
    node: str = "",
    phase: str = "",
    role: str = "",
    created: float = 0.0,
    priority: int | None = None,
    priority_class: str = "",
    deleting: bool = False,
    gates: Iterable[str] = (),
    ports: Iterable[int] = (),
    selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: Iterable[Toleration] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    nominated: str = "",
    scheduler: str = "volcano",
    **resources: Any,
) -> Pod:
    """A pod of PodGroup ``group``; with ``node`` it runs there, unless ``phase`` says otherwise."""
    notes = dict(annotations or {})
    if group:
        notes["scheduling.k8s.io/group-name"] = group
    if role:
        notes["volcano.sh/task-spec"] = role
    requests = amounts(resources)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            creation_timestamp=rfc3339(START + created),
            deletion_timestamp=rfc3339(START + created) if deleting else None,
            annotations=notes or None,
            labels=dict(labels) if labels else None,
        ),
        spec=PodSpec(
            scheduler_name=scheduler,
            node_name=node or None,
            priority=priority,
            priority_class_name=priority_class or None,
            node_selector=dict(selector) if selector else None,
            affinity=affinity,
            tolerations=list(tolerations) or None,
            scheduling_gates=[PodSchedulingGate(name=gate) for gate in gates] or None,
            containers=[
                Container(
                    name="main",
                    resources=ResourceRequirements(requests=requests or None),  # type: ignore[arg-type]
                    ports=[ContainerPort(container_port=port, host_port=port) for port in ports] or None,
                )
            ],
        ),
        status=PodStatus(phase=phase or ("Running" if node else "Pending"), nominated_node_name=nominated or None),
    )


def group(
    name: str,
    minimum: int = 1,
    *,
    namespace: str = "ns",
    queue: str = "default",
    phase: str = "Inqueue",
    roles: Mapping[str, int] | None = None,
    resources: Mapping[str, Any] | None = None,
    priority_class: str = "",
    created: float = 0.0,
    annotations: Mapping[str, str] | None = None,
) -> PodGroup:
    """A PodGroup; ``roles`` are minTaskMember, ``resources`` minResources."""
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            creation_timestamp=rfc3339(START + created),
            annotations=dict(annotations) if annotations else None,
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=queue,
            min_task_member=dict(roles) if roles else None,
            min_resources=amounts(resources) if resources is not None else None,  # type: ignore[arg-type]
            priority_class_name=priority_class or None,
        ),
        status=PodGroupStatus(phase=phase or None),
    )


def reservation(
    name: str, start: float | None = None, end: float | None = None, *, created: float = 0.0, **spec: Any
) -> Reservation:
    """A Reservation from ``start`` to ``end`` (seconds after `START`); other fields of its spec as in Python."""
    times = {key: rfc3339(START + time) for key, time in (("start", start), ("end", end)) if time is not None}
    return Reservation(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=rfc3339(START + created)),
        spec=ReservationSpec(**times, **spec),
    )


def node_check(name: str = "gpus", **spec: Any) -> NodeCheck:
    """A NodeCheck of all nodes by a command; fields of its spec as in Python."""
    return NodeCheck(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=rfc3339(START)),
        spec=NodeCheckSpec(**{"nodes": ["*"], "command": ["true"], **spec}),
    )


def gang(
    name: str,
    size: int,
    minimum: int | None = None,
    *,
    namespace: str = "ns",
    queue: str = "default",
    phase: str = "Inqueue",
    created: float = 0.0,
    priority_class: str = "",
    min_resources: bool = False,
    roles: Mapping[str, int] | None = None,
    licenses: str = "",
    **pod_options: Any,
) -> list[Object]:
    """A PodGroup with ``size`` equal pending pods ``NAME-w-0`` ...; it needs all of them, or ``minimum``.

    ``licenses`` is what it asks for as a whole.
    """
    needed = size if minimum is None else minimum
    wanted: dict[str, Any] | None = None
    if min_resources:
        plain = {key: value for key, value in ({"cpu": 1} | pod_options).items() if key in ("cpu", "gpu", "matlab")}
        wanted = {key: value * needed for key, value in plain.items()}
    head = group(
        name,
        needed,
        namespace=namespace,
        queue=queue,
        phase=phase,
        created=created,
        priority_class=priority_class,
        resources=wanted,
        roles=roles,
        annotations={LICENSES: licenses} if licenses else None,
    )
    pods = [
        pod(f"{name}-w-{index}", name, namespace=namespace, created=created, **({"cpu": 1} | pod_options))
        for index in range(size)
    ]
    return [head, *pods]


def budget(name: str, amounts: Mapping[str, Any], used: Mapping[str, Any] | None = None, **spec: Any) -> Budget:
    """A Budget whose controller has counted ``used`` (hours by resource) up to 0; without that it has not counted."""
    given = {"queues": ["default"]} if not {"queues", "namespaces", "users"} & spec.keys() else {}
    status = BudgetStatus()
    if used is not None:
        status = BudgetStatus(
            counted=rfc3339(START),
            period_start=rfc3339(START),
            used={key: str(value) for key, value in used.items()},
        )
    return Budget(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=rfc3339(START)),
        spec=BudgetSpec(amounts=dict(amounts), **given, **spec),
        status=status,
    )


def price_list(*prices: Price, name: str = "default") -> PriceList:
    """A PriceList."""
    return PriceList(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=PriceListSpec("EUR", list(prices)))


def queue(
    name: str,
    weight: int = 1,
    *,
    state: str = "Open",
    priority: int | None = None,
    reclaimable: bool | None = None,
    parent: str = "",
    capability: Mapping[str, Any] | None = None,
    guarantee: Mapping[str, Any] | None = None,
    deserved: Mapping[str, Any] | None = None,
    fifo: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> Queue:
    """A queue."""
    return Queue(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            creation_timestamp=rfc3339(START),
            annotations=dict(annotations) if annotations else None,
        ),
        spec=QueueSpec(
            weight=weight,
            priority=priority,
            reclaimable=reclaimable,
            parent=parent or None,
            dequeue_strategy="fifo" if fifo else None,
            capability=amounts(capability) if capability is not None else None,  # type: ignore[arg-type]
            deserved=amounts(deserved) if deserved is not None else None,  # type: ignore[arg-type]
            guarantee=Guarantee(resource=amounts(guarantee)) if guarantee is not None else None,  # type: ignore[arg-type]
        ),
        status=QueueStatus(state=state or None),
    )


def quota(name: str, *, namespace: str = "ns", **hard: Any) -> ResourceQuota:
    """A ResourceQuota, its limits by short name."""
    return ResourceQuota(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}"),
        spec=ResourceQuotaSpec(hard=amounts(hard)),  # type: ignore[arg-type]
    )


def floating(name: str = "matlab", amount: int | None = 10, in_use: int | None = None) -> FloatingResource:
    """A floating resource."""
    return FloatingResource(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=FloatingResourceSpec(amount=amount, in_use=in_use)
    )


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """A PriorityClass."""
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default or None)


def flatten(things: Iterable[Any]) -> list[Object]:
    """Objects out of arbitrarily nested lists."""
    flat: list[Object] = []
    for thing in things:
        if isinstance(thing, Object):
            flat.append(thing)
        else:
            flat.extend(flatten(thing))
    return flat


def cluster(*things: Any, default_queue: bool = True) -> ClusterState:
    """A cluster state of the given objects (lists may be nested), with an open queue ``default`` unless it is given."""
    objects = flatten(things)
    state = ClusterState()
    if default_queue and not any(isinstance(o, Queue) and o.metadata.name == "default" for o in objects):
        objects.append(queue("default"))
    for obj in objects:
        state.apply("ADDED", kind_of(obj), obj)
    return state


def config(
    *tiers: Iterable[str], actions: str = "enqueue, allocate, backfill", arguments: Mapping[str, Any] | None = None
) -> SchedulerConfig:
    """A configuration with every switch on (hierarchy off): plug-in names per tier, arguments by plug-in."""
    on = {key: True for key, flag in FLAG_KEYS.items() if flag.attribute not in ("hierarchy", "cluster_order")}
    written = [[{"name": name, "arguments": (arguments or {}).get(name, {}), **on} for name in tier] for tier in tiers]
    return from_flags([name.strip() for name in actions.split(",")], written)


GANG = config(("priority", "gang"), ("predicates", "nodeorder"))
"""Gangs without shares."""


def schedule(
    state: ClusterState,
    settings: SchedulerConfig = GANG,
    *,
    now: float = START + 1000.0,
    plugins: Mapping[str, type[Plugin]] | None = None,
    advice: bool = True,
) -> Decisions:
    """One cycle over the state, which is not changed; without ``advice`` what would help is not tried."""
    return run(state.snapshot(), settings, now, plugins=plugins, advice=advice)


unadvised = partial(schedule, advice=False)
"""For tests that do not read what is offered: to try what would help takes longer than to decide."""


def confirm(state: ClusterState, decisions: Decisions) -> None:
    """Assume all binds, as the scheduler does before it writes them."""
    for bind in decisions.binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node)


def placed(decisions: Decisions) -> dict[str, str]:
    """Pod name to node of all binds."""
    return {bind.pod: bind.node for bind in decisions.binds}


def bound_per_job(decisions: Decisions) -> dict[str, int]:
    """Number of binds by PodGroup name."""
    counts: dict[str, int] = {}
    for bind in decisions.binds:
        name = bind.job.partition("/")[2]
        counts[name] = counts.get(name, 0) + 1
    return counts
