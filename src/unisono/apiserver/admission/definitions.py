"""CustomResourceDefinitions: names are accepted when they are free, and a deletion takes the objects along."""

from __future__ import annotations

from unisono.api.annotations import JOB_KIND
from unisono.api.core import CustomResourceDefinition
from unisono.api.kinds import CUSTOM_KINDS, CUSTOM_RESOURCE_DEFINITIONS
from unisono.apiserver.admission.request import Clocked, Request
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.custom.naming import NAMED_DEFINITIONS, TERMINATING, accept_names, note_storage, set_condition
from unisono.apiserver.failures import forbidden
from unisono.jobkinds.tables import described

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_BUILT_IN = frozenset(kind.resource for kind in CUSTOM_KINDS)


def accept(request: Request, view: Clocked) -> None:
    """Decide about the names of a definition and remember its storage version."""
    crd: CustomResourceDefinition = request.object
    if request.subresource:
        return
    if request.operation == "CREATE":
        crd.status = type(crd.status)()
    note_storage(crd)
    accept_names(crd, view.all(NAMED_DEFINITIONS), view.now())


def begin_deletion(request: Request, view: Clocked) -> None:
    """A definition that is deleted waits until its objects are gone; those of built-in kinds stay.

    Raises:
        ApiError: 403 for the deletion of a built-in kind.

    """
    if request.operation != "DELETE":
        return
    crd: CustomResourceDefinition = request.object
    if crd.metadata.name in _BUILT_IN:
        raise forbidden(request.kind, request.name, "the kind is built into this server")
    if crd.metadata.deletion_timestamp is not None:
        return
    crd.metadata.finalizers = [*(crd.metadata.finalizers or ()), CLEANUP]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(crd, TERMINATING, "True", "InstanceDeletionPending", message, view.now())


def unusable(request: Request) -> list[str]:
    """What to tell the writer of a definition whose table of jobs cannot be used."""
    if request.kind is not CUSTOM_RESOURCE_DEFINITIONS:
        return []
    _, wrong = described([request.object], alone=True)
    return [f"metadata.annotations[{JOB_KIND}]: {why}; objects of the kind count as no jobs" for why in wrong.values()]


def check_not_terminating(request: Request) -> None:
    """Nothing new of a kind whose definition is being deleted.

    Raises:
        ApiError: 403.

    """
    kind = request.kind
    if request.operation == "CREATE" and isinstance(kind, CustomKind) and kind.definition.terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(kind, request.name, why)
