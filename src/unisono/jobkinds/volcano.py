"""Volcano's kinds: Jobs, what makes Jobs, and PodGroups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.groups.batch import HyperJob, JobSpec
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import JOB_NAME
from unisono.api.kind_families import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES, WORKLOAD_POD_GROUPS
from unisono.api.kinds import JOBS, POD_GROUPS
from unisono.jobkinds.kind import JobKind, PodSet, given

_TASKS = "tasks[*].template"
_FLOW = "spec.flows[*].patch.jobSpec"
_PART = "spec.replicatedJobs[*].templateSpec"


def task_sets(spec: JobSpec) -> Iterator[PodSet]:
    """The tasks of a Job's spec."""
    for task in spec.tasks or ():
        yield PodSet(task.name or "", given(task.replicas), task.template.spec, task.min_available)


def _hyper_size(obj: HyperJob) -> int:
    """A part without pods counts as one, for it is looked at like the others."""
    parts = (
        (part, sum(each.count for each in task_sets(part.template_spec))) for part in obj.spec.replicated_jobs or ()
    )
    return sum(given(part.replicas) * max(1, pods) for part, pods in parts)


def _group_size(obj: PodGroup) -> int:
    """A PodGroup makes no pods, but asks for the room of all that it needs."""
    spec = obj.spec
    by_task = sum(max(0, each) for each in (spec.min_task_member or {}).values())
    by_part = sum((part.sub_group_size or 1) * (part.min_sub_groups or 0) for part in spec.sub_group_policy or ())
    return max(spec.min_member or 0, by_task, by_part)


def _of_spec(obj: Any) -> Iterator[PodSet]:
    return task_sets(obj.spec)


VOLCANO: tuple[JobKind, ...] = (
    JobKind(
        JOBS,
        templates=(f"spec.{_TASKS}",),
        queues=("spec.queue",),
        pods=_of_spec,
        control="commands",
        pods_label=JOB_NAME,
        group_name="{name}-{uid}",
        ends=True,
    ),
    JobKind(JOB_TEMPLATES, templates=(f"spec.{_TASKS}",), queues=("spec.queue",), pods=_of_spec),
    JobKind(
        JOB_FLOWS,
        templates=(f"{_FLOW}.{_TASKS}",),
        queues=(f"{_FLOW}.queue",),
        control="parts",
        makes=(JOBS,),
        own_pods=False,
        ends=True,
        refers=True,
    ),
    JobKind(
        CRON_JOBS,
        templates=(f"spec.jobTemplate.spec.{_TASKS}",),
        inner=("spec.jobTemplate",),
        queues=("spec.jobTemplate.spec.queue",),
        pods=lambda obj: task_sets(obj.spec.job_template.spec),
        makes=(JOBS,),
        own_pods=False,
    ),
    JobKind(
        HYPER_JOBS,
        templates=(f"{_PART}.{_TASKS}",),
        queues=(f"{_PART}.queue",),
        size=_hyper_size,
        control="parts",
        makes=(JOBS,),
        own_pods=False,
        ends=True,
    ),
    JobKind(POD_GROUPS, queues=("spec.queue",), size=_group_size),
    # Kubernetes' own groups, for which there is one of ours each.
    JobKind(WORKLOAD_POD_GROUPS),
)
