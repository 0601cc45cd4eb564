"""Rules of nodes, events, priority and runtime classes, leases and claims."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unisono.api import names
from unisono.api.core.cluster import Lease, PriorityClass, RuntimeClass
from unisono.api.core.config import ServiceAccount
from unisono.api.core.container import ResourceRequirements
from unisono.api.core.event import Event
from unisono.api.core.node import Node
from unisono.api.core.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.validation.affinity import validate_taints, validate_tolerations
from unisono.api.validation.meta import by, named, one_of, validate_labels, validate_selector
from unisono.api.validation.quantities import validate_requirements, validate_resource_map
from unisono.api.volumes import stored_bytes

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_node(node: Node, old: Node | None) -> Iterator[FieldError]:
    """Taints and amounts; a provider ID stays once it is set."""
    yield from validate_taints(node.spec.taints, "spec.taints")
    yield from validate_resource_map(node.status.capacity, "status.capacity")
    yield from validate_resource_map(node.status.allocatable, "status.allocatable")
    before = old.spec.provider_id if old is not None else None
    if before and node.spec.provider_id != before:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


_OF_THE_CLUSTER = ("default", "kube-system")


def validate_event(event: Event, old: Event | None) -> Iterator[FieldError]:
    """An event stands in the namespace of its object; those of cluster-scoped objects stand in two of the system.

    A user with rights in one namespace must not report events about nodes and queues.
    """
    namespace, own = event.involved_object.namespace or "", event.metadata.namespace
    if own and own != namespace and (namespace or own not in _OF_THE_CLUSTER):
        yield invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def validate_service_account(account: ServiceAccount, old: ServiceAccount | None) -> Iterator[FieldError]:
    """References need names."""
    yield from named("imagePullSecrets", account.image_pull_secrets)


def validate_priority_class(new: PriorityClass, old: PriorityClass | None) -> Iterator[FieldError]:
    """Values of users stay below the system's, and nothing that pods copied changes."""
    name, value = new.metadata.name, new.value or 0
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    yield from one_of("preemptionPolicy", new.preemption_policy, ("PreemptLowerPriority", "Never"))
    if old is not None:
        if value != (old.value or 0):
            yield forbidden("value", "may not be changed in an update.")
        if new.preemption_policy != old.preemption_policy:
            yield invalid("preemptionPolicy", new.preemption_policy, "field is immutable")


def validate_runtime_class(new: RuntimeClass, old: RuntimeClass | None) -> Iterator[FieldError]:
    """A handler that stays, amounts as limits of containers have them, labels and tolerations as of pods."""
    yield from by(names.dns_label, "handler", new.handler)
    if new.overhead is not None:
        yield from validate_requirements(ResourceRequirements(limits=new.overhead.pod_fixed), "overhead")
    if new.scheduling is not None:
        yield from validate_labels(new.scheduling.node_selector, "scheduling.nodeSelector")
        yield from validate_tolerations(new.scheduling.tolerations, "scheduling.tolerations")
    if old is not None and new.handler != old.handler:
        yield invalid("handler", new.handler, "field is immutable")


def validate_lease(lease: Lease, old: Lease | None) -> Iterator[FieldError]:
    """Durations are positive."""
    spec = lease.spec
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0")
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        yield invalid("spec.leaseTransitions", spec.lease_transitions, "must be greater than or equal to 0")
    if spec.holder_identity == "":
        yield invalid("spec.holderIdentity", "", "must not be empty")


def validate_claim(claim: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> Iterator[FieldError]:
    """Access modes and a positive amount of storage; afterwards only the amount may grow, once the claim is bound."""
    yield from validate_claim_spec(claim.spec, "spec")
    if old is None:
        return
    before, after = old.spec, claim.spec
    allowed = msgspec.structs.replace(before, volume_name=before.volume_name or after.volume_name)
    if before.storage_class_name is None:
        # The default class comes later where there was none when the claim was made.
        allowed.storage_class_name = after.storage_class_name
    if claim.status.phase == "Bound":
        amount = (after.resources.requests or {}).get("storage", 0)
        requests = {**(before.resources.requests or {}), "storage": amount}
        allowed.resources = msgspec.structs.replace(before.resources, requests=requests)
        allowed.volume_attributes_class_name = after.volume_attributes_class_name
    if after != allowed:
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", detail)
    elif _storage(after) < _storage(before) and _storage(after) <= stored_bytes(old.status.capacity):
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _storage(spec: PersistentVolumeClaimSpec) -> int:
    return stored_bytes(spec.resources.requests)


def validate_claim_spec(spec: PersistentVolumeClaimSpec, path: str) -> Iterator[FieldError]:
    """Rules of a claim, also within jobs and templates."""
    if not spec.access_modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in spec.access_modes or ():
        yield from one_of(f"{path}.accessModes", mode, _ACCESS_MODES)
    yield from validate_selector(spec.selector, f"{path}.selector")
    yield from one_of(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem"))
    storage = (spec.resources.requests or {}).get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
        return
    try:
        if parse_quantity(storage) <= 0:
            yield invalid(f"{path}.resources[storage]", storage, "must be greater than zero")
    except QuantityError as error:
        yield invalid(f"{path}.resources[storage]", storage, str(error))
