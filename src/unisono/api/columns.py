"""Columns that ``kubectl get`` shows for custom kinds, as Volcano's CRDs define them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unisono.api import fleet_kinds, flow_kinds, inference_kinds, kinds, training_kinds
from unisono.api.base import Object
from unisono.api.kind import Kind


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
    flow_kinds.CRON_JOBS.struct: (
        Column("SCHEDULE", "string", ".spec.schedule"),
        Column("TIMEZONE", "string", ".spec.timeZone"),
        Column("SUSPEND", "boolean", ".spec.suspend"),
        Column("LAST SCHEDULE", "date", ".status.lastScheduleTime"),
        _AGE,
    ),
    flow_kinds.JOB_FLOWS.struct: (Column("Status", "string", ".status.state.phase"), _SINCE),
    flow_kinds.HYPER_JOBS.struct: (
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
    inference_kinds.SCALED_OBJECTS.struct: (
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
    inference_kinds.KNATIVE_SERVICES.struct: (
        Column("URL", "string", ".status.url"),
        Column("LatestCreated", "string", ".status.latestCreatedRevisionName"),
        Column("LatestReady", "string", ".status.latestReadyRevisionName"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ),
    fleet_kinds.ATTACHED_CLUSTERS.struct: (
        Column("READY", "boolean", ".status.ready"),
        Column("VERSION", "string", ".status.kubernetesVersion"),
        Column("NODES", "integer", ".status.nodeSummary.readyNum"),
        _AGE,
    ),
    fleet_kinds.FLEETS.struct: (
        Column("PHASE", "string", ".status.phase"),
        Column("READY", "integer", ".status.readyClusters"),
        _AGE,
    ),
    fleet_kinds.APPLICATIONS.struct: (
        Column("READY", "string", '.status.conditions[?(@.type=="Ready")].status'),
        _AGE,
    ),
    kinds.HYPER_NODES.struct: (
        Column("Tier", "string", ".spec.tier"),
        Column("TierName", "string", ".spec.tierName"),
        Column("NodeCount", "integer", ".status.nodeCount"),
        _AGE,
    ),
    training_kinds.PYTORCH_JOBS.struct: (_STATE, _SINCE),
    training_kinds.TF_JOBS.struct: (_STATE, _SINCE),
    training_kinds.MPI_JOBS.struct: (_SINCE, _STATE),
    training_kinds.XGBOOST_JOBS.struct: (_STATE, _SINCE),
    training_kinds.PADDLE_JOBS.struct: (_STATE, _SINCE),
    training_kinds.JAX_JOBS.struct: (_STATE, _SINCE),
    training_kinds.TRAIN_JOBS.struct: (_STATE, _SINCE),
    training_kinds.JOB_SETS.struct: (
        Column("TerminalState", "string", ".status.terminalState"),
        Column("Restarts", "string", ".status.restarts"),
        Column("Completed", "string", '.status.conditions[?(@.type=="Completed")].status'),
        Column("Suspended", "string", ".spec.suspend"),
        _SINCE,
    ),
    training_kinds.RAY_CLUSTERS.struct: (
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
    training_kinds.RAY_JOBS.struct: (
        Column("job status", "string", ".status.jobStatus"),
        Column("deployment status", "string", ".status.jobDeploymentStatus"),
        Column("ray cluster name", "string", ".status.rayClusterName"),
        Column("start time", "string", ".status.startTime"),
        Column("end time", "string", ".status.endTime"),
        Column("age", "date", ".metadata.creationTimestamp"),
    ),
    training_kinds.RAY_SERVICES.struct: (
        Column("service status", "string", ".status.serviceStatus"),
        Column("num serve endpoints", "string", ".status.numServeEndpoints"),
        Column("age", "date", ".metadata.creationTimestamp"),
    ),
}


def columns(kind: Kind[Any]) -> tuple[Column, ...]:
    """The columns of a custom kind after its name; empty when name and age are all there is to show."""
    return _COLUMNS.get(kind.struct, ())
