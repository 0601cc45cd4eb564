"""Rules of resource claims and resource slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unisono.api.cel import CompileError, compile_expression
from unisono.api.cel.syntax import LONGEST
from unisono.api.core.devices import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from unisono.api.field_error import FieldError, invalid, required, too_long
from unisono.api.validation.meta import at_least, one_of

_MOST_SELECTORS = 32
_VARIABLES = frozenset(("device",))


def validate_resource_claim(claim: ResourceClaim, old: ResourceClaim | None) -> Iterator[FieldError]:
    """Named requests, each for one thing or for one of several; the spec stays as it is."""
    yield from _requests(claim.spec, "spec")
    if old is not None and claim.spec != old.spec:
        yield invalid("spec", claim.spec, "field is immutable")


def validate_resource_claim_template(
    template: ResourceClaimTemplate, old: ResourceClaimTemplate | None
) -> Iterator[FieldError]:
    """The rules of the claims that are made from it; it stays as it is."""
    yield from _requests(template.spec.spec, "spec.spec")
    if old is not None and template.spec != old.spec:
        yield invalid("spec", template.spec, "field is immutable")


def _requests(spec: ResourceClaimSpec, where: str) -> Iterator[FieldError]:
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


def _request(request: ExactDeviceRequest | DeviceSubRequest, path: str) -> Iterator[FieldError]:
    if not request.device_class_name:
        yield required(f"{path}.deviceClassName")
    yield from _selectors(request.selectors, f"{path}.selectors")
    yield from one_of(f"{path}.allocationMode", request.allocation_mode, ("All", "ExactCount"))
    if request.allocation_mode == "ExactCount":
        yield from at_least(f"{path}.count", request.count, 1)
    elif request.count:
        yield invalid(f"{path}.count", request.count, "must not be specified when allocationMode is 'All'")


def validate_device_class(device_class: DeviceClass, old: DeviceClass | None) -> Iterator[FieldError]:
    """Its selectors can be compiled."""
    del old
    yield from _selectors(device_class.spec.selectors, "spec.selectors")


def _selectors(selectors: Sequence[DeviceSelector] | None, path: str) -> Iterator[FieldError]:
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


def validate_resource_slice(resource_slice: ResourceSlice, old: ResourceSlice | None) -> Iterator[FieldError]:
    """A driver, a pool, and one way to say which nodes."""
    spec = resource_slice.spec
    if not spec.driver:
        yield required("spec.driver")
    if not spec.pool.name:
        yield required("spec.pool.name")
    yield from at_least("spec.pool.resourceSliceCount", spec.pool.resource_slice_count or 0, 1)
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
