"""Rules of metadata, which all kinds share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from unisono.api import kinds, names
from unisono.api.annotations import ONE_OF, ONE_OF_BY
from unisono.api.base import LabelSelector, Object, ObjectMeta, Quantity, ResourceList
from unisono.api.core import Node
from unisono.api.core.container import ResourceRequirements
from unisono.api.core.refs import LocalObjectReference
from unisono.api.decode import QUANTITY_RULE, FieldShape, Shape, shape_of
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required, too_long
from unisono.api.gang_affinity import WORDS, wishes_of
from unisono.api.kind import Kind
from unisono.api.one_of import NodeKind, kinds_of, way_of
from unisono.api.quantity import QuantityError, canonical, format_bytes, parse_quantity, to_int, to_milli
from unisono.api.resources import LARGEST, is_bytes

# Constraints of the generated schema (minimum, pattern, enum, lengths, required), as an API server checks a CRD's.

_WHOLE_THOUSANDTHS: Final = LARGEST // 1000


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("$", r"\Z"), re.ASCII)


def validate_shape(shape: Shape, value: Any, path: str = "") -> Iterator[FieldError]:
    """Walk a struct (or a list, map or scalar in it) along its shape."""
    match shape.kind:
        case "object":
            yield from _object(shape, value, path)
        case "array":
            if shape.item is not None and shape.item.constrained:
                for index, each in enumerate(value):
                    yield from validate_shape(shape.item, each, f"{path}[{index}]")
        case "map":
            if shape.item is not None and shape.item.constrained:
                for key, each in value.items():
                    yield from validate_shape(shape.item, each, f"{path}[{key}]")
        case "string":
            yield from _text(shape.rules, value, path)
        case "integer":
            yield from _integer(shape.rules, value, path)
        case _:
            return


def _object(shape: Shape, value: Any, path: str) -> Iterator[FieldError]:
    for name, entry in shape.fields.items():
        below = getattr(value, entry.attribute)
        at = f"{path}.{name}" if path else name
        if entry.required and not below:
            yield required(at)
        elif below is not None and entry.shape.constrained:
            # The empty string is how a struct says that a plain str field is absent.
            if below == "" and not entry.required:
                continue
            yield from validate_shape(entry.shape, below, at)


def _text(rules: Mapping[str, Any], value: str, path: str) -> Iterator[FieldError]:
    if "enum" in rules and value not in rules["enum"]:
        yield not_supported(path, value, rules["enum"])
    if "maxLength" in rules and len(value) > rules["maxLength"]:
        yield too_long(path, value, rules["maxLength"])
    if "minLength" in rules and len(value) < rules["minLength"]:
        yield invalid(path, value, f"{path} in body should be at least {rules['minLength']} chars long")
    if "pattern" in rules and not _pattern(rules["pattern"]).search(value):
        yield invalid(path, value, f"{path} in body should match '{rules['pattern']}'")


def _integer(rules: Mapping[str, Any], value: int, path: str) -> Iterator[FieldError]:
    if "minimum" in rules and value < rules["minimum"]:
        yield invalid(path, value, f"{path} in body should be greater than or equal to {rules['minimum']}")
    if "maximum" in rules and value > rules["maximum"]:
        yield invalid(path, value, f"{path} in body should be less than or equal to {rules['maximum']}")


def validate_bounds(struct: type[Object], obj: Object, old: Object | None) -> Iterator[FieldError]:
    """Quantities beyond `LARGEST`, with the path of each.

    What ``old`` says already may stay: an object that an earlier version admitted can still be changed and deleted. Of
    statuses only those of nodes are looked at; the others are sums that components write, and stop at the bound.
    """
    errors = list(_fields(struct, obj, ""))
    if errors and old is not None:
        previous = {error.message() for error in _fields(struct, old, "")}
        errors = [error for error in errors if error.message() not in previous]
    yield from errors


def _fields(struct: type[msgspec.Struct], value: Any, path: str) -> Iterator[FieldError]:
    for entry in _carriers(struct):
        below = getattr(value, entry.attribute)
        if below is not None and (path or entry.name != "status" or struct is Node):
            yield from _walk(entry.shape, below, f"{path}.{entry.name}" if path else entry.name, "storage")


def _walk(shape: Shape, value: Any, path: str, resource: str) -> Iterator[FieldError]:
    match shape.kind:
        case "quantity":
            yield from _amount(value, path, resource)
        case "map":
            if shape.item is not None:
                for key, each in value.items():
                    yield from _walk(shape.item, each, f"{path}[{key}]", key)
        case "array":
            if shape.item is not None:
                for index, each in enumerate(value):
                    yield from _walk(shape.item, each, f"{path}[{index}]", resource)
        case _:
            if shape.struct is not None:
                yield from _fields(shape.struct, value, path)


def _amount(quantity: Quantity, path: str, resource: str) -> Iterator[FieldError]:
    whole = is_bytes(resource) or resource == "pods"
    try:
        amount = to_int(quantity) if whole else to_milli(quantity)
    except QuantityError:
        return  # its own rule says so
    if amount > LARGEST:
        most = format_bytes(LARGEST) if whole and resource != "pods" else str(LARGEST if whole else _WHOLE_THOUSANDTHS)
        yield invalid(path, canonical(quantity), f"must be less than or equal to {most}")


@cache
def _carriers(struct: type[msgspec.Struct]) -> tuple[FieldShape, ...]:
    """Fields of a struct with quantities in them or below them."""
    return tuple(entry for entry in shape_of(struct).fields.values() if _carries(entry.shape))


def _carries(shape: Shape) -> bool:
    if shape.kind == "quantity":
        return True
    if shape.item is not None:
        return _carries(shape.item)
    return shape.struct is not None and bool(_carriers(shape.struct))


LARGEST_ANNOTATIONS = 256 * 1024
Check = Callable[[str], list[str]]

# Kinds whose names are more than a DNS subdomain, because something else is named after them.
_NAME_CHECKS: dict[type[Object], Check] = {
    kinds.NAMESPACES.struct: names.dns_label,
    kinds.SERVICES.struct: names.dns_1035_label,
    kinds.ROLES.struct: names.path_segment,
    kinds.ROLE_BINDINGS.struct: names.path_segment,
    kinds.CLUSTER_ROLES.struct: names.path_segment,
    kinds.CLUSTER_ROLE_BINDINGS.struct: names.path_segment,
}


def by(check: Check, path: str, value: str) -> Iterator[FieldError]:
    """``invalid`` for every problem that ``check`` finds."""
    for problem in check(value):
        yield invalid(path, value, problem)


def one_of(path: str, value: str | None, supported: tuple[str, ...]) -> Iterator[FieldError]:
    """Absent is fine (it has a default); otherwise the value must be in the list."""
    if value is not None and value not in supported:
        yield FieldError(path, "FieldValueNotSupported", value, f"supported values: {_quoted(supported)}")


def _quoted(values: tuple[str, ...]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def at_least(path: str, value: int | None, lowest: int) -> Iterator[FieldError]:
    """A lower bound."""
    if value is not None and value < lowest:
        yield invalid(path, value, f"must be greater than or equal to {lowest}")


def named(path: str, references: list[LocalObjectReference] | None) -> Iterator[FieldError]:
    """References need a name."""
    for index, reference in enumerate(references or ()):
        if not reference.name:
            yield required(f"{path}[{index}].name")


def validate_meta(kind: Kind[Any], meta: ObjectMeta) -> Iterator[FieldError]:
    """Rules of an object's metadata."""
    check = _NAME_CHECKS.get(kind.struct, names.dns_subdomain)
    if meta.generate_name:
        # A generated suffix follows, so a trailing hyphen or dot is fine.
        stem = meta.generate_name.rstrip("-.")
        yield from (invalid("metadata.generateName", meta.generate_name, each) for each in check(f"{stem}a"))
    if meta.name:
        yield from by(check, "metadata.name", meta.name)
    elif not meta.generate_name:
        yield required("metadata.name", "name or generateName is required")
    if meta.namespace and not kind.namespaced:
        yield forbidden("metadata.namespace", "not allowed on this type")
    elif meta.namespace:
        yield from by(names.dns_label, "metadata.namespace", meta.namespace)
    yield from at_least("metadata.generation", meta.generation, 0)
    yield from validate_template_meta(meta, "metadata")
    for finalizer in meta.finalizers or ():
        yield from by(names.qualified_name, "metadata.finalizers", finalizer)
    yield from _owners(meta)


