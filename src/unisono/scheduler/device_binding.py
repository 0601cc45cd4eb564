"""Devices that a driver has to attach before the pod is bound: what their conditions say (pure)."""

from __future__ import annotations

from unisono.api.core import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim

TIMEOUT_SECONDS = 600.0
"""For how long a driver may take, as in kube-scheduler."""


class BindingFailed(Exception):
    """A driver says that a device cannot be attached."""


def waits_for(claim: ResourceClaim) -> str:
    """What the first device that is not attached lacks; empty when the pod may be bound.

    Raises:
        BindingFailed: one of its failure conditions is true.

    """
    allocation = claim.status.allocation
    told = {(one.driver, one.pool, one.device, one.share_id): one for one in claim.status.devices or ()}
    missing = ""
    for result in (allocation.devices.results or ()) if allocation is not None else ():
        state = told.get((result.driver, result.pool, result.device, result.share_id))
        true = _true(state)
        failed = sorted(true.keys() & set(result.binding_failure_conditions or ()))
        if failed:
            raise BindingFailed(f"device {_name(result)} failed to bind: {failed[0]}{true[failed[0]]}")
        lacking = [name for name in result.binding_conditions or () if name not in true]
        missing = missing or (f"condition {lacking[0]} of device {_name(result)}" if lacking else "")
    return missing


def _true(state: AllocatedDeviceStatus | None) -> dict[str, str]:
    """Conditions that are true, with their message behind a colon."""
    conditions = (state.conditions or ()) if state is not None else ()
    return {one.type: f": {one.message}" if one.message else "" for one in conditions if one.status == "True"}


def _name(result: DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"
