"""What each component asks of the API server, one table per component, as roles.

A request that is not in here is refused on a cluster; ``tests/install`` runs the components under these roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api import kinds as k
from unisono.api.gang_parts import NAME as HELD_ROOM_NAME
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MACHINES, POD_TEMPLATES, PROVISIONING_REQUESTS
from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.keys import CONFIG_MAP_NAMES
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    APPLICATIONS,
    ATTACHED_CLUSTERS,
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    CLUSTER_PROPAGATION_POLICIES,
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    CRON_JOBS,
    DAEMON_SETS,
    DATA_SOURCE_CLAIMS,
    DATA_SOURCES,
    DEPLOYMENTS,
    FLEETS,
    HORIZONTAL_POD_AUTOSCALERS,
    HYPER_JOBS,
    JAX_JOBS,
    JOB_FLOWS,
    JOB_SETS,
    JOB_TEMPLATES,
    MPI_JOBS,
    PADDLE_JOBS,
    PROPAGATION_POLICIES,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RUN_KINDS,
    STATEFUL_SETS,
    TF_JOBS,
    TRAINING_KINDS,
    WORKLOAD_POD_GROUPS,
    XGBOOST_JOBS,
)
from unisono.api.policies.rule import ACT_FOR, PLACE
from unisono.install.workloads import InstallOptions, labels
from unisono.jobkinds.registry import foreign

FLEET_NAMESPACE = "kurator-fleet-system"
"""Where a hub reads the Secrets with its members' kubeconfigs."""
_API = "rbac.authorization.k8s.io"
_HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource of one API group.

    Attributes:
        names: the only objects that are meant; empty for all.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def _on(verbs: str, *kinds: Kind[Any], sub: str = "", names: tuple[str, ...] = ()) -> list[Right]:
    tail = f"/{sub}" if sub else ""
    return [Right(kind.group, f"{kind.plural}{tail}", tuple(verbs.split()), names) for kind in kinds]


_EVENTS = _on("create patch", k.EVENTS)

SCHEDULER: tuple[Right, ...] = (
    *_on(
        "list watch",
        k.NODES,
        k.NAMESPACES,
        k.RESOURCE_QUOTAS,
        k.POD_DISRUPTION_BUDGETS,
        k.PRIORITY_CLASSES,
        k.STORAGE_CLASSES,
        k.CSI_NODES,
        k.CSI_DRIVERS,
        k.CSI_STORAGE_CAPACITIES,
        k.VOLUME_ATTACHMENTS,
        k.DEVICE_CLASSES,
        k.RESOURCE_SLICES,
        k.HYPER_NODES,
        k.NUMATOPOLOGIES,
        k.FLOATING_RESOURCES,
        k.BUDGETS,
        k.PRICE_LISTS,
        k.QUEUES,
        k.RESERVATIONS,
        k.TEMPORARY_QUOTAS,
        k.NODE_CHECKS,
    ),
    # The scheduler's configuration where users of Volcano keep it, and the room that the hub of a fleet holds.
    *_on("list watch", k.CONFIG_MAPS, names=(*CONFIG_MAP_NAMES, HELD_ROOM_NAME)),
    *_on("list watch patch", k.POD_GROUPS),
    *_on("get list watch patch", k.PERSISTENT_VOLUMES, k.PERSISTENT_VOLUME_CLAIMS, k.RESOURCE_CLAIMS),
    *_on("get list watch delete", k.PODS),
    *_on("create", k.PODS, sub="binding"),
    *_on("create", k.PODS, sub="eviction"),
    *_on("patch", k.PODS, k.QUEUES, k.RESERVATIONS, k.RESOURCE_CLAIMS, k.NODES, sub="status"),
    # What users have used is kept in an annotation.
    *_on("patch", k.QUEUES),
    # Since Kubernetes 1.36 who allocates a claim needs this besides.
    *_on("patch update", k.RESOURCE_CLAIMS, sub="binding"),
    *_EVENTS,
    # Node load from an adapter of custom metrics; the URL ends in nodes/*/METRIC, which counts as a get.
    Right("custom.metrics.k8s.io", "nodes/node_cpu_usage_avg", ("get", "list")),
    Right("custom.metrics.k8s.io", "nodes/node_memory_usage_avg", ("get", "list")),
)

_OWNERS: tuple[Kind[Any], ...] = (k.JOBS, CRON_JOBS, JOB_FLOWS, HYPER_JOBS, *RUN_KINDS)

