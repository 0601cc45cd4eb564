"""ResourceQuota: nothing is created, or grows, beyond what a namespace may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.api.core import Pod, ResourceQuota
from unisono.api.fields import ResourceList
from unisono.api.kinds import RESOURCE_QUOTAS
from unisono.api.quota.scopes import counts
from unisono.api.quota.usage import Usage, unspecified, usage_of
from unisono.api.resources import resource_list, to_wire
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden


def check(request: Request, view: View) -> None:
    """Compare what the object adds with what every quota of its namespace has left.

    Raises:
        ApiError: 403 naming the quota, what was asked for, what is used and what the limit is.

    """
    if request.operation == "DELETE" or not request.kind.namespaced or request.subresource:
        return
    quotas = [quota for quota in view.all(RESOURCE_QUOTAS, request.namespace) if quota.status.hard]
    if not quotas or (request.kind is RESOURCE_QUOTAS and request.operation == "UPDATE"):
        return
    used = usage_of(request.kind, request.object)
    before = usage_of(request.kind, request.old) if request.old is not None else {}
    for quota in sorted(quotas, key=lambda one: one.metadata.name):
        if not counts(quota, request.object):
            continue
        if request.operation == "CREATE" and isinstance(request.object, Pod):
            missing = unspecified(request.object, quota.status.hard or ())
            if missing:
                raise forbidden(request.kind, request.name, f"failed quota: {quota.metadata.name}: {missing}")
        known = before if request.old is not None and counts(quota, request.old) else {}
        _compare(request, quota, {name: amount - known.get(name, 0) for name, amount in used.items()})


def _compare(request: Request, quota: ResourceQuota, wanted: Usage) -> None:
    hard, used = resource_list(quota.status.hard), resource_list(quota.status.used)
    exceeded = [
        name
        for name in sorted(wanted)
        if name in hard and wanted[name] > 0 and used.get(name, 0) + wanted[name] > hard[name]
    ]
    if not exceeded:
        return
    asked = _listed(exceeded, to_wire({name: wanted[name] for name in exceeded}))
    taken = _listed(exceeded, quota.status.used or {})
    limit = _listed(exceeded, quota.status.hard or {})
    why = f"exceeded quota: {quota.metadata.name}, requested: {asked}, used: {taken}, limited: {limit}"
    raise forbidden(request.kind, request.name, why)


def _listed(names: Iterable[str], amounts: ResourceList | Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts.get(name, 0)}" for name in names)
