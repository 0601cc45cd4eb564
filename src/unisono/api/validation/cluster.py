"""Rules of nodes, events, classes, leases, claims, configuration and devices."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from unisono.api import names
from unisono.api.cel import CompileError, compile_expression
from unisono.api.cel.syntax import LONGEST
from unisono.api.core import devices
from unisono.api.core.cluster import ConfigMap, Event, Lease, Node, PriorityClass, RuntimeClass, Secret, ServiceAccount
from unisono.api.core.container import ResourceRequirements
from unisono.api.core.volume import PersistentVolumeClaim, PersistentVolumeClaimSpec
from unisono.api.field_error import FieldError, forbidden, invalid, required, too_long
from unisono.api.keys import SSH_AUTH
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.validation import meta
from unisono.api.validation.pod import validate_taints, validate_tolerations
from unisono.api.volumes import stored_bytes

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_node(node: Node, old: Node | None) -> Iterator[FieldError]:
    """Taints and amounts; a provider ID stays once it is set."""
    yield from validate_taints(node.spec.taints, "spec.taints")
    yield from meta.validate_resource_map(node.status.capacity, "status.capacity")
    yield from meta.validate_resource_map(node.status.allocatable, "status.allocatable")
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
    yield from meta.named("imagePullSecrets", account.image_pull_secrets)


def validate_priority_class(new: PriorityClass, old: PriorityClass | None) -> Iterator[FieldError]:
    """Values of users stay below the system's, and nothing that pods copied changes."""
    name, value = new.metadata.name, new.value or 0
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    yield from meta.one_of("preemptionPolicy", new.preemption_policy, ("PreemptLowerPriority", "Never"))
    if old is not None:
        if value != (old.value or 0):
            yield forbidden("value", "may not be changed in an update.")
        if new.preemption_policy != old.preemption_policy:
            yield invalid("preemptionPolicy", new.preemption_policy, "field is immutable")


def validate_runtime_class(new: RuntimeClass, old: RuntimeClass | None) -> Iterator[FieldError]:
    """A handler that stays, amounts as limits of containers have them, labels and tolerations as of pods."""
    yield from meta.by(names.dns_label, "handler", new.handler)
    if new.overhead is not None:
        yield from meta.validate_requirements(ResourceRequirements(limits=new.overhead.pod_fixed), "overhead")
    if new.scheduling is not None:
        yield from meta.validate_labels(new.scheduling.node_selector, "scheduling.nodeSelector")
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
        yield from meta.one_of(f"{path}.accessModes", mode, _ACCESS_MODES)
    yield from meta.validate_selector(spec.selector, f"{path}.selector")
    yield from meta.one_of(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem"))
    storage = (spec.resources.requests or {}).get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
        return
    try:
        if parse_quantity(storage) <= 0:
            yield invalid(f"{path}.resources[storage]", storage, "must be greater than zero")
    except QuantityError as error:
        yield invalid(f"{path}.resources[storage]", storage, str(error))


# Rules of ConfigMaps and Secrets.

LARGEST = 1024 * 1024
# Keys that a Secret of a known type must have.
_REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    SSH_AUTH: ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def validate_config_map(config: ConfigMap, old: ConfigMap | None) -> Iterator[FieldError]:
    """Keys, size, base64, and nothing changes once it is immutable."""
    size = 0
    for key, text in (config.data or {}).items():
        yield from meta.by(names.config_key, f"data[{key}]", key)
        if key in (config.binary_data or {}):
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key in config.binary_data or {}:
        yield from meta.by(names.config_key, f"binaryData[{key}]", key)
    yield from _sized(size, config.binary_data, "binaryData", "")
    if old is not None and old.immutable:
        if not config.immutable:
            yield forbidden("immutable", "field is immutable when `immutable` is set")
        if (config.data or {}) != (old.data or {}):
            yield forbidden("data", "field is immutable when `immutable` is set")
        if (config.binary_data or {}) != (old.binary_data or {}):
            yield forbidden("binaryData", "field is immutable when `immutable` is set")


def validate_secret(secret: Secret, old: Secret | None) -> Iterator[FieldError]:
    """Keys, size, base64, keys of known types, and what must not change."""
    for key in secret.data or {}:
        yield from meta.by(names.config_key, f"data[{key}]", key)
    yield from _sized(0, secret.data, "data", "data")
    for key in _REQUIRED_KEYS.get(secret.type or "", ()):
        if key not in (secret.data or {}):
            yield required(f"data[{key}]")
    if secret.type == "kubernetes.io/basic-auth" and not {"username", "password"} & set(secret.data or ()):
        yield required("data[username]")
        yield required("data[password]")
    if old is not None:
        if secret.type != old.type:
            yield invalid("type", secret.type, "field is immutable")
        if old.immutable:
            if not secret.immutable:
                yield forbidden("immutable", "field is immutable when `immutable` is set")
            if (secret.data or {}) != (old.data or {}):
                yield forbidden("data", "field is immutable when `immutable` is set")


def _sized(size: int, encoded: Mapping[str, str] | None, path: str, whole: str) -> Iterator[FieldError]:
    for key, text in (encoded or {}).items():
        try:
            size += len(base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True))  # Go's decoder skips line ends
        except (binascii.Error, ValueError):
            yield invalid(f"{path}[{key}]", text[:64], "illegal base64 data")
    if size > LARGEST:
        yield FieldError(whole, "FieldValueTooLong", "", f"may not be more than {LARGEST} bytes")