def validate_template_meta(meta: ObjectMeta, path: str) -> Iterator[FieldError]:
    """Rules of labels and annotations, also within templates."""
    yield from validate_labels(meta.labels, f"{path}.labels")
    size = 0
    for key, value in (meta.annotations or {}).items():
        size += len(key.encode()) + len(value.encode())
        yield from (invalid(f"{path}.annotations", key, each) for each in names.qualified_name(key.lower()))
    if size > LARGEST_ANNOTATIONS:
        yield FieldError(
            f"{path}.annotations", "FieldValueTooLong", "", f"may not be more than {LARGEST_ANNOTATIONS} bytes"
        )


def validate_one_of(annotations: Mapping[str, str], path: str, *, remade: bool = False) -> Iterator[FieldError]:
    """The annotations by which a gang names kinds of nodes of which it takes one, also within templates of pods.

    ``remade``: a controller makes the pods again where they take other amounts of devices.
    """
    for key, read in ((ONE_OF, kinds_of), (ONE_OF_BY, way_of)):
        try:
            parsed = read(annotations.get(key, ""))
            if not remade and any(isinstance(each, NodeKind) and each.times != 1 for each in parsed):
                raise ValueError(
                    "only pods of a Job (batch.volcano.sh) are made again where they take other amounts of devices: "
                    "leave out the * and the number behind it"
                )
        except ValueError as error:
            yield invalid(f"{path}.annotations[{key}]", annotations[key], str(error))
    if ONE_OF_BY in annotations and ONE_OF not in annotations:
        yield invalid(f"{path}.annotations[{ONE_OF_BY}]", annotations[ONE_OF_BY], f"says nothing without {ONE_OF}")


