"""Quantities of built-in kinds are stored in canonical form, as Kubernetes stores them."""

from __future__ import annotations

from unisono.api.core.container import ResourceRequirements
from unisono.api.fields import Quantity, ResourceList
from unisono.api.quantity import QuantityError, canonical


def canonical_or_same(quantity: Quantity) -> Quantity:
    """Canonical text, or the value as it is when it is no quantity (validation says so later)."""
    try:
        return canonical(quantity)
    except QuantityError:
        return quantity


def canonical_map(resources: ResourceList | None) -> None:
    """Rewrite the values in place."""
    for name, quantity in (resources or {}).items():
        resources[name] = canonical_or_same(quantity)  # type: ignore[index]


def default_requests(resources: ResourceRequirements) -> None:
    """A limit without a request is its own request."""
    if resources.limits:
        requests = resources.requests or {}
        resources.requests = requests | {
            name: limit for name, limit in resources.limits.items() if name not in requests
        }
