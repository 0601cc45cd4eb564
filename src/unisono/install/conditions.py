"""Match conditions: requests that neither a webhook nor a policy needs to see, in CEL."""

from __future__ import annotations

from typing import Any

from unisono.api.kinds import JOBS
from unisono.api.seal import sealed

_OLD, _NEW = "oldObject", "object"


def changed(*, annotations: bool = False) -> dict[str, Any]:
    """The object is new or going, or its content changes.

    Statuses of kinds without a subresource for them, finalizers and labels are written far more often than specs.

    Args:
        annotations: they say something as well.

    """
    parts = ["request.operation != 'UPDATE'", _differs("spec")]
    if annotations:
        parts.append(_differs("metadata.annotations"))
    return {"name": "changed", "expression": " || ".join(parts)}


def staying() -> dict[str, Any]:
    """The object is not on its way out: one that is must get there, whatever it looks like."""
    # A new object is not on its way out, though its author may say so.
    leaves = f"has({_NEW}.metadata.deletionTimestamp)"
    return {"name": "not-being-deleted", "expression": f"request.operation != 'UPDATE' || !{leaves}"}


def not_made_by(account: str, namespace: str) -> dict[str, Any]:
    """Objects that the service account makes for another object of ours, which was checked itself."""
    user = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{account}'"
    owned = f"has({_NEW}.metadata.ownerReferences)"
    group = f"{_NEW}.metadata.ownerReferences.exists(o, o.apiVersion.startsWith('batch.volcano.sh/'))"
    return {"name": "not-of-a-checked-job", "expression": f"!({user} && {owned} && {group})"}


def unsealed() -> dict[str, Any]:
    """Not a new Job that the review which completed it has checked, and that is still as it was then."""
    new = f"request.operation == 'CREATE' && request.resource.resource == '{JOBS.plural}'"
    return {"name": "not-checked-yet", "expression": f"!({new} && {sealed(_NEW)})"}


def _differs(path: str) -> str:
    old, new = f"{_OLD}.{path}", f"{_NEW}.{path}"
    return f"has({old}) != has({new}) || (has({new}) && {new} != {old})"
