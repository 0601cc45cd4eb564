"""How many pods an object asks for at a time, whatever its kind: the figure that the limit on pods per object is about.

A PodGroup makes none, but asks for the room of all that it needs.

A number in a specification costs its author nothing; pods cost all users memory and time. Python's integers do not
overflow, so sums and products are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unisono.api.apps import Deployment, ReplicaSet, StatefulSet
from unisono.api.base import Object
from unisono.api.batch import Job, JobSpec
from unisono.api.batch_v1 import BatchCronJob, BatchJob, BatchJobSpec
from unisono.api.cron_job import CronJob
from unisono.api.defaulting.kubeflow import TRAINING, replica_specs
from unisono.api.flow import JobTemplate
from unisono.api.hyper_job import HyperJob
from unisono.api.job_set import JobSet, JobSetSpec, JobTemplateJobSpec
from unisono.api.ray import RayCluster, RayClusterSpec, RayJob, RayService
from unisono.api.scheduling import PodGroup
from unisono.api.trainer import TrainJob


def pods_of(obj: Object) -> int:
    """Pods that the object and everything made for it may have at a time; 0 for kinds that ask for none."""
    size = _SIZES.get(type(obj))
    return size(obj) if size is not None else 0


def too_many(obj: Object, most: int) -> str:
    """Why the object is too large for a limit of ``most`` pods; empty when it is not."""
    pods = pods_of(obj)
    if pods <= most:
        return ""
    return f"asks for {pods} pods, more than the limit of {most} for one object; ask for fewer or raise the limit"


def job_set_pods(spec: JobSetSpec) -> int:
    """Pods of a JobSet; a Job without pods counts as one, for it is looked at like the others."""
    return sum(_given(each.replicas) * max(1, _batch(each.template.spec)) for each in spec.replicated_jobs or ())


def _given(number: int | None) -> int:
    return 1 if number is None else max(0, number)


def _job(spec: JobSpec) -> int:
    return sum(max(0, task.replicas or 0) for task in spec.tasks or ())


def _batch(spec: BatchJobSpec | JobTemplateJobSpec) -> int:
    at_once = _given(spec.parallelism)
    return at_once if spec.completions is None else min(at_once, max(0, spec.completions))


def _hyper(obj: HyperJob) -> int:
    return sum(_given(each.replicas) * max(1, _job(each.template_spec)) for each in obj.spec.replicated_jobs or ())


def _ray(spec: RayClusterSpec | None) -> int:
    if spec is None:
        return 0
    groups = spec.worker_group_specs or ()
    return 1 + sum(max(g.replicas or 0, g.min_replicas or 0) * max(1, g.num_of_hosts or 1) for g in groups)


def _kubeflow(obj: Any) -> int:
    return sum(max(0, spec.replicas or 0) for spec in replica_specs(obj).values())


def _group(obj: PodGroup) -> int:
    spec = obj.spec
    by_task = sum(max(0, each) for each in (spec.min_task_member or {}).values())
    by_part = sum((part.sub_group_size or 1) * (part.min_sub_groups or 0) for part in spec.sub_group_policy or ())
    return max(spec.min_member or 0, by_task, by_part)


def _train(obj: TrainJob) -> int:
    return (obj.spec.trainer.num_nodes or 0) if obj.spec.trainer is not None else 0


_SIZES: Mapping[type[Object], Callable[[Any], int]] = {
    Deployment: lambda obj: obj.spec.replicas or 0,
    ReplicaSet: lambda obj: obj.spec.replicas or 0,
    StatefulSet: lambda obj: obj.spec.replicas or 0,
    BatchJob: lambda obj: _batch(obj.spec),
    BatchCronJob: lambda obj: _batch(obj.spec.job_template.spec),
    Job: lambda obj: _job(obj.spec),
    JobTemplate: lambda obj: _job(obj.spec),
    CronJob: lambda obj: _job(obj.spec.job_template.spec),
    HyperJob: _hyper,
    JobSet: lambda obj: job_set_pods(obj.spec),
    RayCluster: lambda obj: _ray(obj.spec),
    RayJob: lambda obj: _ray(obj.spec.ray_cluster_spec),
    RayService: lambda obj: _ray(obj.spec.ray_cluster_config),
    TrainJob: _train,
    PodGroup: _group,
    **dict.fromkeys(TRAINING, _kubeflow),
}
SIZED = frozenset(_SIZES)
"""Kinds whose objects ask for pods."""
