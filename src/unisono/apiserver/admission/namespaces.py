"""Namespace life cycle: nothing new where no namespace is, or where it is ending."""

from __future__ import annotations

from unisono.api.kinds import NAMESPACES
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden, not_found

PROTECTED = ("default", "kube-system", "kube-public")


def check_live(request: Request, view: View) -> None:
    """Creating needs an existing namespace that is not being deleted.

    Raises:
        NotFound: the namespace does not exist.
        ApiError: 403 while it is being deleted.

    """
    if request.operation != "CREATE" or not request.kind.namespaced:
        return
    name = request.namespace or ""
    namespace = view.find(NAMESPACES, name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if namespace.metadata.deletion_timestamp:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(request.kind, request.name, why, [cause])


def protect(request: Request, view: View) -> None:
    """The namespaces that every cluster has stay.

    Raises:
        ApiError: 403 for their deletion.

    """
    if request.operation == "DELETE" and request.name in PROTECTED:
        raise forbidden(request.kind, request.name, "this namespace may not be deleted")
