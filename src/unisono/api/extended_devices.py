"""Extended resources that device classes serve (dynamic resource allocation), and the claims that stand for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from unisono.api import core
from unisono.api.resources import resource_list

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""With the name of a class behind it, a resource that every class serves."""

EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of claims that stand for limits of a pod."""

MOST_DEVICES = 32
"""Devices of one claim."""


class TooManyDevices(ValueError):
    """A pod asks for more devices than a claim can have."""


def on_node(one: core.ResourceSlice, node: str) -> core.ResourceSlice:
    """The slice of a node with the same devices."""
    name = f"{one.metadata.name}-{node}"
    spec = replace(one.spec, node_name=node, pool=replace(one.spec.pool, name=f"{one.spec.pool.name}-{node}"))
    return replace(one, metadata=replace(one.metadata, name=name, uid=name, owner_references=None), spec=spec)


def classes_by_resource(classes: Iterable[core.DeviceClass]) -> dict[str, core.DeviceClass]:
    """The class that serves each extended resource: of several the newest, of equally old ones the first by name."""
    by_resource: dict[str, core.DeviceClass] = {}
    for one in sorted(classes, key=lambda each: each.metadata.name):
        by_resource[IMPLICIT_PREFIX + one.metadata.name] = one
        name = one.spec.extended_resource_name
        if not name:
            continue
        before = by_resource.get(name)
        if before is None or (one.metadata.creation_timestamp or "") > (before.metadata.creation_timestamp or ""):
            by_resource[name] = one
    return by_resource


def extended_requests(spec: core.PodSpec, served: Collection[str]) -> Iterator[tuple[str, str, str, int]]:
    """What a pod's containers ask of some resources.

    Args:
        spec: of the pod.
        served: names of resources.

    Yields:
        Name of the container, of the resource, and of the request of a claim; how many devices.
    """
    every = [*(spec.init_containers or ()), *(spec.containers or ())]
    for number, container in enumerate(every):
        amounts = resource_list(container.resources.requests) | resource_list(container.resources.limits)
        for at, name in enumerate(sorted(amounts)):
            if name in served and amounts[name] > 0:
                yield container.name, name, f"container-{number}-request-{at}", -(-amounts[name] // 1000)


def claim_spec(
    spec: core.PodSpec, served: Mapping[str, core.DeviceClass]
) -> tuple[core.ResourceClaimSpec, list[core.ContainerExtendedResourceRequest]] | None:
    """The claim that stands for a pod's extended resources, and which request backs what; None without any.

    Raises:
        TooManyDevices: a claim cannot have as many.
    """
    requests: list[core.DeviceRequest] = []
    mappings: list[core.ContainerExtendedResourceRequest] = []
    total = 0
    for container, resource, name, count in extended_requests(spec, served):
        total += count
        if total > MOST_DEVICES:
            raise TooManyDevices(f"the pod asks for more than {MOST_DEVICES} devices, and a claim can have no more")
        exactly = core.ExactDeviceRequest(
            device_class_name=served[resource].metadata.name, allocation_mode="ExactCount", count=count
        )
        requests.append(core.DeviceRequest(name=name, exactly=exactly))
        mappings.append(
            core.ContainerExtendedResourceRequest(container_name=container, resource_name=resource, request_name=name)
        )
    if not requests:
        return None
    return core.ResourceClaimSpec(devices=core.DeviceClaim(requests=requests)), mappings


def stands_for_limits(claim: core.ResourceClaim) -> bool:
    """Whether a claim was made for extended resources of a pod."""
    return (claim.metadata.annotations or {}).get(EXTENDED_CLAIM) == "true"


def limit_claim(pod: core.Pod) -> str | None:
    """Name of the claim that stands for extended resources of the pod."""
    backed = pod.status.extended_resource_claim_status
    return backed.resource_claim_name if backed is not None else None


# What a ResourceClaim asks for.


def device_classes(claim: core.ResourceClaim) -> tuple[str, ...]:
    """The device classes that its requests name, in order, also those of ``firstAvailable``."""
    class_names: dict[str, None] = {}
    for request in claim.spec.devices.requests or ():
        given = [request.exactly] if request.exactly is not None else list(request.first_available or ())
        class_names.update((one.device_class_name, None) for one in given)
    return tuple(class_names)
