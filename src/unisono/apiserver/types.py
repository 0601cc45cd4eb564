"""Options that come with a request and answers that go back: between the service and what sits on top of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from unisono.errors import ApiError, Invalid

FieldValidation = Literal["Ignore", "Warn", "Strict"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
PatchType = Literal["merge", "json", "strategic", "apply"]

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write.

    Attributes:
        dry_run: run every step but store nothing.
        field_validation: what to do with unknown fields: drop silently, drop with a warning, or refuse (400).
        field_manager: name of the writer, as kubectl sends it; recorded by server-side apply.
        force: server-side apply takes over the fields of other managers.
        user: authenticated user name, for admission; empty for the server's own writes.
        groups: the user's groups.
        track_fields: record the creator of a new object in ``managedFields``; without it nothing is recorded for
            that object until a client applies to it.
    """

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    field_manager: str = ""
    force: bool = False
    user: str = ""
    groups: tuple[str, ...] = ()
    track_fields: bool = True


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        grace_period_seconds: None leaves it to the object (a pod's own grace period); 0 removes at once.
        propagation_policy: Background (default), Foreground or Orphan.
        uid: only this incarnation, else 409.
        resource_version: only this version, else 409.
        user: authenticated user name, for admission; empty for the server itself.
        groups: the user's groups.
    """

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    user: str = ""
    groups: tuple[str, ...] = ()

    @classmethod
    def from_body(cls, body: Mapping[str, Any] | None, *, dry_run: bool = False, user: str = "") -> DeleteOptions:
        """Read a ``DeleteOptions`` body (decoded JSON, or None).

        Raises:
            ApiError: 400 when a field has the wrong type.
            Invalid: two fields contradict each other, the policy is unknown, or ``dryRun`` has a value besides ``All``.
        """
        body = body or {}
        preconditions = body.get("preconditions")
        if preconditions is None:
            preconditions = {}
        if not isinstance(preconditions, Mapping):
            raise _bad("preconditions: Invalid value: must be an object")
        grace = body.get("gracePeriodSeconds")
        if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
            raise _bad(f"gracePeriodSeconds: Invalid value: {grace!r}: must be an integer")
        policy = _text(body.get("propagationPolicy"), "propagationPolicy")
        if policy not in (None, *_POLICIES):
            supported = ", ".join(f'"{each}"' for each in (*_POLICIES, "nil"))
            detail = f'Unsupported value: "{policy}": supported values: {supported}'
            raise _invalid("propagationPolicy", detail, "FieldValueNotSupported")
        if body.get("orphanDependents") is not None:
            if policy is not None:
                why = "orphanDependents and deletionPropagation cannot be both set"
                raise _invalid("propagationPolicy", f'Invalid value: "{policy}": {why}', "FieldValueInvalid")
            policy = "Orphan" if body["orphanDependents"] else "Background"
        return cls(
            dry_run=dry_run or _dry_run(body.get("dryRun")),
            grace_period_seconds=grace,
            propagation_policy=policy,
            uid=_text(preconditions.get("uid"), "preconditions.uid"),
            resource_version=_text(preconditions.get("resourceVersion"), "preconditions.resourceVersion"),
            user=user,
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Answer of a write: the object as stored (or as it would be), whether it is new, and warnings for the user."""

    object: bytes
    created: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Deleted:
    """Answer of a delete: exactly one of both is set.

    Attributes:
        object: the object, when it stays for a while (finalizers, grace) or when its kind answers with itself.
        details: ``details`` of the Success Status (name, group, kind, uid) otherwise.
    """

    object: bytes | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, sorted by namespace and name.

    Attributes:
        items: encoded objects, each made when it is asked for.
        resource_version: of the snapshot that all pages of this list show.
        continue_token: asks for the next page; empty on the last.
        remaining: objects after this page; None with selectors and on the last page.
    """

    items: Sequence[bytes]
    resource_version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One watch event; a BOOKMARK's object has kind, apiVersion and metadata.resourceVersion only."""

    type: EventType
    object: bytes
    resource_version: int


def dry_run_of(values: Sequence[str], kind: str) -> bool:
    """Whether ``dryRun`` wants nothing to be stored; any value but ``All`` is refused: a typing error must not store.

    Args:
        values: what was given.
        kind: of the options, such as ``DeleteOptions``.

    Raises:
        Invalid: another value than ``All``.
    """
    if any(value != "All" for value in values):
        shown = msgspec.json.encode(list(values)).decode()
        detail = f'Unsupported value: {shown}: supported values: "All"'
        raise _invalid("dryRun", detail, "FieldValueNotSupported", kind)
    return bool(values)


def _dry_run(given: Any) -> bool:
    if given is None:
        return False
    if not isinstance(given, list) or not all(isinstance(value, str) for value in given):
        raise _bad(f"dryRun: Invalid value: {given!r}: must be a list of strings")
    return dry_run_of(given, "DeleteOptions")


def _invalid(name: str, detail: str, reason: str, kind: str = "DeleteOptions") -> Invalid:
    causes = [{"reason": reason, "message": detail, "field": name}]
    details = {"group": "meta.k8s.io", "kind": kind, "causes": causes}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {name}: {detail}', details=details)


def _bad(message: str) -> ApiError:
    return ApiError(message, code=400, reason="BadRequest")


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _bad(f"{where}: Invalid value: {value!r}: must be a string")
