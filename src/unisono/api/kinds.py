"""Every kind that Unisono knows, as constants, and how to find one by its names on the wire."""

from __future__ import annotations

from typing import Any

from unisono.api import core, kind_families
from unisono.api.groups import access, batch, budgets, calendar, health, quota, scheduling, topology
from unisono.api.groups.admission_registration import WEBHOOK_KINDS
from unisono.api.kind import Kind, Scale

NAMESPACES: Kind[core.Namespace] = Kind(
    "", "v1", "Namespace", "namespaces", core.Namespace, False, short_names=("ns",), status_subresource=True
)
NODES: Kind[core.Node] = Kind("", "v1", "Node", "nodes", core.Node, False, short_names=("no",), status_subresource=True)
PODS: Kind[core.Pod] = Kind(
    "", "v1", "Pod", "pods", core.Pod, short_names=("po",), categories=("all",), status_subresource=True
)
EVENTS: Kind[core.Event] = Kind("", "v1", "Event", "events", core.Event, short_names=("ev",))
CONFIG_MAPS: Kind[core.ConfigMap] = Kind("", "v1", "ConfigMap", "configmaps", core.ConfigMap, short_names=("cm",))
SECRETS: Kind[core.Secret] = Kind("", "v1", "Secret", "secrets", core.Secret)
SERVICES: Kind[core.Service] = Kind(
    "", "v1", "Service", "services", core.Service, short_names=("svc",), categories=("all",), status_subresource=True
)
SERVICE_ACCOUNTS: Kind[core.ServiceAccount] = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", core.ServiceAccount, short_names=("sa",)
)
PERSISTENT_VOLUME_CLAIMS: Kind[core.PersistentVolumeClaim] = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    core.PersistentVolumeClaim,
    short_names=("pvc",),
    status_subresource=True,
)
RESOURCE_QUOTAS: Kind[core.ResourceQuota] = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", core.ResourceQuota, short_names=("quota",), status_subresource=True
)
LIMIT_RANGES: Kind[core.LimitRange] = Kind(
    "", "v1", "LimitRange", "limitranges", core.LimitRange, short_names=("limits",)
)
ROLES: Kind[access.Role] = Kind(access.GROUP, "v1", "Role", "roles", access.Role)
ROLE_BINDINGS: Kind[access.RoleBinding] = Kind(access.GROUP, "v1", "RoleBinding", "rolebindings", access.RoleBinding)
CLUSTER_ROLES: Kind[access.ClusterRole] = Kind(
    access.GROUP, "v1", "ClusterRole", "clusterroles", access.ClusterRole, False
)
CLUSTER_ROLE_BINDINGS: Kind[access.ClusterRoleBinding] = Kind(
    access.GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", access.ClusterRoleBinding, False
)
POD_DISRUPTION_BUDGETS: Kind[core.PodDisruptionBudget] = Kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    core.PodDisruptionBudget,
    short_names=("pdb",),
    status_subresource=True,
)
NETWORK_POLICIES: Kind[core.NetworkPolicy] = Kind(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", core.NetworkPolicy, short_names=("netpol",)
)
PERSISTENT_VOLUMES: Kind[core.PersistentVolume] = Kind(
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    core.PersistentVolume,
    False,
    short_names=("pv",),
    status_subresource=True,
)
STORAGE_CLASSES: Kind[core.StorageClass] = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", core.StorageClass, False, short_names=("sc",)
)
CSI_NODES: Kind[core.CSINode] = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", core.CSINode, False)
CSI_DRIVERS: Kind[core.CSIDriver] = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", core.CSIDriver, False)
CSI_STORAGE_CAPACITIES: Kind[core.CSIStorageCapacity] = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", core.CSIStorageCapacity
)
VOLUME_ATTACHMENTS: Kind[core.VolumeAttachment] = Kind(
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    core.VolumeAttachment,
    False,
    status_subresource=True,
)
RESOURCE_CLAIMS: Kind[core.ResourceClaim] = Kind(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", core.ResourceClaim, status_subresource=True
)
RESOURCE_CLAIM_TEMPLATES: Kind[core.ResourceClaimTemplate] = Kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", core.ResourceClaimTemplate
)
RESOURCE_SLICES: Kind[core.ResourceSlice] = Kind(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", core.ResourceSlice, False
)
DEVICE_CLASSES: Kind[core.DeviceClass] = Kind(
    "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", core.DeviceClass, False
)
PRIORITY_CLASSES: Kind[core.PriorityClass] = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", core.PriorityClass, False, short_names=("pc",)
)
RUNTIME_CLASSES: Kind[core.RuntimeClass] = Kind(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", core.RuntimeClass, False
)
LEASES: Kind[core.Lease] = Kind("coordination.k8s.io", "v1", "Lease", "leases", core.Lease)
CUSTOM_RESOURCE_DEFINITIONS: Kind[core.CustomResourceDefinition] = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    core.CustomResourceDefinition,
    False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status_subresource=True,
)
JOBS: Kind[batch.Job] = Kind(
    "batch.volcano.sh",
    "v1alpha1",
    "Job",
    "jobs",
    batch.Job,
    short_names=("vcjob", "vj", "vjob"),
    status_subresource=True,
    alias_versions=("v1beta1",),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
)
# The scheduler writes spec-less status through the main resource, as Volcano's does.
POD_GROUPS: Kind[scheduling.PodGroup] = Kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "PodGroup",
    "podgroups",
    scheduling.PodGroup,
    short_names=("pg", "podgroup-v1beta1"),
)
QUEUES: Kind[scheduling.Queue] = Kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "Queue",
    "queues",
    scheduling.Queue,
    False,
    short_names=("q", "queue-v1beta1"),
    status_subresource=True,
)
COMMANDS: Kind[batch.Command] = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands", batch.Command)
HYPER_NODES: Kind[topology.HyperNode] = Kind(
    "topology.volcano.sh",
    "v1alpha1",
    "HyperNode",
    "hypernodes",
    topology.HyperNode,
    False,
    short_names=("hn",),
    status_subresource=True,
)
NUMATOPOLOGIES: Kind[topology.Numatopology] = Kind(
    "nodeinfo.volcano.sh",
    "v1alpha1",
    "Numatopology",
    "numatopologies",
    topology.Numatopology,
    False,
    short_names=("numatopo",),
)
RESERVATIONS: Kind[calendar.Reservation] = Kind(
    "calendar.unisono.io",
    "v1alpha1",
    "Reservation",
    "reservations",
    calendar.Reservation,
    False,
    short_names=("resv",),
    status_subresource=True,
)
TEMPORARY_QUOTAS: Kind[calendar.TemporaryQuota] = Kind(
    "calendar.unisono.io",
    "v1alpha1",
    "TemporaryQuota",
    "temporaryquotas",
    calendar.TemporaryQuota,
    False,
    short_names=("tquota",),
)
NODE_CHECKS: Kind[health.NodeCheck] = Kind(
    "health.unisono.io",
    "v1alpha1",
    "NodeCheck",
    "nodechecks",
    health.NodeCheck,
    False,
    short_names=("ncheck",),
    status_subresource=True,
)
FLOATING_RESOURCES: Kind[quota.FloatingResource] = Kind(
    "quota.unisono.io",
    "v1alpha1",
    "FloatingResource",
    "floatingresources",
    quota.FloatingResource,
    False,
    short_names=("floating",),
    status_subresource=True,
)
BUDGETS: Kind[budgets.Budget] = Kind(
    "quota.unisono.io", "v1alpha1", "Budget", "budgets", budgets.Budget, False, status_subresource=True
)
PRICE_LISTS: Kind[budgets.PriceList] = Kind(
    "quota.unisono.io", "v1alpha1", "PriceList", "pricelists", budgets.PriceList, False, short_names=("prices",)
)

