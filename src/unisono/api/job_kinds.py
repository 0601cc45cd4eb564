"""Which kinds are jobs, and what stands between them and their pods."""

from __future__ import annotations

from typing import Any, Final

from unisono.api.flow_kinds import CRON_JOBS, HYPER_JOBS, JOB_FLOWS
from unisono.api.inference_kinds import KNATIVE_SERVICES
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.training_kinds import JOB_SETS, KUBEFLOW_KINDS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, TRAIN_JOBS
from unisono.api.workload_kinds import BATCH_CRON_JOBS, BATCH_JOBS, DEPLOYMENTS, REPLICA_SETS

JOB_KINDS: Final[tuple[Kind[Any], ...]] = (
    JOBS,
    JOB_FLOWS,
    HYPER_JOBS,
    *KUBEFLOW_KINDS,
    TRAIN_JOBS,
    JOB_SETS,
    RAY_JOBS,
    BATCH_JOBS,
)
"""Every kind whose objects run to an end."""

BETWEEN: Final[dict[str, tuple[Kind[Any], ...]]] = {
    TRAIN_JOBS.resource: (JOB_SETS,),
    JOB_SETS.resource: (BATCH_JOBS,),
    RAY_JOBS.resource: (RAY_CLUSTERS, BATCH_JOBS),
    RAY_SERVICES.resource: (RAY_CLUSTERS,),
    DEPLOYMENTS.resource: (REPLICA_SETS,),
    KNATIVE_SERVICES.resource: (DEPLOYMENTS,),
    BATCH_CRON_JOBS.resource: (BATCH_JOBS,),
    CRON_JOBS.resource: (JOBS,),
    JOB_FLOWS.resource: (JOBS,),
    HYPER_JOBS.resource: (JOBS,),
}
"""What the controller of a kind makes that has pods of its own, by resource."""


def between(resource: str) -> list[Kind[Any]]:
    """All kinds that may stand between an object of this resource and its pods."""
    found: dict[str, Kind[Any]] = {}
    todo = [resource]
    for each in todo:
        for kind in BETWEEN.get(each, ()):
            if kind.resource not in found:
                found[kind.resource] = kind
                todo.append(kind.resource)
    return list(found.values())


PARTS: Final[tuple[Kind[Any], ...]] = tuple(
    {part.resource: part for kind in JOB_KINDS for part in between(kind.resource) if part not in JOB_KINDS}.values()
)
"""Kinds that stand between jobs and their pods and are no jobs themselves."""
