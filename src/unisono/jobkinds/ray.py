"""Ray's clusters, jobs and services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from unisono.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from unisono.api.groups.ray import RayClusterSpec, RayJob, RayWorkerGroupSpec
from unisono.api.keys import RAY_CLUSTER
from unisono.api.kind_families import BATCH_JOBS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from unisono.jobkinds.kind import LABEL, NOTE, JobKind, PodSet, noted

HEAD_GROUP: Final = "headgroup"
SUBMITTER: Final = "submitter"
HTTP_MODE, SIDECAR_MODE, INTERACTIVE_MODE = "HTTPMode", "SidecarMode", "InteractiveMode"
_TEMPLATES = ("headGroupSpec.template", "workerGroupSpecs[*].template")
SUBMITTER_RESOURCES: Final = ResourceRequirements(
    limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m", "memory": "200Mi"}
)
"""Of a submitter that nobody has described, as KubeRay has it."""


def hosts(group: RayWorkerGroupSpec) -> int:
    """Pods of each replica."""
    return group.num_of_hosts or 1


def replicas(group: RayWorkerGroupSpec) -> int:
    """Replicas within their limits."""
    least = group.min_replicas or 0
    wanted = group.replicas if group.replicas is not None else least
    return max(wanted if group.max_replicas is None else min(wanted, group.max_replicas), least)


def desired(group: RayWorkerGroupSpec) -> int:
    """Pods of a worker group."""
    return replicas(group) * hosts(group)


def fewest(group: RayWorkerGroupSpec) -> int:
    """Pods that a worker group needs at least."""
    return (group.min_replicas or 0) * hosts(group)


def cluster_sets(spec: RayClusterSpec) -> Iterator[PodSet]:
    """The head, and the worker groups that are not suspended; with Ray's autoscaler their fewest pods are a gang."""
    yield PodSet(HEAD_GROUP, 1, spec.head_group_spec.template.spec, 1)
    for group in spec.worker_group_specs or ():
        if not group.suspend:
            pods = desired(group)
            least = fewest(group) if spec.enable_in_tree_autoscaling else pods
            yield PodSet(group.group_name, pods, group.template.spec, least)


def submitter_sets(job: RayJob) -> Iterator[PodSet]:
    """The pod that submits the job once its own cluster runs; none where a container beside the head does."""
    spec = job.spec
    if spec.submission_mode in (SIDECAR_MODE, INTERACTIVE_MODE) or spec.cluster_selector:
        return
    if spec.submitter_pod_template is not None and spec.submission_mode != HTTP_MODE:
        with suppress(msgspec.ValidationError):  # its schema is left open
            template = msgspec.convert(spec.submitter_pod_template, PodTemplateSpec)
            if template.spec.containers:
                yield PodSet(SUBMITTER, 1, template.spec, 0, later=True)
                return
    container = Container(name=SUBMITTER, resources=SUBMITTER_RESOURCES)
    yield PodSet(SUBMITTER, 1, PodSpec(containers=[container]), 0, later=True)


def _job_sets(job: RayJob) -> Iterator[PodSet]:
    if job.spec.ray_cluster_spec is not None:
        yield from cluster_sets(job.spec.ray_cluster_spec)
        yield from submitter_sets(job)


def _service_sets(service: Any) -> Iterator[PodSet]:
    if service.spec.ray_cluster_config is not None:
        yield from cluster_sets(service.spec.ray_cluster_config)


def _at(field: str, *more: str) -> dict[str, Any]:
    templates = tuple(f"spec.{field}{each}" for each in _TEMPLATES)
    # A submitter is in the gang of its cluster: what its template names is not heeded.
    return {"templates": (*templates, *more), "queues": (LABEL, NOTE, *noted(*templates))}


RAY: tuple[JobKind, ...] = (
    JobKind(RAY_CLUSTERS, **_at(""), pods=lambda obj: cluster_sets(obj.spec), pods_label=RAY_CLUSTER),
    JobKind(
        RAY_JOBS,
        **_at("rayClusterSpec.", "spec.submitterPodTemplate"),
        pods=_job_sets,
        control="flag",
        flag="spec.suspend",
        makes=(RAY_CLUSTERS, BATCH_JOBS),
        ends=True,
    ),
    JobKind(RAY_SERVICES, **_at("rayClusterConfig."), pods=_service_sets, makes=(RAY_CLUSTERS,)),
)
