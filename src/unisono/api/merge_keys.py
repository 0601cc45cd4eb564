"""How lists of built-in kinds merge: strategic merge patch and server-side apply.

Source: the ``patchMergeKey`` / ``patchStrategy`` / ``listType`` tags of Kubernetes' API types. Lists that are not named
here are replaced as a whole (atomic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ListMerge:
    """How one list merges.

    Attributes:
        key: item field that strategic merge matches by; empty for lists of plain values.
        strategy: ``merge``, ``merge,retainKeys`` or ``retainKeys``; empty when strategic merge replaces the list.
        keys: item fields that server-side apply matches by; defaults to ``key``.
        defaults: values that absent key fields have.
    """

    key: str = ""
    strategy: str = "merge"
    keys: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()

    def schema(self) -> dict[str, Any]:
        """The schema extensions of the list."""
        extensions: dict[str, Any] = {}
        keys = self.keys or ((self.key,) if self.key else ())
        if keys:
            extensions["x-kubernetes-list-type"] = "map"
            extensions["x-kubernetes-list-map-keys"] = list(keys)
        else:
            extensions["x-kubernetes-list-type"] = "set"
        if self.key:
            extensions["x-kubernetes-patch-merge-key"] = self.key
        if self.strategy:
            extensions["x-kubernetes-patch-strategy"] = self.strategy
        return extensions


# Structs that are one field for server-side apply (``structType=atomic``): a reference is changed as a whole.
ATOMIC_STRUCTS = frozenset(
    {
        "ConfigMapKeySelector",
        "CrossVersionObjectReferenceV1",
        "LabelSelector",
        "LocalObjectReference",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ResourceFieldSelector",
        "RoleRef",
        "ScopeSelector",
        "ServiceBackendPort",
        "SecretKeySelector",
        "SecretReference",
        "Subject",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
    }
)
# Maps that are one field (``mapType=atomic``): struct and wire name.
ATOMIC_MAPS = frozenset(
    {("PodSpec", "nodeSelector"), ("ServiceSpec", "selector"), ("ReplicationControllerSpec", "selector")}
)
_TCP = (("protocol", "TCP"),)

_BY_NAME = ListMerge("name")
_CONTAINER: dict[str, ListMerge] = {
    "ports": ListMerge("containerPort", keys=("containerPort", "protocol"), defaults=_TCP),
    "env": _BY_NAME,
    "volumeMounts": ListMerge("mountPath"),
    "volumeDevices": ListMerge("devicePath"),
}
_STATUS_BY_TYPE = ListMerge("type")

# Struct name, then wire name of the list.
LISTS: dict[str, dict[str, ListMerge]] = {
    "ObjectMeta": {"ownerReferences": ListMerge("uid"), "finalizers": ListMerge()},
    "PodSpec": {
        "volumes": ListMerge("name", "merge,retainKeys"),
        "initContainers": _BY_NAME,
        "containers": _BY_NAME,
        "ephemeralContainers": _BY_NAME,
        "imagePullSecrets": _BY_NAME,
        "hostAliases": ListMerge("ip"),
        "topologySpreadConstraints": ListMerge("topologyKey", keys=("topologyKey", "whenUnsatisfiable")),
        "schedulingGates": _BY_NAME,
        "resourceClaims": ListMerge("name", "merge,retainKeys"),
    },
    "PodStatus": {
        "conditions": _STATUS_BY_TYPE,
        "podIPs": ListMerge("ip"),
        "hostIPs": ListMerge("ip"),
        "resourceClaimStatuses": ListMerge("name", "merge,retainKeys"),
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "ResourceRequirements": {"claims": ListMerge("name", "", ("name",))},
    "ContainerStatus": {"volumeMounts": ListMerge("mountPath"), "allocatedResourcesStatus": _BY_NAME},
    "ServiceSpec": {"ports": ListMerge("port", keys=("port", "protocol"), defaults=_TCP)},
    "ServiceStatus": {"conditions": _STATUS_BY_TYPE},
    "NodeSpec": {"podCIDRs": ListMerge()},
    "NodeStatus": {"conditions": _STATUS_BY_TYPE, "addresses": ListMerge("type")},
    "NamespaceStatus": {"conditions": _STATUS_BY_TYPE},
    "PodDisruptionBudgetStatus": {"conditions": _STATUS_BY_TYPE},
    "PersistentVolumeClaimStatus": {"conditions": _STATUS_BY_TYPE},
    "ResourceClaimStatus": {
        "reservedFor": ListMerge("uid"),
        "devices": ListMerge("driver", "", ("driver", "device", "pool")),
    },
    "ServiceAccount": {"secrets": _BY_NAME, "imagePullSecrets": ListMerge("name", "", ("name",))},
    "CustomResourceDefinitionStatus": {"conditions": ListMerge("type", "", ("type",))},
    "JobStatus": {"conditions": ListMerge("status")},
    "DeploymentStatus": {"conditions": _STATUS_BY_TYPE},
    "ReplicaSetStatus": {"conditions": _STATUS_BY_TYPE},
    "StatefulSetStatus": {"conditions": _STATUS_BY_TYPE},
    "DaemonSetStatus": {"conditions": _STATUS_BY_TYPE},
    "MutatingWebhookConfiguration": {"webhooks": _BY_NAME},
    "ValidatingWebhookConfiguration": {"webhooks": _BY_NAME},
    "MutatingWebhook": {"matchConditions": _BY_NAME},
    "ValidatingWebhook": {"matchConditions": _BY_NAME},
    "ReplicationControllerStatus": {"conditions": _STATUS_BY_TYPE},
    "HorizontalPodAutoscalerStatus": {"conditions": _STATUS_BY_TYPE},
    "BatchJobStatus": {"conditions": _STATUS_BY_TYPE},
}


def list_merge(struct: str, name: str) -> ListMerge | None:
    """How the list ``name`` (wire name) of a struct merges, or None when it is atomic."""
    return LISTS.get(struct, {}).get(name)
