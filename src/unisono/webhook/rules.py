"""Which rules a request has to pass; the rules themselves are those of the embedded API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from unisono.api import kinds
from unisono.api.kind import Kind
from unisono.api.training_kinds import KUBEFLOW_KINDS
from unisono.apiserver.admission import Rule, Settings, jobs, pod_groups, pods, queues, sizes, tenants

PREPARING: Mapping[str, tuple[Rule, ...]] = {kinds.JOBS.resource: (tenants.queue_of_namespace,)}
"""By resource: what completes an object before its defaults."""

CHANGING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.settle_scale,),
    kinds.POD_GROUPS.resource: (pod_groups.queue_of_namespace,),
}
"""By resource: what completes an object in view of others, after its defaults."""

_CHECKING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.check_queue, tenants.check_namespace),
    kinds.POD_GROUPS.resource: (pod_groups.check_queue, tenants.check_namespace),
    kinds.PODS.resource: (pods.check_disruption_budget,),
}
_QUEUES = (queues.protect, queues.check_parent, queues.check_family)


def checking(kind: Kind[Any], settings: Settings) -> Iterator[Rule]:
    """What refuses an object of the kind: in view of others, or for its size."""
    yield from _CHECKING.get(kind.resource, ())
    if kind is kinds.QUEUES:
        yield from (partial(rule, settings) for rule in _QUEUES)
        yield tenants.check_notes
    yield partial(sizes.check, settings)


_FOREIGN: tuple[Kind[Any], ...] = (kinds.PODS, kinds.CONFIG_MAPS, *KUBEFLOW_KINDS)
FOREIGN = frozenset(kind.resource for kind in _FOREIGN)
"""Resources that the API server itself, or their own operator, defaults and validates."""
