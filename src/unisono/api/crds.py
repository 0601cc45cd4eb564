"""CustomResourceDefinitions of the custom kinds, generated from structs, columns and kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api import kind_families, kinds
from unisono.api.base import Object
from unisono.api.decode import prepare
from unisono.api.keys import HELM_RESOURCE_POLICY
from unisono.api.kind import Kind
from unisono.api.kinds import CUSTOM_KINDS
from unisono.api.schema import schema_of

# Columns that ``kubectl get`` shows for custom kinds, as Volcano's CRDs define them.


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column.

    Attributes:
        name: heading.
        type: ``string``, ``integer`` or ``date`` (shown as an age).
        json_path: where the value stands, such as ``.status.state.phase``.
        priority: 0 is always shown, 1 only with ``-o wide``.
        description: what the value says.
        format: ``int32``, ``date-time`` or empty.
    """

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""

    def manifest(self) -> dict[str, Any]:
        """The entry of ``additionalPrinterColumns``."""
        entry: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        if self.priority:
            entry["priority"] = self.priority
        if self.description:
            entry["description"] = self.description
        if self.format:
            entry["format"] = self.format
        return entry


_AGE = Column("AGE", "date", ".metadata.creationTimestamp")
_STATE = Column("State", "string", ".status.conditions[-1:].type")
_SINCE = Column("Age", "date", ".metadata.creationTimestamp")

