"""Pods run under a service account that exists."""

from __future__ import annotations

from unisono.api.core import Pod
from unisono.api.kinds import SERVICE_ACCOUNTS
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden

# Every namespace gets this one, if only a moment after it was made.
_ALWAYS_THERE = "default"


def check_exists(request: Request, view: View) -> None:
    """Refuse a new pod whose service account is missing.

    Raises:
        ApiError: 403 that names it.

    """
    pod: Pod = request.object
    name = pod.spec.service_account_name or _ALWAYS_THERE
    if request.operation != "CREATE" or request.subresource or name == _ALWAYS_THERE:
        return
    if view.find(SERVICE_ACCOUNTS, name, request.namespace) is None:
        why = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(request.kind, request.name, why)
