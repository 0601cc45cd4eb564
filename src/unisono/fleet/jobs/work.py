"""Jobs of a hub as the gangs that stand for them until a member runs them (pure).

The gang and its pods are what the job's own controller would make: the rules of the controllers are asked for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.batch import Job
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.pod_limit import MOST_PODS
from unisono.api.scheduling import PodGroup
from unisono.api.topology import NetworkTopologySpec
from unisono.api.training_kinds import JOB_SETS, RAY_CLUSTERS
from unisono.controllers.job.pod_group import pod_group_for
from unisono.controllers.job.pods import PodBuilder
from unisono.controllers.job.view import JobView
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.jobset.decide import decide as decide_job_set
from unisono.controllers.training.kubeflow.controller import FRAMEWORKS
from unisono.controllers.training.kubeflow.decide import decide as decide_training
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.plan import Plan
from unisono.controllers.training.ray.cluster import decide as decide_ray
from unisono.fleet.jobs.naming import CLUSTER_TIER_NAME

Decide = Callable[[Seen[Any], float], Plan]
Priorities = Callable[[str | None], int]


def _kubeflow(framework: Framework) -> Decide:
    return lambda seen, now: decide_training(seen, framework, now)


_TRAINING: Mapping[Kind[Any], Decide] = {
    **{framework.kind: _kubeflow(framework()) for framework in FRAMEWORKS},
    JOB_SETS: decide_job_set,
    RAY_CLUSTERS: decide_ray,
}
KINDS: tuple[Kind[Any], ...] = (JOBS, *_TRAINING)
"""Kinds of jobs that a hub dispatches."""


@dataclass(frozen=True, slots=True)
class Work:
    """What stands for a job.

    Attributes:
        group: its PodGroup, bound to one cluster.
        pods: its pods, as its controller would make them, without nodes.

    """

    group: PodGroup
    pods: tuple[Pod, ...]


def work_of(kind: Kind[Any], job: Object, now: float, priority: Priorities = lambda _name: 0) -> Work | None:
    """The gang of a job and its pods; None where the job asks for none now (it is suspended, empty or invalid).

    Args:
        kind: one of ``KINDS``.
        job: the job.
        now: seconds since 1970.
        priority: value of a priority class.

    """
    made = _volcano(job, priority) if isinstance(job, Job) else _training(kind, job, now, priority)
    if made is None or not made.pods:
        return None
    return Work(_within_one_cluster(made.group), tuple(_bare(pod) for pod in made.pods))


def _volcano(job: Job, priority: Priorities) -> Work:
    view = JobView(job)
    builder = PodBuilder(view, ())
    pods = [builder.build(task, index) for task in view.tasks for index in range(min(task.replicas, MOST_PODS))]
    return Work(pod_group_for(view, view.version, priority), tuple(pods[:MOST_PODS]))


def _training(kind: Kind[Any], job: Object, now: float, priority: Priorities) -> Work | None:
    """Ask the kind's decisions again and again, with what they wanted so far, until they want no more pods."""
    decide = _TRAINING[kind]
    fresh = msgspec.convert({**msgspec.to_builtins(job), "status": {}}, kind.struct)
    seen: Seen[Any] = Seen(job=fresh, priority=priority)
    group = decide(seen, now).create_group
    if group is None:
        return None
    admitted = msgspec.structs.replace(group, status=msgspec.structs.replace(group.status, phase="Inqueue"))
    admitted.metadata.uid = job.metadata.uid
    seen.group = admitted
    while len(seen.pods) < MOST_PODS:
        wanted = decide(seen, now).create_pods
        fresh_pods = [build() for build in wanted]
        known = {pod.metadata.name for pod in seen.pods}
        fresh_pods = [pod for pod in fresh_pods if pod.metadata.name not in known]
        if not fresh_pods:
            break
        seen.pods.extend(fresh_pods)
    return Work(group, tuple(seen.pods))


def _within_one_cluster(group: PodGroup) -> PodGroup:
    """The gang with a hard bound: its own where it has one, which lies within a cluster, else one cluster."""
    given = group.spec.network_topology
    if given is not None and given.mode != "soft":
        return group
    bound = NetworkTopologySpec(mode="hard", highest_tier_name=CLUSTER_TIER_NAME)
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, network_topology=bound))


def _bare(pod: Pod) -> Pod:
    """The pod without volumes and claims, which exist in members alone."""
    spec = msgspec.structs.replace(pod.spec, volumes=None, resource_claims=None)
    return msgspec.structs.replace(pod, spec=spec)
