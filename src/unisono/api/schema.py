"""OpenAPI v3 structural schemas, generated from the structs.

Which fields of Kubernetes' own kinds must be there stands here for readers of schemas: ``kubectl explain`` and typed
clients. Validation says what is missing in its own words, for each kind, and does not read this. What an empty text
means anyway is said by the structs (``fields.Required``); here stands what a struct cannot say, since its default is a
meaningful value or a struct. Source: the ``required`` lists of Kubernetes' OpenAPI documents.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from unisono.api.base import QUANTITY_PATTERN, ObjectMeta
from unisono.api.decode import FieldShape, Shape, alias_fields, shape_of, summary
from unisono.api.kind import Kind
from unisono.api.merge_keys import ATOMIC_MAPS, ATOMIC_STRUCTS, list_merge

_INT_OR_STRING: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values."
)
_KIND = "Kind is a string value representing the REST resource this object represents. In CamelCase."
# Entries are kept as they come; this is what they hold.
_MANAGED_FIELDS: dict[str, Any] = {
    "type": "array",
    "description": "Which field manager wrote which fields, kept by the server.",
    "items": {
        "type": "object",
        "description": "The fields that one manager wrote through one door.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version in which the fields are named."},
            "fieldsType": {"type": "string", "description": "Format of the fields, always FieldsV1."},
            "fieldsV1": {"type": "object", "description": "The fields as a tree of names."},
            "manager": {"type": "string", "description": "Name of the manager."},
            "operation": {"type": "string", "description": "Apply, or Update for every other write."},
            "subresource": {"type": "string", "description": "Subresource that was written; empty for the object."},
            "time": {
                "type": "string",
                "format": "date-time",
                "description": "When the manager last took a field, changed one or gave one up.",
            },
        },
    },
    "x-kubernetes-list-type": "atomic",
}
# Struct name to wire names.
REQUIRED: dict[str, tuple[str, ...]] = {
    "AttachedVolume": ("devicePath",),
    "BatchCronJob": ("spec",),
    "BatchCronJobSpec": ("jobTemplate",),
    "BatchJobSpec": ("template",),
    "CSIDriver": ("spec",),
    "CSINode": ("spec",),
    "CSINodeDriver": ("nodeID",),
    "CSINodeSpec": ("drivers",),
    "CephFSVolumeSource": ("monitors",),
    "ClusterRoleBinding": ("roleRef",),
    "Condition": ("lastTransitionTime", "message", "reason"),
    "ContainerResourceMetricSource": ("target",),
    "ContainerResourceMetricStatus": ("current",),
    "ContainerStateTerminated": ("exitCode",),
    "ContainerStatus": ("image", "imageID", "ready", "restartCount"),
    "ControllerRevision": ("revision",),
    "Counter": ("value",),
    "CounterSet": ("counters",),
    "CustomResourceDefinition": ("spec",),
    "CustomResourceDefinitionSpec": ("names", "versions"),
    "CustomResourceDefinitionVersion": ("served", "storage"),
    "DaemonEndpoint": ("Port",),
    "DaemonSetSpec": ("selector", "template"),
    "DaemonSetStatus": ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"),
    "DeploymentSpec": ("selector", "template"),
    "DeviceCapacity": ("value",),
    "DeviceClass": ("spec",),
    "DeviceCounterConsumption": ("counters",),
    "Event": ("involvedObject", "metadata"),
    "ExternalMetricSource": ("metric", "target"),
    "ExternalMetricStatus": ("current", "metric"),
    "GRPCAction": ("port",),
    "HorizontalPodAutoscalerSpecV1": ("maxReplicas", "scaleTargetRef"),
    "HorizontalPodAutoscalerStatusV1": ("currentReplicas", "desiredReplicas"),
    "HorizontalPodAutoscalerV1": ("spec",),
    "HPAScalingPolicy": ("periodSeconds", "value"),
    "HTTPGetAction": ("port",),
    "HTTPHeader": ("value",),
    "HTTPIngressPath": ("backend",),
    "HTTPIngressRuleValue": ("paths",),
    "HorizontalPodAutoscaler": ("spec",),
    "HorizontalPodAutoscalerSpec": ("maxReplicas", "scaleTargetRef"),
    "HorizontalPodAutoscalerStatus": ("desiredReplicas",),
    "ISCSIVolumeSource": ("lun",),
    "LimitRangeSpec": ("limits",),
    "NodeAllocatableResourceClaimStatus": ("resources",),
    "NodeSelector": ("nodeSelectorTerms",),
    "NodeSystemInfo": (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "ObjectMetricSource": ("describedObject", "metric", "target"),
    "ObjectMetricStatus": ("current", "describedObject", "metric"),
    "OpaqueDeviceConfiguration": ("parameters",),
    "PersistentVolumeClaimTemplate": ("spec",),
    "PodExtendedResourceClaimStatus": ("requestMappings",),
    "PodFailurePolicy": ("rules",),
    "PodFailurePolicyOnExitCodesRequirement": ("values",),
    "PodSpec": ("containers",),
    "PodsMetricSource": ("metric", "target"),
    "PodsMetricStatus": ("current", "metric"),
    "PolicyRule": ("verbs",),
    "PortStatus": ("protocol",),
    "PreferredSchedulingTerm": ("preference", "weight"),
    "RBDVolumeSource": ("monitors",),
    "ReplicaSetSpec": ("selector",),
    "ReplicaSetStatus": ("replicas",),
    "ReplicationControllerStatus": ("replicas",),
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec",),
    "ResourceClaimTemplateSpec": ("spec",),
    "ResourceMetricSource": ("target",),
    "ResourceMetricStatus": ("current",),
    "ResourcePool": ("generation", "resourceSliceCount"),
    "ResourceSlice": ("spec",),
    "ResourceSliceSpec": ("pool",),
    "RoleBinding": ("roleRef",),
    "ScaleIOVolumeSource": ("secretRef",),
    "SleepAction": ("seconds",),
    "StatefulSetSpec": ("selector", "template"),
    "StatefulSetStatus": ("replicas",),
    "SuccessPolicy": ("rules",),
    "Sysctl": ("value",),
    "TCPSocketAction": ("port",),
    "TopologySelectorLabelRequirement": ("values",),
    "TopologySpreadConstraint": ("maxSkew",),
    "VolumeAttachment": ("spec",),
    "VolumeAttachmentSpec": ("source",),
    "VolumeAttachmentStatus": ("attached",),
    "WeightedPodAffinityTerm": ("podAffinityTerm", "weight"),
}


@cache
def schema_of(kind: Kind[Any]) -> dict[str, Any]:
    """The schema of a kind with metadata inline; shared, so copy before changing it.

    Lists of built-in kinds carry ``x-kubernetes-patch-merge-key``, ``-patch-strategy``, ``-list-type`` and
    ``-list-map-keys``; the caller adds ``x-kubernetes-group-version-kind``.
    """
    struct: type[msgspec.Struct] = kind.struct
    schema = _render(shape_of(struct), builtin=is_kubernetes(kind))
    own_descriptions = {"apiVersion": _API_VERSION, "kind": _KIND}
    properties = {
        name: {**each, "description": own_descriptions[name]} if name in own_descriptions else each
        for name, each in schema["properties"].items()
    }
    # Its metadata is Kubernetes' own in any case.
    properties["metadata"] = _render_struct(ObjectMeta, builtin=True)
    return {**schema, "properties": properties}


def is_kubernetes(kind: Kind[Any]) -> bool:
    """True for built-in kinds of Kubernetes itself, False for those that others define."""
    return "." not in kind.group or kind.group.endswith(".k8s.io")


def _render(shape: Shape, *, builtin: bool) -> dict[str, Any]:
    """A dictionary of its own, with shared ones below it: many kinds hold the same structs.

    ``builtin`` marks required fields that only Kubernetes' own kinds mark.
    """
    match shape.kind:
        case "object" if shape.struct is not None:
            schema = _render_struct(shape.struct, builtin=builtin)
        case "object":
            schema = _render_object(shape, builtin=builtin)
        case "array":
            schema = {"type": "array", "items": _render(_item(shape), builtin=builtin)}
        case "map":
            schema = {"type": "object", "additionalProperties": _render(_item(shape), builtin=builtin)}
        case "quantity":
            schema = {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN}
        case "int-or-string":
            schema = dict(_INT_OR_STRING)
        case "any":
            schema = {"x-kubernetes-preserve-unknown-fields": True}
        case "integer":
            schema = {"type": "integer", "format": "int64"}
        case scalar:
            schema = {"type": scalar}
    return schema | shape.rules


@cache
def _render_struct(struct: type[msgspec.Struct], *, builtin: bool) -> dict[str, Any]:
    return _render_object(shape_of(struct), builtin=builtin)


def _item(shape: Shape) -> Shape:
    return shape.item or Shape("any")


def _render_object(shape: Shape, *, builtin: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    name = ""
    if shape.struct is not None:
        schema["description"] = summary(shape.struct)
        name = shape.struct.__name__
        if name in ATOMIC_STRUCTS:
            schema["x-kubernetes-map-type"] = "atomic"
    fields = shape.fields if shape.struct is None else {**shape.fields, **alias_fields(shape.struct)}
    schema["properties"] = {wire: _render_field(name, each, builtin=builtin) for wire, each in fields.items()}
    required = {wire for wire, each in shape.fields.items() if each.required}
    required.update(REQUIRED.get(name, ()) if builtin else ())
    if required:
        schema["required"] = sorted(required)
    return schema


def _render_field(struct: str, entry: FieldShape, *, builtin: bool) -> dict[str, Any]:
    if builtin and (struct, entry.name) == ("ObjectMeta", "managedFields"):
        return dict(_MANAGED_FIELDS)
    schema = _render(entry.shape, builtin=builtin)
    if entry.description:
        schema["description"] = entry.description
    merge = list_merge(struct, entry.name)
    if merge is not None:
        schema |= merge.schema()
        if merge.defaults:
            items, defaults = schema["items"], dict(merge.defaults)
            properties = {
                name: {**each, "default": defaults[name]} if name in defaults else each
                for name, each in items["properties"].items()
            }
            schema["items"] = {**items, "properties": properties}
    elif (struct, entry.name) in ATOMIC_MAPS:
        schema["x-kubernetes-map-type"] = "atomic"
    elif entry.shape.kind == "array":
        schema["x-kubernetes-list-type"] = "atomic"
    return schema
