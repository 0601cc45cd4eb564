"""What single kinds do differently when they are stored: the status they start with, and what updates keep."""

from __future__ import annotations

from typing import Any

from unisono.api.apps import DaemonSet
from unisono.api.base import Object
from unisono.api.batch_v1 import BatchJob
from unisono.api.core import DaemonEndpoint, Namespace, Node, PersistentVolumeClaim, Pod
from unisono.api.core.pod_status import PodCondition
from unisono.api.defaulting.workloads import generate_selector
from unisono.api.keys import NAMESPACE_NAME
from unisono.api.kind import Kind
from unisono.api.qos import qos_class
from unisono.apiserver.custom.kinds import CustomObject

NAMESPACE_FINALIZER = "kubernetes"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
# Numbers of a new status that Kubernetes tells although they are zero.
_ZEROS: dict[str, tuple[str, ...]] = {
    "replicasets.apps": ("replicas",),
    "replicationcontrollers": ("replicas",),
    "statefulsets.apps": ("replicas", "available_replicas"),
    "daemonsets.apps": (
        "current_number_scheduled",
        "number_misscheduled",
        "desired_number_scheduled",
        "number_ready",
    ),
    "poddisruptionbudgets.policy": ("disruptions_allowed", "current_healthy", "desired_healthy", "expected_pods"),
    "horizontalpodautoscalers.autoscaling": ("desired_replicas",),
}


def begin_status(obj: Object, kind: Kind[Any]) -> None:
    """Give a new object the status that the server decides; what the writer sent is dropped.

    Nodes keep theirs: a node registers itself with its capacity.
    """
    if isinstance(obj, Pod):
        obj.status = type(obj.status)(phase="Pending", qos_class=qos_class(obj.spec))
        if obj.spec.scheduling_gates:
            obj.status.conditions = [
                PodCondition(
                    type="PodScheduled",
                    status="False",
                    last_transition_time=obj.metadata.creation_timestamp,
                    reason="SchedulingGated",
                    message="Scheduling is blocked due to non-empty scheduling gates",
                )
            ]
    elif isinstance(obj, Namespace):
        obj.status = type(obj.status)(phase="Active")
        obj.spec.finalizers = [NAMESPACE_FINALIZER]
        obj.metadata.labels = {**(obj.metadata.labels or {}), NAMESPACE_NAME: obj.metadata.name}
    elif isinstance(obj, PersistentVolumeClaim):
        obj.status = type(obj.status)(phase="Pending")
    elif isinstance(obj, BatchJob):
        obj.status = type(obj.status)()
        generate_selector(obj)
    elif isinstance(obj, CustomObject):
        if kind.status_subresource:
            obj.status = None
    elif isinstance(obj, Node):
        if obj.status.daemon_endpoints.kubelet_endpoint is None:
            obj.status.daemon_endpoints.kubelet_endpoint = DaemonEndpoint(port=0)
    elif kind.status_subresource:
        status = getattr(obj, "status", None)
        if status is not None:
            obj.status = type(status)(**dict.fromkeys(_ZEROS.get(kind.resource, ()), 0))  # type: ignore[attr-defined]
    if isinstance(obj, DaemonSet):
        _set_template_generation(obj, 1)


def _set_template_generation(daemon_set: DaemonSet, number: int) -> None:
    annotations = daemon_set.metadata.annotations or {}
    daemon_set.metadata.annotations = {**annotations, _TEMPLATE_GENERATION: str(number)}


def _count_template(new: DaemonSet, old: DaemonSet) -> None:
    """The template's generation counts its changes, whatever the writer says."""
    known = (old.metadata.annotations or {}).get(_TEMPLATE_GENERATION, "")
    number = int(known) if known.isdecimal() else 1
    _set_template_generation(new, number + (new.spec.template != old.spec.template))


def confine(new: Object, old: Object, kind: Kind[Any], subresource: str, *, custom: bool) -> None:
    """Keep what this door cannot change: the status on the main resource, everything else on ``status``.

    Labels and annotations of ``custom`` resources cannot be changed through ``status``; those of built-in kinds can.

    """
    if subresource == "status" and isinstance(new, CustomObject) and isinstance(old, CustomObject):
        status, new.metadata, new.content = new.status, old.metadata, dict(old.content)
        new.status = status
        return
    if subresource == "status":
        for field in new.__struct_fields__:
            if field not in ("status", "metadata"):
                setattr(new, field, getattr(old, field))
        kept = old.metadata
        if custom:
            new.metadata = kept
        else:
            new.metadata.owner_references, new.metadata.finalizers = kept.owner_references, kept.finalizers
        return
    if kind.status_subresource:
        new.status = old.status  # type: ignore[attr-defined]
    if isinstance(new, DaemonSet) and isinstance(old, DaemonSet):
        _count_template(new, old)
    if isinstance(new, Namespace) and isinstance(old, Namespace):
        # Only the namespace controller takes the finalizer away, when the namespace is empty.
        new.spec.finalizers = old.spec.finalizers
        new.metadata.labels = {**(new.metadata.labels or {}), NAMESPACE_NAME: old.metadata.name}
