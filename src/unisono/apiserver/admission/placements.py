"""Where jobs of a hub are: only the hub says so; a user may take a job of his own back, and no more."""

from __future__ import annotations

from typing import Final

from unisono.api.annotations import CLUSTER, DISPATCH, GANG, SPLIT
from unisono.api.keys import MASTERS
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden
from unisono.jobkinds import registry

DISPATCHED: Final = frozenset(kind.resource for kind in registry.DISPATCHED)
"""Resources whose objects carry their place."""
_KEYS: Final = (CLUSTER, DISPATCH, GANG, SPLIT)


def keep(request: Request, _: View) -> None:
    """A new object has no place yet, whatever its author writes; nor do later writes of a user move it.

    A place that was written by hand would pass by the limits of queues and the drain of members.

    Raises:
        ApiError: 403 when a user sends a job to a member.

    """
    if request.operation not in ("CREATE", "UPDATE"):
        return
    meta = request.object.metadata
    given = meta.annotations or {}
    before: dict[str, str] = {}
    if request.operation == "UPDATE":
        if not request.user or MASTERS in request.groups:
            return
        before = request.old.metadata.annotations or {}
    if all(given.get(key) == before.get(key) for key in _KEYS) or _takes_back(before, given):
        return
    if request.operation == "UPDATE" and given.get(CLUSTER) not in (None, before.get(CLUSTER)):
        why = f"metadata.annotations[{CLUSTER}]: the hub chooses the member; remove it to have the job wait again"
        raise forbidden(request.kind, request.name, why)
    kept = {key: before[key] for key in _KEYS if key in before}
    meta.annotations = {**{key: each for key, each in given.items() if key not in _KEYS}, **kept} or None


def _takes_back(before: dict[str, str], given: dict[str, str]) -> bool:
    """The job was with a member, waits again, and its number is the next one."""
    number = before.get(DISPATCH, "")
    return (
        CLUSTER in before
        and CLUSTER not in given
        and number.isdecimal()
        and given.get(DISPATCH) == str(int(number) + 1)
        and all(given.get(key) == before.get(key) for key in (GANG, SPLIT))
    )
