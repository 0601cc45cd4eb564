"""Which jobs are elastic, within which limits, and how their replicas are written (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.annotations import ELASTIC, ELASTIC_COOL_DOWN, MOST_REPLICAS
from unisono.api.base import Object
from unisono.api.core import Pod, PodSpec
from unisono.api.defaulting.job import fewest_replicas
from unisono.api.defaulting.kubeflow import elastic_limits
from unisono.api.groups.batch import Job
from unisono.api.groups.kubeflow import PyTorchJob
from unisono.api.groups.ray import RayCluster
from unisono.api.keys import KUBEFLOW_REPLICA_TYPE, RAY_GROUP, TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kind_families import PYTORCH_JOBS, RAY_CLUSTERS
from unisono.api.kinds import JOBS
from unisono.api.times import duration_or_none
from unisono.controllers.elastic.decide import COOL_DOWN
from unisono.controllers.job.defaults import with_defaults
from unisono.controllers.texts import whole_number

Patch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Replicas of an object that may be more or fewer.

    Attributes:
        name: of the part; empty where the object has only one.
        label: key and value that the part's pods have.
        replicas: as the object asks for.
        least: replicas that it needs.
        most: replicas that it can use.
        template: of its pods.
        pods: of each replica.

    """

    name: str
    label: tuple[str, str]
    replicas: int
    least: int
    most: int
    template: PodSpec
    pods: int = 1


def wishes_it(obj: Object, queue: Mapping[str, str]) -> bool:
    """Whether the object, or else its queue by its annotations, asks to be grown and shrunk."""
    own = (obj.metadata.annotations or {}).get(ELASTIC)
    return (queue.get(ELASTIC) if own is None else own) == "true"


def cool_down(obj: Object) -> float:
    """Seconds from a change to the next growth; a text that is no duration counts as absent."""
    found = duration_or_none((obj.metadata.annotations or {}).get(ELASTIC_COOL_DOWN))
    return COOL_DOWN if found is None else max(0.0, found)


def parts_of_job(job: Job) -> Iterator[Part]:
    """The last task of a Volcano Job, where its gang needs fewer pods than it has, or it may have more."""
    spec = with_defaults(job)
    if not spec.tasks or spec.tasks[-1].partition_policy is not None:
        return
    task = spec.tasks[-1]
    replicas, least = task.replicas or 0, max(1, fewest_replicas(spec))
    most = whole_number((job.metadata.annotations or {}).get(MOST_REPLICAS))
    yield Part("", (TASK_SPEC, task.name), replicas, least, replicas if most is None else most, task.template.spec)


def parts_of_pytorch(job: PyTorchJob) -> Iterator[Part]:
    """The workers of an elastic PyTorchJob; one with metrics follows these."""
    policy, worker = job.spec.elastic_policy, (job.spec.pytorch_replica_specs or {}).get("Worker")
    if policy is None or worker is None or policy.metrics or _is_suspended(job):
        return
    replicas = 1 if worker.replicas is None else worker.replicas
    least, most = elastic_limits(policy, replicas)
    yield Part("", (KUBEFLOW_REPLICA_TYPE, "worker"), replicas, max(1, least), most, worker.template.spec)


def _is_suspended(job: PyTorchJob) -> bool:
    return bool(job.spec.run_policy and job.spec.run_policy.suspend)


def parts_of_ray(cluster: RayCluster) -> Iterator[Part]:
    """The worker groups of a RayCluster that state how many replicas they may have."""
    for group in cluster.spec.worker_group_specs or ():
        if group.max_replicas is None or group.suspend or cluster.spec.suspend:
            continue
        least = group.min_replicas or 0
        replicas = min(max(group.replicas if group.replicas is not None else least, least), group.max_replicas)
        label, pods = (RAY_GROUP, group.group_name), group.num_of_hosts or 1
        yield Part(group.group_name, label, replicas, least, group.max_replicas, group.template.spec, max(1, pods))


def patch_of_job(job: Job, wanted: Mapping[str, int]) -> Patch:
    """``scale``'s own field, and the most replicas so far, so that a job that gave way comes back."""
    part, replicas = next(parts_of_job(job)), wanted[""]
    return {"spec": {"replicas": replicas}, "metadata": {"annotations": {MOST_REPLICAS: str(part.most)}}}


def patch_of_pytorch(_: PyTorchJob, wanted: Mapping[str, int]) -> Patch:
    """The workers."""
    return {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": wanted[""]}}}}


def patch_of_ray(cluster: RayCluster, wanted: Mapping[str, int]) -> Patch:
    """All worker groups: a merge patch replaces the list."""
    groups = [
        msgspec.structs.replace(group, replicas=wanted.get(group.group_name, group.replicas))
        for group in cluster.spec.worker_group_specs or ()
    ]
    return {"spec": {"workerGroupSpecs": msgspec.to_builtins(groups)}}


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of jobs that may be elastic, how its parts are read, and how they are written."""

    kind: Kind[Any]
    parts: Callable[[Any], Iterator[Part]]
    patch: Callable[[Any, Mapping[str, int]], Patch]


FAMILIES: tuple[Family, ...] = (
    Family(JOBS, parts_of_job, patch_of_job),
    Family(PYTORCH_JOBS, parts_of_pytorch, patch_of_pytorch),
    Family(RAY_CLUSTERS, parts_of_ray, patch_of_ray),
)


def places_of(part: Part, pods: Sequence[Pod]) -> tuple[tuple[str, ...], ...]:
    """Nodes of the part's replicas as they come, from the pods of the part that stay, in the order of their index.

    Replicas of several pods are complete or count as without a place.
    """
    nodes = [pod.spec.node_name or "" for pod in pods]
    groups = [nodes[at : at + part.pods] for at in range(0, len(nodes), part.pods)]
    return tuple(tuple(group) if all(group) and len(group) == part.pods else () for group in groups)
