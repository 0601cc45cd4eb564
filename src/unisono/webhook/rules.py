"""Which rules a request has to pass; the rules themselves are those of the embedded API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from unisono.api import kinds
from unisono.api.flow_kinds import FLOW_KINDS
from unisono.api.kind import Kind
from unisono.api.membership import controller_of
from unisono.apiserver.admission import Request, Rule, Settings, View, jobs, pod_groups, pods, queues, sizes, tenants
from unisono.jobkinds.registry import ALL, job_kind
from unisono.jobkinds.tables import ForeignObject

_ACCOUNT, _CONTROLLER_MANAGER = "system:serviceaccount:", "system:kube-controller-manager"


def _of_an_operator(request: Request) -> bool:
    """What a foreign operator makes for another object has no user of its own."""
    made_by = request.user.startswith(_ACCOUNT) or request.user == _CONTROLLER_MANAGER
    return made_by and controller_of(request.object) is not None


def note_user(request: Request, view: View) -> None:
    """Write down who submits an object."""
    if not _of_an_operator(request):
        tenants.note_user(request, view)


def check_use(may_use: tenants.MayUse, request: Request, view: View) -> None:
    """Who submits an object may use its queue.

    An operator need not be allowed to: what it makes is held to what the server has written on its outermost owner. A
    PodGroup is not made for pods that were looked at.

    Raises:
        ApiError: 403 naming the queue.

    """
    if request.kind is not kinds.POD_GROUPS and _of_an_operator(request):
        tenants.check_namespace(request, view)
    else:
        tenants.check_use(may_use, request, view)


PREPARING: Mapping[str, tuple[Rule, ...]] = {kinds.JOBS.resource: (tenants.queue_of_namespace,)}
"""By resource: what completes an object before its defaults."""

CHANGING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.settle_scale, note_user),
    kinds.POD_GROUPS.resource: (pod_groups.queue_of_namespace, note_user),
}
"""By resource: what completes an object in view of others, after its defaults."""

_CHECKING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.check_queue,),
    kinds.POD_GROUPS.resource: (pod_groups.check_queue,),
    kinds.PODS.resource: (pods.check_disruption_budget,),
}
_QUEUES = (queues.protect, queues.check_parent, queues.check_family)


def checking(kind: Kind[Any], settings: Settings, may_use: tenants.MayUse) -> Iterator[Rule]:
    """What refuses an object of the kind: in view of others, or for its size."""
    yield from _CHECKING.get(kind.resource, ())
    if job_kind(kind) is not None:
        yield partial(check_use, may_use)
    if kind is kinds.QUEUES:
        yield from (partial(rule, settings) for rule in _QUEUES)
        yield tenants.check_notes
    yield partial(sizes.check, settings)


_OWN: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS, *FLOW_KINDS)
_OTHERS = frozenset(each.kind.resource for each in ALL if each.kind not in _OWN) | {kinds.CONFIG_MAPS.resource}


def is_foreign(kind: Kind[Any]) -> bool:
    """Whether the API server itself, or its own operator, defaults and validates a kind."""
    return kind.resource in _OTHERS or kind.struct is ForeignObject
