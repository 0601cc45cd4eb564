"""What a ResourceClaim asks for."""

from __future__ import annotations

from unisono.api.core import ResourceClaim


def device_classes(claim: ResourceClaim) -> tuple[str, ...]:
    """The device classes that its requests name, in order, also those of ``firstAvailable``."""
    found: dict[str, None] = {}
    for request in claim.spec.devices.requests or ():
        given = [request.exactly] if request.exactly is not None else list(request.first_available or ())
        found.update((one.device_class_name, None) for one in given)
    return tuple(found)
