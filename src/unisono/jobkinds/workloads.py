"""Kubernetes' own workloads, Knative's services, and pods that nobody made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.core import Pod
from unisono.api.groups.batch_v1 import BatchJob, BatchJobSpec
from unisono.api.groups.job_set import JobTemplateJobSpec
from unisono.api.keys import JOB_CONTROLLER
from unisono.api.kind_families import (
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    KNATIVE_SERVICES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from unisono.api.kinds import PODS
from unisono.jobkinds.kind import NOTE, ONLY, JobKind, Json, PodSet, by_annotation, given, noted, part_named

_TEMPLATE = "spec.template"
_CRON = "spec.jobTemplate.spec.template"


def at_once(spec: BatchJobSpec | JobTemplateJobSpec) -> int:
    """Pods of a batch Job that run at a time."""
    parallel = 1 if spec.parallelism is None else max(0, spec.parallelism)
    return parallel if spec.completions is None else min(parallel, max(0, spec.completions))


def _replicas(obj: Any) -> Iterator[PodSet]:
    if obj.spec.template is not None:
        yield PodSet("", given(obj.spec.replicas), obj.spec.template.spec)


def _batch(spec: BatchJobSpec) -> Iterator[PodSet]:
    yield PodSet("", at_once(spec), spec.template.spec)


def _resized(job: BatchJob, part: str, replicas: int) -> Json:
    """Its parallelism; one whose pods each have a number has as many numbers."""
    part_named(job, part, [ONLY])
    size: Json = {"parallelism": replicas}
    if job.spec.completion_mode == "Indexed" and job.spec.completions == job.spec.parallelism:
        size["completions"] = replicas
    return {"spec": size}


def _fewer(manifest: Json, to: int) -> None:
    """Of a Job that says how its pods are scheduled: its own gang; else that of its PodGroup."""
    scheduling = manifest["spec"].get("scheduling")
    if scheduling is None:
        by_annotation(manifest, to)
    else:
        scheduling["schedulingPolicy"] = {"gang": {"minCount": to}}


def _itself(pod: Pod) -> Iterator[PodSet]:
    yield PodSet("", 1, pod.spec)


_SCALED: dict[str, Any] = {
    "templates": (_TEMPLATE,),
    "queues": noted(_TEMPLATE),
    "pods": _replicas,
    "replicas": "spec.replicas",
}
WORKLOADS: tuple[JobKind, ...] = (
    JobKind(
        DEPLOYMENTS,
        templates=(_TEMPLATE,),
        queues=noted(_TEMPLATE),
        pods=_replicas,
        replicas="spec.replicas",
        makes=(REPLICA_SETS,),
        own_pods=False,
        fleet="divided",
    ),
    JobKind(REPLICA_SETS, **_SCALED),
    JobKind(REPLICATION_CONTROLLERS, **_SCALED),
    JobKind(
        STATEFUL_SETS,
        **_SCALED,
        fixed_names=True,
        at_once=("spec.podManagementPolicy", "Parallel"),
        fleet="divided",
    ),
    JobKind(DAEMON_SETS, templates=(_TEMPLATE,), queues=noted(_TEMPLATE)),
    JobKind(
        BATCH_JOBS,
        templates=(_TEMPLATE,),
        queues=noted(_TEMPLATE),
        pods=lambda obj: _batch(obj.spec),
        fewer=_fewer,
        replicas="spec.parallelism",
        resized=_resized,
        completions="spec.completions",
        pods_label="job-name",
        control="flag",
        flag="spec.suspend",
        managers=frozenset((JOB_CONTROLLER,)),
        ends=True,
        fleet="divided",
    ),
    JobKind(
        BATCH_CRON_JOBS,
        templates=(_CRON,),
        inner=("spec.jobTemplate",),
        queues=noted(_CRON),
        pods=lambda obj: _batch(obj.spec.job_template.spec),
        makes=(BATCH_JOBS,),
        own_pods=False,
    ),
    JobKind(KNATIVE_SERVICES, templates=(_TEMPLATE,), queues=noted(_TEMPLATE), makes=(DEPLOYMENTS,), own_pods=False),
)
PODS_ALONE: tuple[JobKind, ...] = (JobKind(PODS, queues=(NOTE,), size=lambda _: 0, pods=_itself, runs=False),)
"""The queue of a pod that a job has made is its gang's."""
