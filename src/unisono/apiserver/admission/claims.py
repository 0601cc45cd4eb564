"""PersistentVolumeClaims: the default storage class, and which of them may grow."""

from __future__ import annotations

from unisono.api.core import PersistentVolumeClaim
from unisono.api.kinds import STORAGE_CLASSES
from unisono.api.volumes import class_of_claim, default_class, has_class, stored_bytes
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden


def choose_class(request: Request, view: View) -> None:
    """Give a claim that names no class the default one; an empty name means none."""
    claim: PersistentVolumeClaim = request.object
    if request.operation != "CREATE" or has_class(claim):
        return
    found = default_class(view.all(STORAGE_CLASSES))
    if found is not None:
        claim.spec.storage_class_name = found.metadata.name


def check_growth(request: Request, view: View) -> None:
    """A claim grows only where its class allows that.

    Raises:
        ApiError: 403 when it does not.

    """
    if request.operation != "UPDATE" or request.subresource:
        return
    claim: PersistentVolumeClaim = request.object
    old: PersistentVolumeClaim = request.old
    if stored_bytes(claim.spec.resources.requests) <= stored_bytes(old.spec.resources.requests):
        return
    name = class_of_claim(old)
    found = view.find(STORAGE_CLASSES, name) if name else None
    if found is None or not found.allow_volume_expansion:
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise forbidden(request.kind, request.name, why)