_COLUMNS: dict[type[Object], tuple[Column, ...]] = {
    kinds.JOBS.struct: (
        Column("STATUS", "string", ".status.state.phase"),
        Column("minAvailable", "integer", ".status.minAvailable"),
        Column("RUNNINGS", "integer", ".status.running"),
        _AGE,
        Column("QUEUE", "string", ".spec.queue", priority=1),
    ),
    kinds.POD_GROUPS.struct: (
        Column("STATUS", "string", ".status.phase"),
        Column("minMember", "integer", ".spec.minMember"),
        Column("RUNNINGS", "integer", ".status.running"),
        _AGE,
        Column("QUEUE", "string", ".spec.queue", priority=1),
    ),
    kind_families.CRON_JOBS.struct: (
        Column("SCHEDULE", "string", ".spec.schedule"),
        Column("TIMEZONE", "string", ".spec.timeZone"),
        Column("SUSPEND", "boolean", ".spec.suspend"),
        Column("LAST SCHEDULE", "date", ".status.lastScheduleTime"),
        _AGE,
    ),
    kind_families.JOB_FLOWS.struct: (Column("Status", "string", ".status.state.phase"), _SINCE),
    kind_families.HYPER_JOBS.struct: (
        Column("STATUS", "string", ".status.conditions[-1:].type"),
        Column("JOBS", "integer", ".status.splitCount"),
        _AGE,
    ),
    kinds.QUEUES.struct: (
        Column("PARENT", "string", ".spec.parent"),
        Column("STATE", "string", ".status.state"),
        Column("WEIGHT", "integer", ".spec.weight"),
        Column("CPU", "string", ".status.allocated.cpu", description="Cores that pods of the queue use."),
        Column("MEMORY", "string", ".status.allocated.memory", description="Memory that pods of the queue use."),
        Column("GPU", "string", ".status.allocated.nvidia\\.com/gpu", description="Cards that pods of the queue use."),
        Column("DESERVED", "string", ".spec.deserved", priority=1),
        Column("CAPABILITY", "string", ".spec.capability", priority=1),
        _AGE,
    ),
    kind_families.SCALED_OBJECTS.struct: (
        Column("ScaleTargetKind", "string", ".status.scaleTargetKind"),
        Column("ScaleTargetName", "string", ".spec.scaleTargetRef.name"),
        Column("Min", "integer", ".spec.minReplicaCount"),
        Column("Max", "integer", ".spec.maxReplicaCount"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Active", "string", '.status.conditions[?(@.type=="Active")].status'),
        Column("Fallback", "string", '.status.conditions[?(@.type=="Fallback")].status'),
        Column("Triggers", "string", ".status.triggersTypes"),
        _SINCE,
    ),
    kind_families.KNATIVE_SERVICES.struct: (
        Column("URL", "string", ".status.url"),
        Column("LatestCreated", "string", ".status.latestCreatedRevisionName"),
        Column("LatestReady", "string", ".status.latestReadyRevisionName"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ),
    kind_families.ATTACHED_CLUSTERS.struct: (
        Column("READY", "boolean", ".status.ready"),
        Column("VERSION", "string", ".status.kubernetesVersion"),
        Column("NODES", "integer", ".status.nodeSummary.readyNum"),
        _AGE,
    ),
    kind_families.FLEETS.struct: (
        Column("PHASE", "string", ".status.phase"),
        Column("READY", "integer", ".status.readyClusters"),
        _AGE,
    ),
    kind_families.APPLICATIONS.struct: (
        Column("READY", "string", '.status.conditions[?(@.type=="Ready")].status'),
        _AGE,
    ),
    kinds.HYPER_NODES.struct: (
        Column("Tier", "string", ".spec.tier"),
        Column("TierName", "string", ".spec.tierName"),
        Column("NodeCount", "integer", ".status.nodeCount"),
        _AGE,
    ),
    kinds.TEMPORARY_QUOTAS.struct: (
        Column("Queue", "string", ".spec.queue"),
        Column("Start", "string", ".spec.start"),
        Column("End", "string", ".spec.end"),
        Column("Schedule", "string", ".spec.schedule"),
        Column("Duration", "string", ".spec.duration"),
        _AGE,
    ),
    kinds.RESERVATIONS.struct: (
        Column("Purpose", "string", ".spec.purpose"),
        Column("Phase", "string", ".status.phase"),
        Column("Start", "string", ".status.windowStart"),
        Column("End", "string", ".status.windowEnd"),
        Column("Nodes", "integer", ".status.nodeCount"),
        Column("Others", "integer", ".status.others", description="Pods there that are not of those who may use them."),
        Column("Message", "string", ".status.message"),
        _AGE,
    ),
    kinds.NODE_CHECKS.struct: (
        Column("Nodes", "integer", ".status.nodes"),
        Column("Passed", "integer", ".status.passed"),
        Column("Waiting", "integer", ".status.waiting"),
        Column("Checking", "integer", ".status.checking"),
        Column("Quarantined", "integer", ".status.quarantined"),
        Column("Suspected", "string", '.status.conditions[?(@.type=="Suspected")].status'),
        _AGE,
    ),
    kinds.FLOATING_RESOURCES.struct: (
        Column("Amount", "integer", ".spec.amount"),
        Column("Observed", "integer", ".status.amount"),
        Column("Elsewhere", "integer", ".status.elsewhere"),
        Column("InUse", "integer", ".status.inUse"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        _AGE,
    ),
    kinds.BUDGETS.struct: (
        Column("Mode", "string", ".spec.mode"),
        Column("Period", "string", ".spec.period"),
        # Columns of kubectl show no maps: the condition names the amounts in words.
        Column("Used", "string", '.status.conditions[?(@.type=="UsedUp")].message'),
        Column("UsedUp", "string", '.status.conditions[?(@.type=="UsedUp")].status'),
        Column("Exhausted", "string", ".status.exhaustedAt"),
        _AGE,
    ),
    kinds.PRICE_LISTS.struct: (Column("Currency", "string", ".spec.currency"), _AGE),
    kind_families.PYTORCH_JOBS.struct: (_STATE, _SINCE),
    kind_families.TF_JOBS.struct: (_STATE, _SINCE),
    kind_families.MPI_JOBS.struct: (_SINCE, _STATE),
    kind_families.XGBOOST_JOBS.struct: (_STATE, _SINCE),
    kind_families.PADDLE_JOBS.struct: (_STATE, _SINCE),
    kind_families.JAX_JOBS.struct: (_STATE, _SINCE),
    kind_families.TRAIN_JOBS.struct: (_STATE, _SINCE),
    kind_families.JOB_SETS.struct: (
        Column("TerminalState", "string", ".status.terminalState"),
        Column("Restarts", "string", ".status.restarts"),
        Column("Completed", "string", '.status.conditions[?(@.type=="Completed")].status'),
        Column("Suspended", "string", ".spec.suspend"),
        _SINCE,
    ),
    kind_families.RAY_CLUSTERS.struct: (
        Column("desired workers", "integer", ".status.desiredWorkerReplicas"),
        Column("available workers", "integer", ".status.availableWorkerReplicas"),
        Column("cpus", "string", ".status.desiredCPU"),
        Column("memory", "string", ".status.desiredMemory"),
        Column("gpus", "string", ".status.desiredGPU"),
        Column("tpus", "string", ".status.desiredTPU", priority=1),
        Column("status", "string", ".status.state"),
        Column("age", "date", ".metadata.creationTimestamp"),
        Column("head pod IP", "string", ".status.head.podIP", priority=1),
        Column("head service IP", "string", ".status.head.serviceIP", priority=1),
    ),
    kind_families.RAY_JOBS.struct: (
        Column("job status", "string", ".status.jobStatus"),
        Column("deployment status", "string", ".status.jobDeploymentStatus"),
        Column("ray cluster name", "string", ".status.rayClusterName"),
        Column("start time", "string", ".status.startTime"),
        Column("end time", "string", ".status.endTime"),
        Column("age", "date", ".metadata.creationTimestamp"),
    ),
    kind_families.RAY_SERVICES.struct: (
        Column("service status", "string", ".status.serviceStatus"),
        Column("num serve endpoints", "string", ".status.numServeEndpoints"),
        Column("age", "date", ".metadata.creationTimestamp"),
    ),
}


def columns(kind: Kind[Any]) -> tuple[Column, ...]:
    """The columns of a custom kind after its name; empty when name and age are all there is to show."""
    return _COLUMNS.get(kind.struct, ())


# Strategic merge is for built-in kinds; an API server refuses these extensions in a CRD.
_PATCH_EXTENSIONS = ("x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy")


def crd_manifests() -> list[dict[str, Any]]:
    """One ``apiextensions.k8s.io/v1`` CustomResourceDefinition per custom kind, as JSON values of the caller's own."""
    prepare(kind.struct for kind in CUSTOM_KINDS)
    return [_manifest(kind) for kind in CUSTOM_KINDS]


def _manifest(kind: Kind[Any]) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular_name,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Removing a release must not remove the jobs of its users.
        "metadata": {"name": kind.resource, "annotations": {HELM_RESOURCE_POLICY: "keep"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, name) for name in (kind.version, *kind.alias_versions)],
        },
    }


def _version(kind: Kind[Any], name: str) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": name == kind.version,
        "schema": {"openAPIV3Schema": structural_schema(kind)},
        "subresources": _subresources(kind),
    }
    printed = [column.manifest() for column in columns(kind)]
    if printed:
        version["additionalPrinterColumns"] = printed
    return version


