"""Match conditions: requests that neither a webhook nor a policy needs to see, in CEL."""

from __future__ import annotations

from typing import Any

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
    return {"name": "not-being-deleted", "expression": f"{_NEW} == null || !has({_NEW}.metadata.deletionTimestamp)"}


def not_made_by(account: str, namespace: str) -> dict[str, Any]:
    """Objects that the service account makes for another object of ours, which was checked itself."""
    user = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{account}'"
    owned = f"has({_NEW}.metadata.ownerReferences)"
    group = f"{_NEW}.metadata.ownerReferences.exists(o, o.apiVersion.startsWith('batch.volcano.sh/'))"
    return {"name": "not-of-a-checked-job", "expression": f"!({user} && {owned} && {group})"}


def _differs(path: str) -> str:
    old, new = f"{_OLD}.{path}", f"{_NEW}.{path}"
    return f"has({old}) != has({new}) || (has({new}) && {new} != {old})"
