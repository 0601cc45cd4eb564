"""How a job of any kind is doing: a Volcano Job, or one that tells its state by conditions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import JOB_NAME, TASK_SPEC
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.api.pod_states import has_ended, pod_end
from unisono.api.verdict import waiting_text
from unisono.jobkinds.kind import ONLY, ran_before
from unisono.jobkinds.registry import PART_LABELS, between, job_kind_of, state_of
from unisono.kube.client import Client
from unisono.sdk.state.dependents import ByOwner, Dependents, collect, dependents, listed, owners_of
from unisono.sdk.state.views import (
    JobView,
    Steps,
    TaskView,
    job_view,
    pod_view,
    slowest,
    steps_of_annotations,
    was_admitted,
)

# Views of jobs that tell their state by conditions: training jobs, batch Jobs, flows; from objects alone (pure).


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
    replicas: dict[str, int] = {}
    for each in (job, *parts):
        replicas.update(wanted_pods(each))
    tasks = tuple(
        TaskView(name, replicas.get(name, sum(seen.get(name, {}).values())), dict(seen.get(name, {})))
        for name in {**replicas, **seen}
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
        admitted=was_admitted(
            phase,
            group.status.phase if group else None,
            placed,
            ran=ran_before(job) or (known is not None and known.admitted),
        ),
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


# How a job of any kind is doing, read once from the server or built from objects that are known.


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's view, its PodGroups and its pods at one moment."""

    view: JobView
    groups: tuple[PodGroup, ...]
    pods: tuple[Pod, ...]


class DependentsIndex:
    """The dependents of many jobs, from lists of everything.

    Args:
        made: objects between jobs and pods, by resource.
        groups: PodGroups.
        pods: pods.
    """

    def __init__(self, made: Mapping[str, Iterable[Any]], groups: Iterable[PodGroup], pods: Iterable[Pod]) -> None:
        groups = list(groups)
        self._made = {resource: ByOwner(items) for resource, items in made.items()}
        self._groups, self._pods = ByOwner(groups), ByOwner(pods)
        self._by_name = {group.key: group for group in groups}

    def of(self, kind: Kind[Any], job: Any) -> Dependents:
        """The dependents of one job."""
        owners = owners_of(kind.resource, job, self._made)
        namespace = job.metadata.namespace
        return collect(owners, self._groups, lambda name: self._by_name.get(f"{namespace}/{name}"), self._pods)


async def index_dependents(client: Client, kind: Kind[Any], namespace: str | None) -> DependentsIndex:
    """Everything of a namespace, or of all, that may belong to jobs of a kind."""
    kinds = [*between(kind.resource), POD_GROUPS, PODS]
    *made, groups, pods = await asyncio.gather(*(listed(client, each, namespace) for each in kinds))
    return DependentsIndex({each.resource: items for each, items in zip(kinds, made, strict=False)}, groups, pods)


async def look(client: Client, kind: Kind[Any], namespace: str, name: str) -> Observation:
    """The job as it is now.

    Raises:
        NotFound: there is no such job.
    """
    job = await client.get(kind, name, namespace)
    return observation(kind, job, await dependents(client, kind.resource, job))


def observation(kind: Kind[Any], job: Any, found: Dependents, known: JobView | None = None) -> Observation:
    """A view of a job or a plain pod from its objects.

    Args:
        kind: of the job.
        job: the job.
        found: its dependents.
        known: the last view; pods that ended and were deleted since then are kept.
    """
    texts = (waiting_text(group.metadata.annotations) for group in found.groups)
    waiting = next((text for text in texts if text), "")
    if kind.resource == PODS.resource:
        view = pod_view(job, waiting)
    elif kind.resource == JOBS.resource:
        view = job_view(job, found.groups[0] if found.groups else None, found.pods, waiting)
    else:
        view = workload_view(job, found.parts, found.groups, found.pods, waiting, known)
    view = replace(view, kind=kind.kind, api_version=kind.api_version, progress=_progress(job, found.pods))
    return Observation(view, tuple(found.groups), tuple(found.pods))


def last_observation(kind: Kind[Any], job: Any, found: Dependents, known: JobView | None) -> Observation:
    """Of a job that was deleted: how it ended, or that it was deleted before.

    Args:
        kind: of the job.
        job: its last state.
        found: its dependents that are still there.
        known: the last view.
    """
    last = observation(kind, job, found, known)
    ends = {end.name: end for end in (*(known.ends if known else ()), *last.view.ends)}
    if known is not None and known.ended:
        view = known
    elif last.view.ended:
        view = last.view
    else:
        view = replace(known or last.view, phase="Deleted", waiting="", message="deleted before its end was seen")
    return replace(last, view=replace(view, ends=tuple(ends.values())))


def _progress(job: Any, pods: Iterable[Pod]) -> Steps | None:
    """The job's own annotation, else that of its slowest pod."""
    own = steps_of_annotations(job.metadata.annotations)
    return own or slowest(steps for pod in pods if (steps := steps_of_annotations(pod.metadata.annotations)))
