"""Every kind that Unisono knows, as constants, and how to find one by its names on the wire."""

from __future__ import annotations

from typing import Any

from unisono.api import core, kind_families
from unisono.api.groups import access, batch, budgets, calendar, health, quota, scheduling, topology
from unisono.api.groups.admission_registration import WEBHOOK_KINDS
from unisono.api.kind import Kind, Scale, served

NAMESPACES = served("", "v1", core.Namespace, namespaced=False, short_names=("ns",), status_subresource=True)
NODES = served("", "v1", core.Node, namespaced=False, short_names=("no",), status_subresource=True)
PODS = served("", "v1", core.Pod, short_names=("po",), categories=("all",), status_subresource=True)
EVENTS = served("", "v1", core.Event, short_names=("ev",))
CONFIG_MAPS = served("", "v1", core.ConfigMap, short_names=("cm",))
SECRETS = served("", "v1", core.Secret)
SERVICES = served("", "v1", core.Service, short_names=("svc",), categories=("all",), status_subresource=True)
SERVICE_ACCOUNTS = served("", "v1", core.ServiceAccount, short_names=("sa",))
PERSISTENT_VOLUME_CLAIMS = served("", "v1", core.PersistentVolumeClaim, short_names=("pvc",), status_subresource=True)
RESOURCE_QUOTAS = served("", "v1", core.ResourceQuota, short_names=("quota",), status_subresource=True)
LIMIT_RANGES = served("", "v1", core.LimitRange, short_names=("limits",))
ROLES = served(access.GROUP, "v1", access.Role)
ROLE_BINDINGS = served(access.GROUP, "v1", access.RoleBinding)
CLUSTER_ROLES = served(access.GROUP, "v1", access.ClusterRole, namespaced=False)
CLUSTER_ROLE_BINDINGS = served(access.GROUP, "v1", access.ClusterRoleBinding, namespaced=False)
POD_DISRUPTION_BUDGETS = served("policy", "v1", core.PodDisruptionBudget, short_names=("pdb",), status_subresource=True)
NETWORK_POLICIES = served("networking.k8s.io", "v1", core.NetworkPolicy, short_names=("netpol",))
PERSISTENT_VOLUMES = served(
    "", "v1", core.PersistentVolume, namespaced=False, short_names=("pv",), status_subresource=True
)
STORAGE_CLASSES = served("storage.k8s.io", "v1", core.StorageClass, namespaced=False, short_names=("sc",))
CSI_NODES = served("storage.k8s.io", "v1", core.CSINode, namespaced=False)
CSI_DRIVERS = served("storage.k8s.io", "v1", core.CSIDriver, namespaced=False)
CSI_STORAGE_CAPACITIES = served("storage.k8s.io", "v1", core.CSIStorageCapacity)
VOLUME_ATTACHMENTS = served("storage.k8s.io", "v1", core.VolumeAttachment, namespaced=False, status_subresource=True)
RESOURCE_CLAIMS = served("resource.k8s.io", "v1", core.ResourceClaim, status_subresource=True)
RESOURCE_CLAIM_TEMPLATES = served("resource.k8s.io", "v1", core.ResourceClaimTemplate)
RESOURCE_SLICES = served("resource.k8s.io", "v1", core.ResourceSlice, namespaced=False)
DEVICE_CLASSES = served("resource.k8s.io", "v1", core.DeviceClass, namespaced=False)
PRIORITY_CLASSES = served("scheduling.k8s.io", "v1", core.PriorityClass, namespaced=False, short_names=("pc",))
RUNTIME_CLASSES = served("node.k8s.io", "v1", core.RuntimeClass, namespaced=False)
LEASES = served("coordination.k8s.io", "v1", core.Lease)
CUSTOM_RESOURCE_DEFINITIONS = served(
    "apiextensions.k8s.io",
    "v1",
    core.CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status_subresource=True,
)
JOBS = served(
    "batch.volcano.sh",
    "v1alpha1",
    batch.Job,
    short_names=("vcjob", "vj", "vjob"),
    alias_versions=("v1beta1",),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    status_subresource=True,
)
# The scheduler writes spec-less status through the main resource, as Volcano's does.
POD_GROUPS = served("scheduling.volcano.sh", "v1beta1", scheduling.PodGroup, short_names=("pg", "podgroup-v1beta1"))
QUEUES = served(
    "scheduling.volcano.sh",
    "v1beta1",
    scheduling.Queue,
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
    status_subresource=True,
)
COMMANDS = served("bus.volcano.sh", "v1alpha1", batch.Command)
HYPER_NODES = served(
    "topology.volcano.sh",
    "v1alpha1",
    topology.HyperNode,
    namespaced=False,
    short_names=("hn",),
    status_subresource=True,
)
NUMATOPOLOGIES = served(
    "nodeinfo.volcano.sh", "v1alpha1", topology.Numatopology, namespaced=False, short_names=("numatopo",)
)
RESERVATIONS = served(
    "calendar.unisono.io",
    "v1alpha1",
    calendar.Reservation,
    namespaced=False,
    short_names=("resv",),
    status_subresource=True,
)
TEMPORARY_QUOTAS = served(
    "calendar.unisono.io", "v1alpha1", calendar.TemporaryQuota, namespaced=False, short_names=("tquota",)
)
NODE_CHECKS = served(
    "health.unisono.io",
    "v1alpha1",
    health.NodeCheck,
    namespaced=False,
    short_names=("ncheck",),
    status_subresource=True,
)
FLOATING_RESOURCES = served(
    "quota.unisono.io",
    "v1alpha1",
    quota.FloatingResource,
    namespaced=False,
    short_names=("floating",),
    status_subresource=True,
)
BUDGETS = served("quota.unisono.io", "v1alpha1", budgets.Budget, namespaced=False, status_subresource=True)
PRICE_LISTS = served("quota.unisono.io", "v1alpha1", budgets.PriceList, namespaced=False, short_names=("prices",))

