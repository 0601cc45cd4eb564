"""What a URL asks for: Kubernetes' paths, and query parameters as Kubernetes reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import unquote

from unisono.apiserver.failures import bad_request
from unisono.apiserver.tables.render import IncludeObject
from unisono.apiserver.types import DeleteOptions, FieldValidation, PatchType, WriteOptions, dry_run_of
from unisono.errors import ApiError, Invalid

# Kubernetes URLs are regular: one function takes them apart.

_NAMESPACE_SUBRESOURCES = {"status", "finalize"}
_MAX_PARTS = 3


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A URL below ``/api`` or ``/apis`` that names a resource.

    Attributes:
        group: API group, ``""`` for core.
        version: API version.
        namespace: the namespace in the URL; None for cluster-scoped resources and for all namespaces.
        resource: plural name.
        name: object name; None for the collection.
        subresource: for example ``status``; ``""`` for the object itself.
    """

    group: str
    version: str
    namespace: str | None
    resource: str
    name: str | None = None
    subresource: str = ""


def split(raw_path: str) -> list[str]:
    """Decoded segments of a path; a trailing slash adds none."""
    return [unquote(part) for part in raw_path.strip("/").split("/")] if raw_path.strip("/") else []


def parse(parts: list[str]) -> ResourcePath | None:
    """Read the segments of a resource URL; None for discovery and for paths that cannot name a resource."""
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not all(rest):
        return None
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (rest[2] in _NAMESPACE_SUBRESOURCES and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _MAX_PARTS:
        return None
    name = rest[1] if len(rest) > 1 else None
    return ResourcePath(group, version, namespace, rest[0], name, rest[2] if len(rest) > 2 else "")


Query = Mapping[str, str]
# A watch without a time-out ends after this long: clients reconnect, and nothing is held for ever.
DEFAULT_WATCH_SECONDS = 3600.0

_LONGEST_MANAGER = 128
_INCLUDE = ("None", "Metadata", "Object")
_MATCHES = ("Exact", "NotOlderThan")
_VALIDATIONS = ("Ignore", "Strict", "Warn")


def flag(query: Query, name: str) -> bool:
    """True for a parameter that is given and neither ``false`` nor ``0`` nor empty."""
    return query.get(name, "").lower() not in {"", "false", "0"}


def integer(query: Query, name: str) -> int | None:
    """A whole number; None when not given.

    Raises:
        ApiError: 400 when it is not a number.
    """
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax (parameter {name})') from None


def exact_version(query: Query) -> bool:
    """Whether a list must show exactly ``resourceVersion`` (``resourceVersionMatch``).

    Raises:
        Invalid: the parameters do not fit each other.
    """
    match = query.get("resourceVersionMatch", "")
    if query.get("sendInitialEvents"):
        raise _forbidden_option("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return False
    if not query.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _forbidden_option("resourceVersionMatch", why)
    if query.get("continue"):
        raise _forbidden_option("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if match not in _MATCHES:
        raise _unsupported_option("resourceVersionMatch", match, (*_MATCHES, ""))
    if match == "Exact" and query["resourceVersion"] == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden_option("resourceVersionMatch", why)
    return match == "Exact"


def check_watch(query: Query) -> None:
    """Refuse a watch whose parameters do not fit each other.

    Raises:
        Invalid: they do not.
    """
    match = query.get("resourceVersionMatch", "")
    if "sendInitialEvents" in query and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden_option("resourceVersionMatch", why)
    if match and "sendInitialEvents" not in query:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _forbidden_option("resourceVersionMatch", why)


def watch_seconds(query: Query) -> float:
    """How long a watch lasts."""
    seconds = integer(query, "timeoutSeconds")
    return float(seconds) if seconds and seconds > 0 else DEFAULT_WATCH_SECONDS


def include_object(query: Query) -> IncludeObject:
    """What table rows carry."""
    value = query.get("includeObject", "") or "Metadata"
    if value not in _INCLUDE:
        raise bad_request(f'unrecognized includeObject value: "{value}"')
    return cast(IncludeObject, value)


def write_options(
    query: Query,
    user: str,
    user_agent: str,
    operation: Literal["Create", "Update", "Patch"],
    patch_type: PatchType | None = None,
) -> WriteOptions:
    """The options of a create, update or patch.

    Raises:
        Invalid: an option has a value that Kubernetes does not know.
    """
    manager = _field_manager(query, operation)
    if patch_type == "apply" and not manager:
        detail = "Required value: is required for apply patch"
        raise _invalid_option(operation, "fieldManager", detail, "FieldValueRequired")
    if patch_type not in (None, "apply") and "force" in query:
        detail = "Forbidden: may not be specified for non-apply patch"
        raise _invalid_option(operation, "force", detail, "FieldValueForbidden")
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in _VALIDATIONS:
        supported = ", ".join(f'"{value}"' for value in _VALIDATIONS)
        detail = f'Unsupported value: "{validation}": supported values: {supported}'
        raise _invalid_option(operation, "fieldValidation", detail, "FieldValueNotSupported")
    return WriteOptions(
        dry_run=dry_run(query, operation),
        field_validation=cast(FieldValidation, validation),
        field_manager=manager or _manager_of(user_agent),
        force=flag(query, "force"),
        user=user,
    )


def _field_manager(query: Query, operation: str) -> str:
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > _LONGEST_MANAGER:
        detail = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        raise _invalid_option(operation, "fieldManager", detail, "FieldValueTooLong")
    for position, character in enumerate(manager):
        if not character.isprintable():
            shown = f"U+{ord(character):04X} (at position {position})"
            detail = f"Invalid value: {json.dumps(manager)}: invalid character {shown}"
            raise _invalid_option(operation, "fieldManager", detail, "FieldValueInvalid")
    return manager


def _manager_of(user_agent: str) -> str:
    """A client that gives no name is known by its program, as on a real server."""
    printable = "".join(character for character in user_agent.partition("/")[0] if character.isprintable())
    return printable[:_LONGEST_MANAGER]


def delete_options(query: Query, body: dict[str, Any] | None, user: str) -> DeleteOptions:
    """The options of a delete: of a body, or where there is none of the query; never of both, as in Kubernetes."""
    if body is not None:
        return DeleteOptions.from_body(body, user=user)
    given: dict[str, Any] = {}
    grace = integer(query, "gracePeriodSeconds")
    if grace is not None:
        given["gracePeriodSeconds"] = grace
    if query.get("propagationPolicy"):
        given["propagationPolicy"] = query["propagationPolicy"]
    if query.get("orphanDependents"):
        given["orphanDependents"] = flag(query, "orphanDependents")
    return DeleteOptions.from_body(given, dry_run=dry_run(query, "Delete"), user=user)


def dry_run(query: Query, operation: str) -> bool:
    """True for ``dryRun=All``.

    Raises:
        Invalid: another value.
    """
    value = query.get("dryRun")
    return dry_run_of([value], f"{operation}Options") if value else False


def _forbidden_option(name: str, why: str) -> ApiError:
    return _invalid_option("List", name, f"Forbidden: {why}", "FieldValueForbidden")


def _unsupported_option(name: str, value: str, known: tuple[str, ...]) -> ApiError:
    supported = ", ".join(f'"{each}"' for each in known)
    detail = f'Unsupported value: "{value}": supported values: {supported}'
    return _invalid_option("List", name, detail, "FieldValueNotSupported")


def _invalid_option(operation: str, name: str, detail: str, reason: str) -> ApiError:
    kind = f"{operation}Options"
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {name}: {detail}',
        details={
            "group": "meta.k8s.io",
            "kind": kind,
            "causes": [{"reason": reason, "message": detail, "field": name}],
        },
    )
