"""CustomResourceDefinitions: those of the served kinds are there; others are refused instead of silently not served."""

from __future__ import annotations

from unisono.api.core import CustomResourceDefinition
from unisono.api.kinds import CUSTOM_KINDS
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden

_SERVED = frozenset(kind.resource for kind in CUSTOM_KINDS)


def only_served(request: Request, view: View) -> None:
    """A definition must be one of a served kind, and it stays.

    Raises:
        ApiError: 403 for another one, and for a deletion.

    """
    definition: CustomResourceDefinition = request.object
    if definition.metadata.name not in _SERVED:
        why = "this server serves a fixed set of custom kinds: " + ", ".join(sorted(_SERVED))
        raise forbidden(request.kind, request.name, why)
    if request.operation == "DELETE":
        raise forbidden(request.kind, request.name, "the kind is built into this server")
