"""Dynamic resource allocation (resource.k8s.io/v1): ResourceClaim and its template, ResourceSlice, DeviceClass."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Condition, FreeObject, Object, ObjectMeta, Quantity, Required, ResourceList, Time
from unisono.api.core.pod import NodeSelector


class CELDeviceSelector(Base):
    """A CEL expression over ``device``."""

    expression: Required = ""


class DeviceSelector(Base):
    """Which devices are meant."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Base):
    """Device taints that a request endures."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class DeviceTaint(Base):
    """What keeps claims away from a device."""

    key: Required = ""
    value: str | None = None
    effect: Required = ""
    time_added: Time | None = None


class CapacityRequirements(Base):
    """Amounts of a device that may be shared."""

    requests: ResourceList | None = None


class ExactDeviceRequest(Base):
    """Devices of one class; ``allocation_mode`` is ExactCount (``count`` of them, 1 by default) or All."""

    device_class_name: Required = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Base):
    """One of several alternatives, the first of which is taken that is available."""

    name: Required = ""
    device_class_name: Required = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(Base):
    """What a claim asks for: exactly one thing, or the first available of several."""

    name: Required = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Base):
    """All devices of these requests (none named: of all) have the same value of an attribute, or each another."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Base):
    """Parameters for a driver."""

    driver: Required = ""
    parameters: FreeObject | None = None


class DeviceClaimConfiguration(Base):
    """Parameters of some requests."""

    requests: list[str] | None = None
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Base):
    """What devices are wanted."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None


class ResourceClaimSpec(Base):
    """What a claim asks for."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class DeviceRequestAllocationResult(Base):
    """One device that was given for a request (``request`` or ``request/subrequest``)."""

    request: Required = ""
    driver: Required = ""
    pool: Required = ""
    device: Required = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: ResourceList | None = None


class DeviceAllocationConfiguration(Base):
    """Parameters with where they come from: FromClass or FromClaim."""

    source: Required = ""
    requests: list[str] | None = None
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Base):
    """The devices of a claim."""

    results: list[DeviceRequestAllocationResult] | None = None
    config: list[DeviceAllocationConfiguration] | None = None


class AllocationResult(Base):
    """What a claim was given, and from where it can be used."""

    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Base):
    """A consumer of a claim: a pod."""

    api_group: str | None = None
    resource: Required = ""
    name: Required = ""
    uid: Required = ""


class AllocatedDeviceStatus(Base):
    """What a driver says of a device."""

    driver: Required = ""
    pool: Required = ""
    device: Required = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[Condition] | None = None
    data: FreeObject | None = None
    network_data: FreeObject | None = None


class ResourceClaimStatus(Base):
    """What was given, and who uses it."""

    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(Object):
    """A request for devices."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(Base):
    """The claim that is made for each pod that names the template."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(Object):
    """How to make a claim of a pod's own."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


class DeviceClassConfiguration(Base):
    """Parameters of every claim of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Base):
    """Which devices belong to a class."""

    selectors: list[DeviceSelector] | None = None
    config: list[DeviceClassConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object):
    """A named kind of devices."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class DeviceAttribute(Base):
    """One value; exactly one field is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class CapacityRequestPolicyRange(Base):
    """Amounts from ``min`` to ``max`` in steps of ``step`` from ``min`` on."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Base):
    """Which amounts may be consumed, and which one is where a request names none; a request is raised to the next."""

    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Base):
    """An amount that a device has."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Base):
    """An amount that several devices share."""

    value: Quantity = 0


class CounterSet(Base):
    """Named amounts that devices of a pool draw from."""

    name: Required = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(Base):
    """What a device draws from a counter set."""

    counter_set: Required = ""
    counters: dict[str, Counter] | None = None


class Device(Base):
    """One device of a slice."""

    name: Required = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Base):
    """The pool of a slice; only slices of the newest generation count, and only when all are there."""

    name: Required = ""
    generation: int | None = None
    resource_slice_count: int | None = None


class ResourceSliceSpec(Base):
    """Devices of a driver, and from which nodes they can be used."""

    driver: Required = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object):
    """A part of a pool of devices, as its driver announces it."""

    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)