CONTROLLERS: tuple[Right, ...] = (
    *_on("list watch", k.PRIORITY_CLASSES, k.NAMESPACES, CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_JOBS),
    *_on("list watch", *(kind for kind in TRAINING_KINDS if kind not in RUN_KINDS)),
    *_on("create", CLUSTER_TRAINING_RUNTIMES),
    *_on("list watch patch delete", *RUN_KINDS),
    # These are made for other training jobs, too.
    *_on("get create", JOB_SETS, RAY_CLUSTERS),
    *_on("get list watch create patch delete", k.JOBS, k.PODS, k.POD_GROUPS),
    *_on("get list watch create patch", k.QUEUES),
    # What is made of a user's object carries the user's name.
    Right(k.QUEUES.group, k.QUEUES.plural, (ACT_FOR,)),
    *_on("get list watch create delete", k.COMMANDS),
    *_on("get list watch create patch delete", k.SERVICES),
    *_on("get create patch delete", k.CONFIG_MAPS, k.SECRETS, k.NETWORK_POLICIES),
    *_on("get create", k.PERSISTENT_VOLUME_CLAIMS),
    # A pod group takes over annotations of what owns its pods, and what is known of the outermost owner's author.
    *_on("get", DAEMON_SETS, DEPLOYMENTS, REPLICATION_CONTROLLERS, BATCH_CRON_JOBS, *(each.kind for each in foreign())),
    # Definitions may say what objects of their kind mean as jobs.
    *_on("list", k.CUSTOM_RESOURCE_DEFINITIONS),
    # Whose pods they are is written down in the history; those with Kueue's labels are released and suspended.
    *_on("get list watch patch", BATCH_JOBS),
    # How much memory pods use is written down there, too.
    *_on("list", POD_METRICS),
    # Its UID tells clusters apart.
    *_on("get", k.NAMESPACES, names=("kube-system",)),
    *_on("get list watch", REPLICA_SETS, STATEFUL_SETS),
    # Of elastic PyTorchJobs with metrics.
    *_on("get list watch create patch delete", HORIZONTAL_POD_AUTOSCALERS),
    *_on("list watch patch", k.NODES),
    *_on("get list watch create patch delete", k.HYPER_NODES),
    *_on("patch", k.HYPER_NODES, sub="status"),
    *_on("list watch", k.FLOATING_RESOURCES, k.BUDGETS, k.PRICE_LISTS),
    # Of nodes: what went wrong there.
    *_on("list watch", k.NODE_CHECKS, k.EVENTS),
    *_on("patch", k.FLOATING_RESOURCES, k.BUDGETS, k.NODE_CHECKS, sub="status"),
    # Machines for gangs that wait, where a cluster is managed by Cluster API; those without use are drained.
    *_on("list watch patch", MACHINE_DEPLOYMENTS, MACHINES),
    # What pods were refused for is tried again when there is an account, or more of a quota.
    *_on("list watch", k.POD_DISRUPTION_BUDGETS, k.RESOURCE_QUOTAS, k.SERVICE_ACCOUNTS),
    *_on("create", k.PODS, sub="eviction"),
    *_on("get list watch create", PROVISIONING_REQUESTS),
    *_on("get create", POD_TEMPLATES),
    *_on("patch", k.QUEUES, JOB_TEMPLATES, *_OWNERS, sub="status"),
    # Kubernetes' own PodGroups (1.36) and groups of them (1.37), and how far they are.
    *_on("list watch", WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS),
    *_on("patch", WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS, sub="status"),
    *_on("update", WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS, sub="finalizers"),
    # Claims that stand for extended resources which device classes serve.
    *_on("list watch", k.DEVICE_CLASSES),
    *_on("list watch create", k.RESOURCE_CLAIMS),
    # Plain pods whose PodGroup is refused are told why they wait, and pods which claim stands for their limits.
    *_on("patch", k.PODS, sub="status"),
    # On clusters that check it, blocking an owner's deletion takes the right to change the owner's finalizers.
    *_on("update", *_OWNERS, BATCH_JOBS, sub="finalizers"),
    *_on("update", k.POD_GROUPS, sub="finalizers"),
    *_EVENTS,
)

_DISPATCHED = (
    k.JOBS,
    *(PYTORCH_JOBS, TF_JOBS, MPI_JOBS, XGBOOST_JOBS, PADDLE_JOBS, JAX_JOBS),
    *(JOB_SETS, RAY_CLUSTERS),
)
_DIVIDED = (DEPLOYMENTS, STATEFUL_SETS, BATCH_JOBS)
# Those of other programs, and of installed packages; further ones take a role of their own.
_DESCRIBED = tuple(each.kind for each in foreign() if each.fleet)

