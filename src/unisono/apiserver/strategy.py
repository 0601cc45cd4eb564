"""What single kinds do differently when they are stored: the status they start with, and what updates keep."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object
from unisono.api.batch_v1 import BatchJob
from unisono.api.core import Namespace, PersistentVolumeClaim, Pod
from unisono.api.core.pod_status import PodCondition
from unisono.api.defaulting.workloads import generate_selector
from unisono.api.kind import Kind
from unisono.api.qos import qos_class
from unisono.apiserver.custom.objects import CustomObject

NAMESPACE_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"


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
        obj.metadata.labels = {**(obj.metadata.labels or {}), _NAME_LABEL: obj.metadata.name}
    elif isinstance(obj, PersistentVolumeClaim):
        obj.status = type(obj.status)(phase="Pending")
    elif isinstance(obj, BatchJob):
        obj.status = type(obj.status)()
        generate_selector(obj)
    elif isinstance(obj, CustomObject):
        if kind.status_subresource:
            obj.status = None
    elif kind.status_subresource and kind.resource != "nodes":
        status = getattr(obj, "status", None)
        if status is not None:
            obj.status = type(status)()  # type: ignore[attr-defined]


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
    if isinstance(new, Namespace) and isinstance(old, Namespace):
        # Only the namespace controller takes the finalizer away, when the namespace is empty.
        new.spec.finalizers = old.spec.finalizers
        new.metadata.labels = {**(new.metadata.labels or {}), _NAME_LABEL: old.metadata.name}
