"""Match conditions: requests that neither a webhook nor a policy needs to see, in CEL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from unisono.api.annotations import ADMITTED_QUEUES
from unisono.api.keys import POD_QUEUE, QUEUE_NAME
from unisono.api.kinds import JOBS
from unisono.api.seal import sealed
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import steps

_Tree: TypeAlias = dict[tuple[str, bool], Any]
_ADMITTED = f"metadata.annotations[{ADMITTED_QUEUES}]"
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


def naming(kinds: Iterable[JobKind]) -> dict[str, Any]:
    """The object names a queue somewhere, or says what its author was let use."""
    tree: _Tree = {}
    for place in dict.fromkeys(place for kind in kinds for place in (*kind.places, _ADMITTED)):
        at = tree
        for step in steps(place):
            at = at.setdefault(step, {})
    return {"name": "names-a-queue", "expression": _leads_anywhere(tree, _NEW, 0)}


def renaming() -> dict[str, Any]:
    """It is new, or what may name a queue changes: others annotate it far more often."""
    noted = " || ".join(
        f"{_text(_NEW, of, key)} != {_text(_OLD, of, key)}"
        for of, key in (
            *((of, key) for of in ("annotations", "labels") for key in (POD_QUEUE, QUEUE_NAME)),
            ("annotations", ADMITTED_QUEUES),
        )
    )
    return {"name": "names-another", "expression": f"request.operation != 'UPDATE' || {_differs('spec')} || {noted}"}


def not_of_operators() -> dict[str, Any]:
    """Not what an operator makes for another object, which was looked at itself."""
    user = "request.userInfo.username"
    made_by = f"({user}.startsWith('system:serviceaccount:') || {user} == 'system:kube-controller-manager')"
    owned = f"has({_NEW}.metadata.ownerReferences) && {_NEW}.metadata.ownerReferences.exists"
    controlled = f"{owned}(o, has(o.controller) && o.controller)"
    return {"name": "not-of-an-operator", "expression": f"!({made_by} && {controlled})"}


def not_of_components(namespace: str) -> dict[str, Any]:
    """Components of the installation act for the authors of what they make objects of."""
    group = f"system:serviceaccounts:{namespace}"
    return {"name": "not-of-a-component", "expression": f"!('{group}' in request.userInfo.groups)"}


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


def _text(obj: str, of: str, key: str) -> str:
    notes = f"{obj}.metadata.{of}"
    return f"(has({notes}) && '{key}' in {notes} ? {notes}['{key}'] : '')"


def _leads_anywhere(tree: _Tree, value: str, depth: int) -> str:
    """Whether one of the paths in a tree leads to something."""
    found = []
    for (name, inside), below in tree.items():
        if name == "*":
            entry = f"x{depth}"
            within = _leads_anywhere(below, entry if inside else f"{value}[{entry}]", depth + 1)
            found.append(f"{value}.exists({entry}, {within})")
            continue
        there = f"'{name}' in {value}" if inside else f"has({value}.{name})"
        at = f"{value}['{name}']" if inside else f"{value}.{name}"
        found.append(f"({there} && {_leads_anywhere(below, at, depth)})" if below else there)
    return found[0] if len(found) == 1 else f"({' || '.join(found)})"


def _differs(path: str) -> str:
    old, new = f"{_OLD}.{path}", f"{_NEW}.{path}"
    return f"has({old}) != has({new}) || (has({new}) && {new} != {old})"