def _subresources(kind: Kind[Any]) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}} if kind.status_subresource else {}
    if kind.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        }
        if kind.scale.selector:
            subresources["scale"]["labelSelectorPath"] = kind.scale.selector
    return subresources


def structural_schema(kind: Kind[Any]) -> dict[str, Any]:
    """The kind's schema as a CRD may hold it: the API server itself knows ``metadata``."""
    # A copy by way of JSON: these schemas are large, and a control plane makes all of them when it starts.
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema_of(kind)))
    schema["properties"]["metadata"] = {"type": "object"}
    _restrict(schema)
    return schema


def _restrict(schema: dict[str, Any]) -> None:
    """Drop what a structural schema may not say, everywhere below ``schema``."""
    for extension in _PATCH_EXTENSIONS:
        schema.pop(extension, None)
    _restrict_list(schema)
    for below in schema.get("properties", {}).values():
        _restrict(below)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            _restrict(schema[name])


def _restrict_list(schema: dict[str, Any]) -> None:
    """In a CRD the keys of a map list must be required or have a default; otherwise the list is atomic."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys is None:
        return
    item = schema["items"]
    if "protocol" in keys:
        item["properties"]["protocol"]["default"] = "TCP"
    required = set(item.get("required", ()))
    if not all(key in required or "default" in item["properties"][key] for key in keys):
        del schema["x-kubernetes-list-map-keys"]
        schema["x-kubernetes-list-type"] = "atomic"
