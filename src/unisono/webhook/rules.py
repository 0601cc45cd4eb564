"""Which rules a request has to pass; the rules themselves are those of the embedded API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from unisono.api import kinds
from unisono.api.kind import Kind
from unisono.api.membership import controller_of
from unisono.api.training_kinds import KUBEFLOW_KINDS
from unisono.apiserver.admission import Request, Rule, Settings, View, jobs, pod_groups, pods, queues, sizes, tenants

_ACCOUNT = "system:serviceaccount:"


def note_user(request: Request, view: View) -> None:
    """Write down who submits an object; what a foreign operator makes for another object has no user of its own."""
    if request.user.startswith(_ACCOUNT) and controller_of(request.object) is not None:
        return
    tenants.note_user(request, view)


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
_NAMING: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS, *KUBEFLOW_KINDS)
_OF_QUEUES = frozenset(kind.resource for kind in _NAMING)
_QUEUES = (queues.protect, queues.check_parent, queues.check_family)


def checking(kind: Kind[Any], settings: Settings, may_use: tenants.MayUse) -> Iterator[Rule]:
    """What refuses an object of the kind: in view of others, or for its size."""
    yield from _CHECKING.get(kind.resource, ())
    if kind.resource in _OF_QUEUES:
        yield partial(tenants.check_use, may_use)
    if kind is kinds.QUEUES:
        yield from (partial(rule, settings) for rule in _QUEUES)
        yield tenants.check_notes
    yield partial(sizes.check, settings)


_FOREIGN: tuple[Kind[Any], ...] = (kinds.PODS, kinds.CONFIG_MAPS, *KUBEFLOW_KINDS)
FOREIGN = frozenset(kind.resource for kind in _FOREIGN)
"""Resources that the API server itself, or their own operator, defaults and validates."""
