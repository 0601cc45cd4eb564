"""Rules of metadata, which all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unisono.api import kinds, names
from unisono.api.base import Object, ObjectMeta
from unisono.api.core.refs import LocalObjectReference
from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.kind import Kind
from unisono.api.meta import LabelSelector

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
