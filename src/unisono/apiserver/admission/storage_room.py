"""No namespace stores more bytes than its share of the server's memory."""

from __future__ import annotations

from collections.abc import Callable

from unisono.api.base import Object
from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.api.kinds import EVENTS, LEASES
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.encoding import codec
from unisono.apiserver.failures import forbidden

_MIB = 1024 * 1024
# The control plane's own notes say what is wrong there, and keep what runs alive.
_NOTES = frozenset((EVENTS.resource, LEASES.resource))


def check(stored: Callable[[str], int], most: int, request: Request, _: View) -> None:
    """Refuse what makes a full namespace larger; what runs there goes on, and what shrinks or deletes is taken.

    Args:
        stored: bytes that the objects of a namespace take.
        most: bytes that they may take; the last object may exceed it by its own size.
        request: a write to any namespace.

    Raises:
        ApiError: 403 with both figures.

    """
    if request.operation not in ("CREATE", "UPDATE") or not request.namespace or stored(request.namespace) < most:
        return
    if not isinstance(request.object, Object):
        return
    own = not request.user or MASTERS in request.groups or NODES_GROUP in request.groups
    if own and (request.operation == "UPDATE" or request.kind.resource in _NOTES):
        return
    if request.old is not None and len(codec.render(request.object)) <= len(codec.render(request.old)):
        return
    why = (
        f'the objects of namespace "{request.namespace}" take {stored(request.namespace) / _MIB:.3g} MiB, '
        f"and may take {most / _MIB:.3g} MiB; delete some, "
        "or have an administrator raise the API limit namespace_bytes"
    )
    raise forbidden(request.kind, request.name, why)
