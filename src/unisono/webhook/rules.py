"""Which rules a request has to pass; the rules themselves are those of the embedded API server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from unisono.api import kinds
from unisono.apiserver.admission import Rule, Settings, jobs, pod_groups, pods, queues

_SETTINGS = Settings()

CHANGING: Mapping[str, tuple[Rule, ...]] = {
    kinds.POD_GROUPS.resource: (pod_groups.queue_of_namespace,),
}
"""By resource: what completes an object in view of others, after its defaults."""

CHECKING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.check_queue,),
    kinds.POD_GROUPS.resource: (pod_groups.check_queue,),
    kinds.PODS.resource: (pods.check_disruption_budget,),
    kinds.QUEUES.resource: tuple(
        partial(rule, _SETTINGS) for rule in (queues.protect, queues.check_parent, queues.check_family)
    ),
}
"""By resource: what refuses an object in view of others."""

FOREIGN = frozenset({kinds.PODS.resource})
"""Resources that the API server itself defaults and validates."""
