"""What a job's spec means where defaults were not filled in: an API server that knows of the kind only its schema."""

from __future__ import annotations

import msgspec

from unisono.api.defaulting.job import apply_scale, default_job
from unisono.api.groups.batch import Job, JobSpec, TaskSpec

_DECODER = msgspec.json.Decoder(Job)


def with_defaults(job: Job) -> JobSpec:
    """The spec with the defaults of ``api``; the job's own when nothing is missing, else a copy."""
    if _is_complete(job.spec):
        return job.spec
    copy = _DECODER.decode(msgspec.json.encode(Job(spec=job.spec)))
    default_job(copy)
    apply_scale(copy.spec)
    return copy.spec


def _is_complete(spec: JobSpec) -> bool:
    """Whether defaulting would change nothing; False for what would need a closer look."""
    if not (spec.queue and spec.scheduler_name and spec.max_retry):
        return False
    if not spec.min_available and spec.tasks:
        return False
    if spec.plugins or spec.network_topology is not None:
        return False
    if spec.replicas is not None and spec.tasks and spec.replicas != spec.tasks[-1].replicas:
        return False
    return all(_is_complete_task(task) for task in spec.tasks or ())


def _is_complete_task(task: TaskSpec) -> bool:
    pod = task.template.spec
    return bool(
        task.name
        and task.max_retry
        and task.min_available is not None
        and (pod.dns_policy or not pod.host_network)
        and (task.partition_policy is None or task.partition_policy.network_topology is None)
    )
