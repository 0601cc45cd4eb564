"""Resource maps in engine units.

Units: ``cpu`` milli-cores; ``memory``, ``ephemeral-storage`` and ``hugepages-*`` bytes; ``pods`` whole; every other
resource milli-units. No amount is beyond `LARGEST`, and sums stop there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from unisono.api.base import Quantity
from unisono.api.core.container import Container, ResourceRequirements
from unisono.api.core.pod import PodSpec
from unisono.api.quantity import Rounding, format_bytes, format_milli, readable_bytes, readable_milli, to_int, to_milli

LARGEST: Final = 2**56
"""The largest amount of a resource in engine units: 64Pi bytes, or 7.2e13 of what is counted in thousandths.

More than a cluster of 30,000 nodes with 2Ti each has, and 128 of them still fit into an int64. Admission refuses larger
quantities (`unisono.api.validation.meta`); those of a cluster that admits them count as this.
"""

_BYTES = frozenset(("memory", "ephemeral-storage", "storage"))


def is_bytes(name: str) -> bool:
    """Is the resource counted in bytes (quota-style prefixes count: ``requests.memory``)."""
    short = name.removeprefix("requests.").removeprefix("limits.")
    return short in _BYTES or short.startswith("hugepages-") or name.endswith("/requests.storage")


def by_importance(resource: str) -> tuple[bool, bool, str]:
    """Sort key of resource names: cpu, memory, then the others by name; so no text depends on who came first."""
    return resource != "cpu", resource != "memory", resource


def to_units(name: str, quantity: Quantity) -> int:
    """One quantity in the engine unit of its resource, rounded up, and at most `LARGEST` either way."""
    amount = to_int(quantity) if is_bytes(name) or name == "pods" else to_milli(quantity)
    return max(-LARGEST, min(LARGEST, amount))


def resource_list(mapping: Mapping[str, Quantity] | None) -> dict[str, int]:
    """A wire resource map in engine units; ``None`` is empty.

    Raises:
        QuantityError: a value is not a quantity.
    """
    return {name: to_units(name, quantity) for name, quantity in (mapping or {}).items()}


def to_wire(resources: Mapping[str, int]) -> dict[str, str]:
    """Engine units back to canonical quantities: bytes with binary suffixes, the rest decimal."""
    return {name: _format(name, amount) for name, amount in resources.items()}


def _format(name: str, amount: int) -> str:
    if is_bytes(name):
        return format_bytes(amount)
    return str(amount) if name == "pods" else format_milli(amount)


_MANY = 100_000
"""Devices of which parts are not told any more, in engine units."""


def readable(resources: Mapping[str, int], rounding: Rounding = "nearest") -> dict[str, str]:
    """Engine units as quantities for people: bytes that are not even with two decimals (``28.25Gi``), rounded.

    Of a hundred devices and more the whole ones are told, such as 739 of a share of 739.142.
    """
    return {name: _readable(name, amount, rounding) for name, amount in resources.items()}


def amounts_text(amounts: Mapping[str, int], rounding: Rounding = "nearest", *, by: str = "") -> str:
    """``cpu 2, memory 4Gi`` from engine units; ``by`` stands before each amount."""
    texts = readable(amounts, rounding)
    return ", ".join(f"{name}{by} {texts[name]}" for name in sorted(texts, key=by_importance))


def _readable(name: str, amount: int, rounding: Rounding) -> str:
    if is_bytes(name):
        return readable_bytes(amount, rounding)
    if name == "pods":
        return str(amount)
    if "/" in name and amount >= _MANY:
        return str(-(-amount // 1000) if rounding == "up" else amount // 1000)
    return readable_milli(amount)


def effective_requests(resources: ResourceRequirements | None) -> dict[str, int]:
    """Requests in engine units, where a limit without a request is its own request."""
    if resources is None:
        return {}
    return resource_list(resources.limits) | resource_list(resources.requests)


def add(total: dict[str, int], other: Mapping[str, int]) -> None:
    """``total += other``, in place and at most `LARGEST`."""
    for name, amount in other.items():
        total[name] = min(total.get(name, 0) + amount, LARGEST)


def maximum(total: dict[str, int], other: Mapping[str, int]) -> None:
    """``total = max(total, other)`` per resource, in place."""
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """What a pod needs on its node, in engine units, without ``pods``.

    Sum of the containers and of the init containers that keep running (sidecars), at least the most demanding moment of
    initialisation, then pod-level requests where given, plus overhead (Kubernetes KEP-753, KEP-2837).
    """
    total: dict[str, int] = {}
    for container in spec.containers or ():
        add(total, effective_requests(container.resources))
    sidecars, peak = initialisation(
        spec.init_containers or (), lambda container: effective_requests(container.resources)
    )
    add(total, sidecars)
    maximum(total, peak)
    total |= _pod_level(spec.resources, total)
    add(total, resource_list(spec.overhead))
    return total


def initialisation(
    containers: Iterable[Container], needs: Callable[[Container], dict[str, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """What all sidecars need, and the peak while init containers run one after the other beside them."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        needed = needs(container)
        if container.restart_policy == "Always":
            add(sidecars, needed)
            maximum(peak, sidecars)
        else:
            add(needed, sidecars)
            maximum(peak, needed)
    return sidecars, peak


def _pod_level(resources: ResourceRequirements | None, containers: Mapping[str, int]) -> dict[str, int]:
    """Pod-level requests; a pod-level limit counts only where neither pod nor containers request the resource."""
    if resources is None:
        return {}
    limits = {name: amount for name, amount in resource_list(resources.limits).items() if name not in containers}
    return limits | resource_list(resources.requests)


def pod_limits(spec: PodSpec) -> dict[str, int]:
    """What a pod may use at most, in engine units; only resources that every running container limits are exact."""
    total: dict[str, int] = {}
    for container in spec.containers or ():
        add(total, resource_list(container.resources.limits))
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.init_containers or ():
        limits = resource_list(container.resources.limits)
        if container.restart_policy == "Always":
            add(sidecars, limits)
            maximum(peak, sidecars)
        else:
            add(limits, sidecars)
            maximum(peak, limits)
    add(total, sidecars)
    maximum(total, peak)
    if spec.resources is not None:
        total |= resource_list(spec.resources.limits)
    add(total, {name: amount for name, amount in resource_list(spec.overhead).items() if name in total})
    return total