# Rules of resource claims and resource slices.

_MOST_SELECTORS = 32
_VARIABLES = frozenset(("device",))


def validate_resource_claim(claim: devices.ResourceClaim, old: devices.ResourceClaim | None) -> Iterator[FieldError]:
    """Named requests, each for one thing or for one of several; the spec stays as it is."""
    yield from _requests(claim.spec, "spec")
    if old is not None and claim.spec != old.spec:
        yield invalid("spec", claim.spec, "field is immutable")


def validate_resource_claim_template(
    template: devices.ResourceClaimTemplate, old: devices.ResourceClaimTemplate | None
) -> Iterator[FieldError]:
    """The rules of the claims that are made from it; it stays as it is."""
    yield from _requests(template.spec.spec, "spec.spec")
    if old is not None and template.spec != old.spec:
        yield invalid("spec", template.spec, "field is immutable")


def _requests(spec: devices.ResourceClaimSpec, where: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, request in enumerate(spec.devices.requests or ()):
        path = f"{where}.devices.requests[{index}]"
        if not request.name:
            yield required(f"{path}.name")
        elif request.name in seen:
            yield FieldError(f"{path}.name", "FieldValueDuplicate", request.name)
        seen.add(request.name)
        if (request.exactly is None) == (not request.first_available):
            yield invalid(path, request, "exactly one of `exactly` or `firstAvailable` is required")
        if request.exactly is not None:
            yield from _request(request.exactly, f"{path}.exactly")
        for at, alternative in enumerate(request.first_available or ()):
            yield from _request(alternative, f"{path}.firstAvailable[{at}]")


def _request(request: devices.ExactDeviceRequest | devices.DeviceSubRequest, path: str) -> Iterator[FieldError]:
    if not request.device_class_name:
        yield required(f"{path}.deviceClassName")
    yield from _selectors(request.selectors, f"{path}.selectors")
    yield from meta.one_of(f"{path}.allocationMode", request.allocation_mode, ("All", "ExactCount"))
    if request.allocation_mode == "ExactCount":
        yield from meta.at_least(f"{path}.count", request.count, 1)
    elif request.count:
        yield invalid(f"{path}.count", request.count, "must not be specified when allocationMode is 'All'")


def validate_device_class(device_class: devices.DeviceClass, old: devices.DeviceClass | None) -> Iterator[FieldError]:
    """Its selectors can be compiled."""
    del old
    yield from _selectors(device_class.spec.selectors, "spec.selectors")


def _selectors(selectors: Sequence[devices.DeviceSelector] | None, path: str) -> Iterator[FieldError]:
    given = selectors or ()
    if len(given) > _MOST_SELECTORS:
        yield FieldError(path, "FieldValueTooMany", len(given), f"must have at most {_MOST_SELECTORS} items")
        return
    for index, selector in enumerate(given):
        at = f"{path}[{index}].cel"
        if selector.cel is None:
            yield required(at)
            continue
        text = selector.cel.expression
        if not text:
            yield required(f"{at}.expression")
        elif len(text) > LONGEST:
            yield too_long(f"{at}.expression", "", LONGEST)
        else:
            try:
                compile_expression(text, _VARIABLES)
            except CompileError as error:
                yield invalid(f"{at}.expression", text, f"compilation failed: {error}")


def validate_resource_slice(
    resource_slice: devices.ResourceSlice, old: devices.ResourceSlice | None
) -> Iterator[FieldError]:
    """A driver, a pool, and one way to say which nodes."""
    spec = resource_slice.spec
    if not spec.driver:
        yield required("spec.driver")
    if not spec.pool.name:
        yield required("spec.pool.name")
    yield from meta.at_least("spec.pool.resourceSliceCount", spec.pool.resource_slice_count or 0, 1)
    ways = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
    if sum(bool(way) for way in ways) != 1:
        text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        yield invalid("spec", spec, text)
    for path, before, after in (
        ("spec.driver", old and old.spec.driver, spec.driver),
        ("spec.pool.name", old and old.spec.pool.name, spec.pool.name),
        ("spec.nodeName", old and old.spec.node_name, spec.node_name),
    ):
        if old is not None and before != after:
            yield invalid(path, after, "field is immutable")
