"""Rules of resource names and amounts."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.container import ResourceRequirements
from unisono.api.decode import QUANTITY_RULE
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.fields import Quantity, ResourceList
from unisono.api.quantity import QuantityError, canonical, parse_quantity
from unisono.api.validation.meta import by

_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))


def is_standard(name: str) -> bool:
    """CPU, memory, ephemeral storage and huge pages: resources that every node knows."""
    return name in _STANDARD or name.startswith("hugepages-")


def is_extended(name: str) -> bool:
    """Vendor resources such as ``nvidia.com/gpu``, counted in whole units."""
    return "/" in name and not name.startswith("kubernetes.io/") and not name.startswith("requests.")


def validate_amount(path: str, quantity: Quantity) -> Iterator[FieldError]:
    """A quantity that is not negative."""
    try:
        amount = parse_quantity(quantity)
    except QuantityError:
        yield invalid(path, str(quantity), QUANTITY_RULE)
        return
    if amount < 0:
        yield invalid(path, canonical(quantity), "must be greater than or equal to 0")


def validate_resource_map(resources: ResourceList | None, path: str) -> Iterator[FieldError]:
    """Qualified names and amounts that are not negative."""
    for name, quantity in (resources or {}).items():
        yield from by(names.qualified_name, f"{path}[{name}]", name)
        yield from validate_amount(f"{path}[{name}]", quantity)


def validate_requirements(resources: ResourceRequirements, path: str, *, pod: bool = False) -> Iterator[FieldError]:
    """Requests and limits of a container, or of a whole pod."""
    sides = (("limits", resources.limits), ("requests", resources.requests))
    for side, amounts in sides:
        yield from _validate_side(amounts or {}, f"{path}.{side}", pod=pod)
    yield from _validate_pairs(resources, path)


def _validate_side(amounts: ResourceList, path: str, *, pod: bool) -> Iterator[FieldError]:
    for name, quantity in amounts.items():
        at = f"{path}[{name}]"
        problems = list(by(names.qualified_name, at, name))
        yield from problems
        if not problems and not is_standard(name):
            if pod:
                yield invalid(at, name, "must be a supported pod-level resource")
            elif "/" not in name:
                yield invalid(at, name, "must be a standard resource for containers")
        amount_errors = list(validate_amount(at, quantity))
        yield from amount_errors
        if not amount_errors and (is_extended(name) or name.startswith("hugepages-")):
            whole = parse_quantity(quantity)
            if whole.denominator != 1:
                yield invalid(at, canonical(quantity), "must be an integer")


def _validate_pairs(resources: ResourceRequirements, path: str) -> Iterator[FieldError]:
    limits, requests = resources.limits or {}, resources.requests or {}
    for name, request in requests.items():
        whole = is_extended(name) or name.startswith("hugepages-")
        if name not in limits:
            if whole:
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        limit = limits[name]
        try:
            asked, allowed = parse_quantity(request), parse_quantity(limit)
        except QuantityError:
            continue  # told already
        if whole and asked != allowed:
            detail = f"must be equal to {name} limit of {canonical(limit)}"
            yield invalid(f"{path}.requests", canonical(request), detail)
        elif asked > allowed:
            detail = f"must be less than or equal to {name} limit of {canonical(limit)}"
            yield invalid(f"{path}.requests", canonical(request), detail)
    huge = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if huge and not any(name in (*limits, *requests) for name in ("cpu", "memory")):
        yield forbidden(path, "HugePages require cpu or memory")
