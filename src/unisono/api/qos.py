"""Quality-of-service class of a pod."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.core.container import ResourceRequirements
from unisono.api.core.pod import PodSpec
from unisono.api.fields import Quantity
from unisono.api.quantity import QuantityError, parse_quantity

_COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort`` by CPU and memory (Kubernetes ``ComputePodQOS``).

    Pod-level resources decide where they are given, else all containers and init containers together.
    """
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        requirements = [spec.resources]
    else:
        requirements = [each.resources for each in (*(spec.containers or ()), *(spec.init_containers or ()))]
    pairs = [_pair(each) for each in requirements]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    guaranteed = all(set(limits) == set(_COUNTED) and requests == limits for requests, limits in pairs)
    return "Guaranteed" if guaranteed else "Burstable"


def _pair(resources: ResourceRequirements) -> tuple[dict[str, object], dict[str, object]]:
    limits = _positive(resources.limits)
    return limits | _positive(resources.requests), limits


def _positive(resources: Mapping[str, Quantity] | None) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in _COUNTED:
        try:
            amount = parse_quantity((resources or {}).get(name, 0))
        except QuantityError:
            continue
        if amount > 0:
            found[name] = amount
    return found
