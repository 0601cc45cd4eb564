"""Ray's clusters, jobs and services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from unisono.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from unisono.api.groups.ray import RayCluster, RayClusterSpec, RayJob, RayWorkerGroupSpec
from unisono.api.keys import RAY_CLUSTER, RAY_GROUP, RAY_OPERATOR, RAY_PRIORITY_CLASS
from unisono.api.kind_families import BATCH_JOBS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from unisono.jobkinds.kind import LABEL, NOTE, ElasticPart, JobKind, Json, NoSuchField, PodSet, noted, part_named
from unisono.jobkinds.paths import first

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
    requested = group.replicas if group.replicas is not None else least
    return max(requested if group.max_replicas is None else min(requested, group.max_replicas), least)


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
                yield PodSet(SUBMITTER, 1, template.spec, 0, later=True, helps=True)
                return
    container = Container(name=SUBMITTER, resources=SUBMITTER_RESOURCES)
    yield PodSet(SUBMITTER, 1, PodSpec(containers=[container]), 0, later=True, helps=True)


def _job_sets(job: RayJob) -> Iterator[PodSet]:
    if job.spec.ray_cluster_spec is not None:
        yield from cluster_sets(job.spec.ray_cluster_spec)
        yield from submitter_sets(job)


def _service_sets(service: Any) -> Iterator[PodSet]:
    if service.spec.ray_cluster_config is not None:
        yield from cluster_sets(service.spec.ray_cluster_config)


def _elastic(cluster: RayCluster) -> Iterator[ElasticPart]:
    """The worker groups that state how many replicas they may have."""
    for group in cluster.spec.worker_group_specs or ():
        if group.max_replicas is None or group.suspend or cluster.spec.suspend:
            continue
        # The most is a bound, and the fewest are none above it.
        now, least = min(replicas(group), group.max_replicas), group.min_replicas or 0
        label, pods = (RAY_GROUP, group.group_name), max(1, hosts(group))
        yield ElasticPart(group.group_name, label, now, least, group.max_replicas, group.template.spec, pods)


def _grown(cluster: RayCluster, wanted: Mapping[str, int]) -> Json:
    """All worker groups: a merge patch replaces the list."""
    groups = [
        msgspec.structs.replace(group, replicas=wanted.get(group.group_name, group.replicas))
        for group in cluster.spec.worker_group_specs or ()
    ]
    return {"spec": {"workerGroupSpecs": msgspec.to_builtins(groups)}}


def _resized(cluster: RayCluster, part: str, number: int) -> list[Json]:
    """The JSON patch that changes the size of a worker group, within its limits."""
    groups = cluster.spec.worker_group_specs or []
    name = part_named(cluster, part, [group.group_name for group in groups])
    index = next(at for at, group in enumerate(groups) if group.group_name == name)
    low, high = groups[index].min_replicas or 0, groups[index].max_replicas
    if number < low or (high is not None and number > high):
        limits = f"{low} to {high}" if high is not None else f"{low} or more"
        raise NoSuchField(f"worker group {name} may have {limits} replicas, and not {number}.")
    return [
        {"op": "test", "path": f"/spec/workerGroupSpecs/{index}/groupName", "value": name},
        {"op": "add", "path": f"/spec/workerGroupSpecs/{index}/replicas", "value": number},
    ]


def _fewer(at: str, manifest: Json, to: int) -> None:
    """Fewer workers at the beginning; ``at`` leads to the cluster's spec."""
    groups = first(manifest, f"{at}.workerGroupSpecs") or []
    if len(groups) != 1 or to < 2:
        raise NoSuchField("a Ray cluster starts with all its workers: lower replicas of a worker group")
    for name in ("replicas", "minReplicas"):
        groups[0][name] = min(groups[0].get(name, to - 1), to - 1)


_ENDS = {"SUCCEEDED": "Completed", "FAILED": "Failed", "STOPPED": "Failed"}


def _job_state(job: Any, _: bool) -> tuple[str, str]:
    message = first(job, "status.message") or first(job, "status.reason") or ""
    match first(job, "status.jobDeploymentStatus"):
        case "Complete":
            return _ENDS.get(first(job, "status.jobStatus") or "", "Failed"), message
        case "Failed" | "ValidationFailed":
            return "Failed", message
        case "Running" | "Suspended" as phase:
            return phase, message
        case "Retrying":
            return "Restarting", message
        case _:
            return "Pending", ""


def _at(field: str, *more: str) -> dict[str, Any]:
    templates = tuple(f"spec.{field}{each}" for each in _TEMPLATES)
    spec = f"spec.{field}".rstrip(".")
    # A submitter is in the gang of its cluster: what its template names is not heeded.
    return {
        "templates": (*templates, *more),
        "queues": (LABEL, NOTE, *noted(*templates)),
        "priorities": (f"metadata.labels[{RAY_PRIORITY_CLASS}]",),
        "fewer": lambda manifest, to: _fewer(spec, manifest, to),
        "part_label": RAY_GROUP,
        "managers": frozenset((RAY_OPERATOR,)),
    }


RAY: tuple[JobKind, ...] = (
    JobKind(
        RAY_CLUSTERS,
        **_at(""),
        pods=lambda obj: cluster_sets(obj.spec),
        resized=_resized,
        elastic=_elastic,
        grown=_grown,
        control="flag",
        flag="spec.suspend",
        pods_label=RAY_CLUSTER,
        fleet="whole",
    ),
    JobKind(
        RAY_JOBS,
        **_at("rayClusterSpec.", "spec.submitterPodTemplate"),
        pods=_job_sets,
        sized=(RAY_CLUSTERS, "status.rayClusterName"),
        control="flag",
        flag="spec.suspend",
        tells=_job_state,
        ends=True,
        makes=(RAY_CLUSTERS, BATCH_JOBS),
    ),
    JobKind(RAY_SERVICES, **_at("rayClusterConfig."), pods=_service_sets, makes=(RAY_CLUSTERS,)),
)