def validate_between(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """The annotations that say where a gang stands in relation to other pods, also within templates of pods."""
    for word in WORDS:
        try:
            wishes_of(word, annotations.get(word, ""))
        except ValueError as error:
            yield invalid(f"{path}.annotations[{word}]", annotations[word], str(error))


def validate_labels(labels: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """Keys are qualified names, values label values."""
    for key, value in (labels or {}).items():
        yield from by(names.qualified_name, path, key)
        yield from by(names.label_value, path, value)


def _owners(meta: ObjectMeta) -> Iterator[FieldError]:
    controllers: list[str] = []
    path = "metadata.ownerReferences"
    for owner in meta.owner_references or ():
        if not owner.api_version.rpartition("/")[2]:
            yield invalid(f"{path}.apiVersion", owner.api_version, "version must not be empty")
        for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                yield invalid(f"{path}.{name}", value, "must not be empty")
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
    if len(controllers) > 1:
        detail = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield invalid("metadata.ownerReferences", controllers, detail)


_IMMUTABLE = ("name", "namespace", "uid", "creation_timestamp")
_WIRE = {"creation_timestamp": "creationTimestamp"}


def validate_meta_update(new: ObjectMeta, old: ObjectMeta) -> Iterator[FieldError]:
    """What an update may not change; fields that the new object leaves out are the server's to keep."""
    for attribute in _IMMUTABLE:
        value = getattr(new, attribute)
        if value and value != getattr(old, attribute):
            yield invalid(f"metadata.{_WIRE.get(attribute, attribute)}", value, "field is immutable")
    if old.deletion_timestamp:
        added = sorted(set(new.finalizers or ()) - set(old.finalizers or ()))
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", f"{detail}[]string{{{listed}}}")
    if new.generation is not None and old.generation is not None and new.generation < old.generation:
        yield invalid("metadata.generation", new.generation, "must not be decremented")


def validate_selector(selector: LabelSelector | None, path: str) -> Iterator[FieldError]:
    """Rules of a label selector."""
    if selector is None:
        return
    yield from validate_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions or ()):
        at = f"{path}.matchExpressions[{index}]"
        match requirement.operator:
            case "In" | "NotIn" if not requirement.values:
                yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            case "Exists" | "DoesNotExist" if requirement.values:
                yield forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            case "In" | "NotIn" | "Exists" | "DoesNotExist":
                pass
            case operator:
                yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        yield from by(names.qualified_name, f"{at}.key", requirement.key)
        for position, value in enumerate(requirement.values or ()):
            yield from by(names.label_value, f"{at}.values[{position}]", value)


# Rules of resource names and amounts.

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
