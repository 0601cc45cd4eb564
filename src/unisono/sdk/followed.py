"""Views of jobs that tell their state by conditions: training jobs, batch Jobs, flows; from objects alone (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unisono.api.keys import JOB_NAME, TASK_SPEC
from unisono.api.kinds import JOBS
from unisono.api.pod_states import has_ended, pod_end
from unisono.jobkinds.kind import ONLY
from unisono.jobkinds.registry import PART_LABELS, job_kind_of, state_of
from unisono.sdk.views import JobView, TaskView, was_admitted

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.groups.scheduling import PodGroup


def workload_view(
    job: Any,
    parts: Sequence[Any],
    groups: Sequence[PodGroup],
    pods: Sequence[Pod],
    waiting: str = "",
    known: JobView | None = None,
) -> JobView:
    """View of a job that tells its state by conditions.

    Args:
        job: a job of ``kubeflow.org``, TrainJob, JobSet, RayJob, ``batch/v1`` Job, JobFlow or HyperJob.
        parts: what its controller made between it and its pods: a TrainJob's JobSets, a RayJob's RayClusters, the
            Jobs of a JobFlow.
        groups: its PodGroups.
        pods: its pods.
        waiting: the verdict's summary.
        known: the last view; pods that ended and were taken away since then are still told of.

    """
    seen: dict[str, Counter[str]] = {}
    for pod in pods:
        seen.setdefault(_part(pod), Counter())[pod.status.phase or "Pending"] += 1
    wanted: dict[str, int] = {}
    for each in (job, *parts):
        wanted.update(wanted_pods(each))
    tasks = tuple(
        TaskView(name, wanted.get(name, sum(seen.get(name, {}).values())), dict(seen.get(name, {})))
        for name in {**wanted, **seen}
    )
    placed = [pod for pod in pods if pod.spec.node_name]
    phase, message = state_of(job, running=any(pod.status.phase == "Running" for pod in pods))
    ends = {end.name: end for end in known.ends} if known else {}
    ends.update({pod.metadata.name: pod_end(pod) for pod in pods if has_ended(pod)})
    group = groups[0] if groups else None
    return JobView(
        job.metadata.name,
        job.metadata.namespace or "default",
        job.kind or "Job",
        phase,
        (group.spec.queue if group else None) or "default",
        admitted=was_admitted(phase, group.status.phase if group else None, placed),
        gang=sum(each.spec.min_member or 0 for each in groups) or 1,
        placed=len(placed),
        tasks=tasks,
        waiting=waiting if phase in ("Pending", "Restarting") else "",
        ends=tuple(ends.values()),
        message=message,
        nodes=tuple(sorted({pod.spec.node_name for pod in placed if pod.spec.node_name})),
        uid=job.metadata.uid or "",
    )


def wanted_pods(job: Any) -> dict[str, int]:
    """Pods by task as the specification says; empty where only the controller knows."""
    kind = job_kind_of(job)
    if kind is None:
        return {}
    if kind.kind is JOBS:  # those of a flow are counted each as a whole
        return {job.metadata.name: kind.pods_of(job)}
    if (number := kind.to_end(job)) is not None:
        return {ONLY: number}
    return {each.role or ONLY: each.count for each in kind.pods(job) if not each.helps}


def task_of(pod: Pod) -> str:
    """The task, role, replicated job or group that a pod belongs to; ``pod`` where its job has but one."""
    task = (pod.metadata.annotations or {}).get(TASK_SPEC)
    labels = pod.metadata.labels or {}
    return next((labels[name] for name in PART_LABELS if name in labels), "") or task or ONLY


def _part(pod: Pod) -> str:
    """As ``task_of``, but the Jobs of a flow are counted each as a whole."""
    return (pod.metadata.labels or {}).get(JOB_NAME) or task_of(pod)
