"""What the server itself decides when an object is stored: its metadata, and what single kinds do differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.api import field_error
from unisono.api.base import Object
from unisono.api.core import DaemonEndpoint, Namespace, Node, PersistentVolumeClaim, Pod
from unisono.api.core.pod import PodCondition
from unisono.api.defaulting.workloads import generate_selector
from unisono.api.groups.apps import DaemonSet
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.keys import NAMESPACE_NAME
from unisono.api.kind import Kind
from unisono.api.pod_states import qos_class
from unisono.apiserver.custom.kinds import CustomObject, is_custom
from unisono.apiserver.failures import MODIFIED, bad_request, conflict, invalid

# What the server itself decides about ``metadata``: names, uids, times, generations, and what an update keeps.

_GENERATE_BASE = 58
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
_BUILT_IN_WITH_GENERATION = frozenset(
    {
        "pods",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "networkpolicies.networking.k8s.io",
        "ingresses.networking.k8s.io",
        "ingressclasses.networking.k8s.io",
        "replicationcontrollers",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)


def has_generation(kind: Kind[Any]) -> bool:
    """Whether ``metadata.generation`` counts changes of the kind's specification."""
    return is_custom(kind) or kind.resource in _BUILT_IN_WITH_GENERATION


def check_place(obj: Object, kind: Kind[Any], namespace: str | None, name: str | None) -> None:
    """Compare a body's name and namespace with the URL's.

    Raises:
        ApiError: 400 when they differ.
    """
    stated = obj.metadata.namespace
    if kind.namespaced and not namespace:
        raise bad_request("an empty namespace may not be set during creation")
    if kind.namespaced and stated and stated != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if name is not None and obj.metadata.name and obj.metadata.name != name:
        raise bad_request(f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({name})")
    obj.metadata.namespace = namespace if kind.namespaced else None


def begin(obj: Object, kind: Kind[Any], *, uid: str, now: str, new_suffix: Callable[[], str]) -> None:
    """Fill the metadata of a new object; ``now`` is an RFC 3339 time, ``new_suffix`` completes ``generateName``.

    Raises:
        ApiError: 400 when the body carries a resourceVersion.
    """
    meta = obj.metadata
    if meta.resource_version:
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not meta.name and meta.generate_name:
        meta.name = generated_name(meta.generate_name, new_suffix())
    meta.uid, meta.creation_timestamp = uid, now
    meta.generation = 1 if has_generation(kind) else None
    meta.deletion_timestamp = meta.deletion_grace_period_seconds = None
    meta.self_link = meta.resource_version = None


def generated_name(base: str, suffix: str) -> str:
    """A name from ``generateName``: the base is cut so that the whole has at most 63 characters."""
    return base[:_GENERATE_BASE] + suffix


def carry_over(new: Object, old: Object, kind: Kind[Any], *, require_version: bool, replacing: bool = False) -> None:
    """Keep what an update cannot change, and check that it was made from the current object.

    Raises:
        Conflict: the body names another uid (one that is ``replacing``) or an older resourceVersion.
        Replaced: the body, which comes of a patch, names another uid.
        Invalid: the body names no resourceVersion and ``require_version`` asks for one.
    """
    meta, before = new.metadata, old.metadata
    other = bool(meta.uid) and meta.uid != before.uid
    if other and replacing:
        raise conflict(
            kind, before.name, f"Precondition failed: UID in precondition: {meta.uid}, UID in object meta: {before.uid}"
        )
    if require_version and not meta.resource_version:
        error = field_error.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind, before.name, [error])
    if meta.resource_version and meta.resource_version != before.resource_version:
        raise conflict(kind, before.name, MODIFIED)
    if other:
        error = field_error.invalid("metadata.uid", meta.uid, "field is immutable")
        raise invalid(kind, before.name, [error])
    meta.name, meta.namespace, meta.uid = before.name, before.namespace, before.uid
    meta.resource_version, meta.generation = before.resource_version, before.generation
    meta.creation_timestamp = before.creation_timestamp
    meta.deletion_timestamp = before.deletion_timestamp
    meta.deletion_grace_period_seconds = before.deletion_grace_period_seconds
    meta.self_link = None
    if meta.generate_name is None:
        meta.generate_name = before.generate_name


def specification_changed(new: Object, old: Object, kind: Kind[Any]) -> bool:
    """Whether anything differs outside metadata and, where status is a subresource, status."""
    if isinstance(new, CustomObject) and isinstance(old, CustomObject):
        return new.differs(old, without_status=kind.status_subresource)
    ignored = ("api_version", "kind", "metadata", "status" if kind.status_subresource else "")
    return any(getattr(new, field) != getattr(old, field) for field in new.__struct_fields__ if field not in ignored)


NAMESPACE_FINALIZER = "kubernetes"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
# Numbers of a new status that Kubernetes tells although they are zero.
_ZEROS: dict[str, tuple[str, ...]] = {
    "replicasets.apps": ("replicas",),
    "replicationcontrollers": ("replicas",),
    "statefulsets.apps": ("replicas", "available_replicas"),
    "daemonsets.apps": ("current_number_scheduled", "number_misscheduled", "desired_number_scheduled", "number_ready"),
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
    previous = (old.metadata.annotations or {}).get(_TEMPLATE_GENERATION, "")
    number = int(previous) if previous.isdecimal() else 1
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