# Built-in groups first: discovery keeps this order, and it decides which group an ambiguous plural means.
ALL_KINDS: tuple[Kind[Any], ...] = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    POD_DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    *kind_families.GROUP_KINDS,
    LEASES,
    *kind_families.WORKLOAD_KINDS,
    *kind_families.SERVING_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    *WEBHOOK_KINDS,
    JOBS,
    POD_GROUPS,
    QUEUES,
    COMMANDS,
    HYPER_NODES,
    NUMATOPOLOGIES,
    RESERVATIONS,
    TEMPORARY_QUOTAS,
    FLOATING_RESOURCES,
    BUDGETS,
    PRICE_LISTS,
    NODE_CHECKS,
    *kind_families.FLOW_KINDS,
    *kind_families.TRAINING_KINDS,
    *kind_families.FLEET_KINDS,
    *kind_families.PLACEMENT_KINDS,
    *kind_families.INFERENCE_KINDS,
)
CUSTOM_KINDS: tuple[Kind[Any], ...] = (
    JOBS,
    POD_GROUPS,
    QUEUES,
    COMMANDS,
    HYPER_NODES,
    NUMATOPOLOGIES,
    RESERVATIONS,
    TEMPORARY_QUOTAS,
    FLOATING_RESOURCES,
    BUDGETS,
    PRICE_LISTS,
    NODE_CHECKS,
    *kind_families.FLOW_KINDS,
    *kind_families.TRAINING_KINDS,
    *kind_families.FLEET_KINDS,
)

_BY_KIND: dict[tuple[str, str], Kind[Any]] = {}
_BY_RESOURCE: dict[tuple[str, str, str], Kind[Any]] = {}
for _kind in ALL_KINDS:
    for _version in (_kind.version, *_kind.alias_versions):
        _api_version = f"{_kind.group}/{_version}" if _kind.group else _version
        _BY_KIND[_api_version, _kind.kind] = _kind
        _BY_RESOURCE[_kind.group, _version, _kind.plural] = _kind


def find(api_version: str, kind: str) -> Kind[Any] | None:
    """The kind of ``apiVersion`` and ``kind`` as they stand in a manifest; alias versions count."""
    return _BY_KIND.get((api_version, kind))


def find_resource(group: str, version: str, plural: str) -> Kind[Any] | None:
    """The kind of a URL's group (``""`` for core), version and resource name; alias versions count."""
    return _BY_RESOURCE.get((group, version, plural))
