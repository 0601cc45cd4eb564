"""Rules of limit ranges."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from unisono.api.core.limits import LimitRange, LimitRangeItem
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.quantity import canonical, parse_quantity, to_milli
from unisono.api.validation.quantities import is_extended, validate_resource_map

TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_FIELDS = (
    ("max", "max"),
    ("min", "min"),
    ("default", "default"),
    ("default_request", "defaultRequest"),
    ("max_limit_request_ratio", "maxLimitRequestRatio"),
)


def validate_limit_range(limits: LimitRange, old: LimitRange | None) -> Iterator[FieldError]:
    """Every type once, amounts in order: min, default request, default, max."""
    seen: set[str] = set()
    for index, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{index}]"
        if not item.type:
            yield required(f"{path}.type")
        elif item.type not in TYPES and "/" not in item.type:
            yield invalid(f"{path}.type", item.type, "must be a standard limit type or fully qualified")
        if item.type in seen:
            yield duplicate(f"{path}.type", item.type)
        seen.add(item.type)
        yield from _item(item, path)


def _item(item: LimitRangeItem, path: str) -> Iterator[FieldError]:
    broken = False
    for attribute, name in _FIELDS:
        for error in validate_resource_map(getattr(item, attribute), f"{path}.{name}"):
            broken = True
            yield error
    if item.type == "Pod":
        if item.default:
            yield forbidden(f"{path}.default", "may not be specified when `type` is 'Pod'")
        if item.default_request:
            yield forbidden(f"{path}.defaultRequest", "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in {**(item.min or {}), **(item.max or {})}:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    if broken:
        return
    found = {name: getattr(item, attribute) or {} for attribute, name in _FIELDS}
    for resource in sorted({resource for amounts in found.values() for resource in amounts}):
        texts = {name: canonical(amounts[resource]) for name, amounts in found.items() if resource in amounts}
        yield from _order(texts, path, resource)
        yield from _ratio(texts, path, resource)


# Lower field, upper field, the field that is blamed, whose value is shown, and how Kubernetes words it.
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _order(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    for lower, upper, blamed, shown, wording in _ORDER:
        if lower in texts and upper in texts and parse_quantity(texts[lower]) > parse_quantity(texts[upper]):
            detail = wording.format(texts[lower], texts[upper])
            yield invalid(f"{path}.{blamed}[{resource}]", texts[shown], detail)
    limit, request = texts.get("default"), texts.get("defaultRequest")
    fixed = is_extended(resource) or resource.startswith("hugepages-")
    if fixed and limit is not None and request is not None and parse_quantity(limit) != parse_quantity(request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
        yield invalid(f"{path}.defaultRequest[{resource}]", request, detail)


def _ratio(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    ratio = texts.get("maxLimitRequestRatio")
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{resource}]"
    if parse_quantity(ratio) < 1:
        yield invalid(where, ratio, f"ratio {ratio} is less than 1")
    if "min" in texts and "max" in texts and to_milli(texts["min"]) > 0:
        most = Fraction(to_milli(texts["max"]), to_milli(texts["min"]))
        if parse_quantity(ratio) > most:
            yield invalid(where, ratio, f"ratio {ratio} is greater than max/min = {float(most):f}")