_CORE = (NAMESPACES, NODES, PODS, EVENTS, CONFIG_MAPS, SECRETS, SERVICES, SERVICE_ACCOUNTS)
_LIMITED = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_QUOTAS, LIMIT_RANGES)
_ACCESS = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
_CLASSES = (POD_DISRUPTION_BUDGETS, NETWORK_POLICIES, PRIORITY_CLASSES, RUNTIME_CLASSES)
_STORAGE = (STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CSI_STORAGE_CAPACITIES, VOLUME_ATTACHMENTS)
_DEVICES = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES)
_VOLCANO = (JOBS, POD_GROUPS, QUEUES, COMMANDS, HYPER_NODES, NUMATOPOLOGIES)
_OWN = (RESERVATIONS, TEMPORARY_QUOTAS, FLOATING_RESOURCES, BUDGETS, PRICE_LISTS, NODE_CHECKS)

CUSTOM_KINDS: tuple[Kind[Any], ...] = (
    *_VOLCANO,
    *_OWN,
    *kind_families.FLOW_KINDS,
    *kind_families.TRAINING_KINDS,
    *kind_families.FLEET_KINDS,
)
# Built-in groups first: discovery keeps this order, and it decides which group an ambiguous plural means.
ALL_KINDS: tuple[Kind[Any], ...] = (
    *(*_CORE, *_LIMITED, *_ACCESS, *_CLASSES, *_STORAGE, *_DEVICES),
    *kind_families.GROUP_KINDS,
    LEASES,
    *kind_families.WORKLOAD_KINDS,
    *kind_families.SERVING_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    *WEBHOOK_KINDS,
    *CUSTOM_KINDS,
    *kind_families.PLACEMENT_KINDS,
    *kind_families.INFERENCE_KINDS,
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
