"""ResourceClaims: who may ask for devices that others use."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from unisono.api.field_error import FieldError
from unisono.api.field_error import forbidden as forbidden_field
from unisono.api.keys import ADMIN_ACCESS
from unisono.api.kinds import NAMESPACES
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import invalid


def check_admin_access(request: Request, view: View) -> None:
    """Only namespaces that an administrator has labelled may have claims with ``adminAccess``, as in Kubernetes.

    Raises:
        Invalid: the namespace has no such label.

    """
    if request.operation == "DELETE" or request.subresource:
        return
    errors = list(_asking(request.object))
    if not errors:
        return
    namespace = view.find(NAMESPACES, request.namespace or "")
    if namespace is None or (namespace.metadata.labels or {}).get(ADMIN_ACCESS) != "true":
        raise invalid(request.kind, request.name, errors)


def _asking(obj: ResourceClaim | ResourceClaimTemplate) -> Iterator[FieldError]:
    path, spec = ("spec.spec", obj.spec.spec) if isinstance(obj, ResourceClaimTemplate) else ("spec", obj.spec)
    assert isinstance(spec, ResourceClaimSpec)
    for number, wanted in enumerate(spec.devices.requests or ()):
        if wanted.exactly is not None and wanted.exactly.admin_access:
            yield forbidden_field(
                f"{path}.devices.requests[{number}].exactly.adminAccess",
                f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace",
            )