HUB: tuple[Right, ...] = (
    *_on("list watch", k.NAMESPACES, k.PRIORITY_CLASSES, k.QUEUES, k.FLOATING_RESOURCES, ATTACHED_CLUSTERS, FLEETS),
    *_on("list watch", PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES, DATA_SOURCES, DATA_SOURCE_CLAIMS),
    *_on("list watch", k.CONFIG_MAPS, names=CONFIG_MAP_NAMES),
    # Which kinds are described by tables.
    *_on("list watch", k.CUSTOM_RESOURCE_DEFINITIONS),
    *_on("list watch patch delete", *_DESCRIBED),
    *_on("patch", *_DESCRIBED, sub="status"),
    *_on("update", *_DESCRIBED, sub="finalizers"),
    # Its UID tells hubs apart.
    *_on("get", k.NAMESPACES, names=("kube-system",)),
    *_on("get list watch create patch delete", k.POD_GROUPS, HYPER_JOBS),
    *_on("get list watch patch delete", *_DISPATCHED, *_DIVIDED),
    *_on("get list watch delete", k.COMMANDS),
    *_on("list watch patch", APPLICATIONS),
    *_on("patch", *_DISPATCHED, *_DIVIDED, k.QUEUES, APPLICATIONS, ATTACHED_CLUSTERS, FLEETS, sub="status"),
    *_on("patch", DATA_SOURCES, DATA_SOURCE_CLAIMS, sub="status"),
    *_on("patch", k.QUEUES),
    # What stands for a user's job carries the user's name, and blocks its deletion; the hub alone says where jobs are.
    Right(k.QUEUES.group, k.QUEUES.plural, (ACT_FOR, PLACE)),
    *_on("update", *_DISPATCHED, HYPER_JOBS, sub="finalizers"),
    *_EVENTS,
)
"""Of the scheduler of a hub, in the place of its own: pods and nodes are its members'."""

HUB_PLACES: Mapping[str, tuple[Right, ...]] = {
    # The key with which it seals dispatches.
    "kube-system": (*_on("create", k.SECRETS), *_on("get", k.SECRETS, names=("unisono-hub-seal",))),
    # How it reaches its members.
    FLEET_NAMESPACE: tuple(_on("get", k.SECRETS)),
}
"""Further rights of it, by namespace."""

WEBHOOK: tuple[Right, ...] = (
    *_on("list watch", k.QUEUES, k.NAMESPACES, k.HYPER_NODES),
    # Whether the author of a job may use its queue.
    Right("authorization.k8s.io", "subjectaccessreviews", ("create",)),
    *(Right("admissionregistration.k8s.io", hooks, ("get", "patch"), ("unisono",)) for hooks in _HOOKS),
)

AGENT: tuple[Right, ...] = (
    *_on("create patch", k.NODES),
    *_on("list watch delete", k.PODS),
    *_on("patch", k.NODES, k.PODS, sub="status"),
)
"""Of simulated nodes, which are only installed on wish."""

COMPONENTS: Mapping[str, tuple[Right, ...]] = {
    "scheduler": SCHEDULER,
    "controllers": CONTROLLERS,
    "webhook": WEBHOOK,
    "agent": AGENT,
}
"""Rights in the whole cluster."""

NODE_LEASES = "kube-node-lease"
"""Where nodes tell that they are alive; every cluster has this namespace."""
NODE_LEASE_RIGHTS = tuple(_on("create patch", k.LEASES))


def own_rights(component: str) -> tuple[Right, ...]:
    """Rights of a component in the namespace in which it runs: its Lease, or the webhook's certificates."""
    name = f"unisono-{component}"
    if component == "webhook":
        return (*_on("create", k.SECRETS), *_on("get patch", k.SECRETS, names=(name,)))
    # The scheduler renews a second one, which tells that its cycles end.
    names = (name, f"{name}-cycles") if component == "scheduler" else (name,)
    return (*_on("create", k.LEASES), *_on("get patch", k.LEASES, names=names))


def rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """The rights as rules of a role, in as few rules as say the same."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.names), set()).update(right.verbs)
    joined: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), allowed in verbs.items():
        joined.setdefault((group, tuple(sorted(allowed)), names), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(resources),
            **({"resourceNames": list(names)} if names else {}),
            "verbs": list(allowed),
        }
        for (group, allowed, names), resources in sorted(joined.items())
    ]


def access(component: str, options: InstallOptions) -> list[dict[str, Any]]:
    """ServiceAccount, roles and bindings of a component."""
    name, namespace = f"unisono-{component}", options.namespace
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]

    def made(api: str, kind: str, where: str = "", **content: Any) -> dict[str, Any]:
        place = {"namespace": where} if where else {}
        meta = {"name": name, **place, "labels": labels(component)}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **content}

    def ref(kind: str) -> dict[str, str]:
        return {"apiGroup": _API, "kind": kind, "name": name}

    places = {namespace: own_rights(component)}
    hub = options.hub and component == "scheduler"
    if hub:
        places |= HUB_PLACES
    if component == "agent":
        places[NODE_LEASES] = NODE_LEASE_RIGHTS
    return [
        made("v1", "ServiceAccount", namespace),
        made(f"{_API}/v1", "ClusterRole", rules=rules(HUB if hub else COMPONENTS[component])),
        made(f"{_API}/v1", "ClusterRoleBinding", roleRef=ref("ClusterRole"), subjects=subjects),
        *(
            manifest
            for place, rights in places.items()
            for manifest in (
                made(f"{_API}/v1", "Role", place, rules=rules(rights)),
                made(f"{_API}/v1", "RoleBinding", place, roleRef=ref("Role"), subjects=subjects),
            )
        ),
    ]
