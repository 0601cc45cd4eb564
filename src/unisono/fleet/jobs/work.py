"""Jobs of a hub as the gangs that stand for them until a member runs them (pure).

The gang and its pods are what the job's own controller would make: the rules of the controllers are asked for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from unisono.api import core
from unisono.api.annotations import CLUSTER, CLUSTER_POINTS, PROMISED_TO, SCALED_AT
from unisono.api.base import Object
from unisono.api.groups.batch import Job, JobSpec
from unisono.api.groups.scheduling import PodGroup
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_SETS, RAY_CLUSTERS
from unisono.api.kinds import JOBS, POD_GROUPS
from unisono.api.pod_limit import MOST_PODS
from unisono.cluster.hypertree import CLUSTER_TIER
from unisono.controllers.job import view
from unisono.controllers.job.pods import PodBuilder, pod_group_for
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import to_json
from unisono.controllers.plan import Resource
from unisono.controllers.pod_groups import spec_patch
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.jobset.decide import decide as decide_job_set
from unisono.controllers.training.kubeflow.decide import decide as decide_training
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.plan import TrainingPlan
from unisono.controllers.training.ray.cluster import decide as decide_ray
from unisono.controllers.training.registry import FRAMEWORKS
from unisono.errors import AlreadyExists
from unisono.fleet.jobs.translation import CLUSTER_TIER_NAME, REGION_TIER_NAME
from unisono.jobkinds.volcano import with_defaults
from unisono.kube.client import Client

# The PodGroup that stands for a job or a HyperJob on the hub.


async def bring_group(client: Client, found: PodGroup | None, wanted: PodGroup) -> None:
    """Create the PodGroup, or bring its spec to what is wanted; one that is being deleted is left alone.

    Args:
        client: of the hub.
        found: the PodGroup of that name, as it is known; one that has come since then is left for the next look.
        wanted: as the job asks for it.
    """
    meta = wanted.metadata
    if found is None:
        with suppress(AlreadyExists):
            await client.create(POD_GROUPS, wanted)
    elif found.metadata.deletion_timestamp is None and (patch := spec_patch(found, wanted)):
        await client.patch(POD_GROUPS, meta.name, {"spec": patch}, namespace=meta.namespace)


# Pods that stand for a job of a hub, kept to some of its members, and with points for them (pure).


def keeping_to(spec: core.PodSpec, clusters: Collection[str], operator: Literal["In", "NotIn"] = "In") -> core.PodSpec:
    """The spec with clusters as one more required expression in every term of its node affinity."""
    return requiring(spec, core.NodeSelectorRequirement(key=CLUSTER, operator=operator, values=sorted(set(clusters))))


def requiring(spec: core.PodSpec, wanted: core.NodeSelectorRequirement) -> core.PodSpec:
    """The spec with one more required expression in every term of its node affinity."""
    affinity = spec.affinity or core.Affinity()
    nodes = affinity.node_affinity or core.NodeAffinity()
    required = nodes.required_during_scheduling_ignored_during_execution
    given = (required.node_selector_terms if required is not None else None) or [
        core.NodeSelectorTerm(match_expressions=[])
    ]
    terms = [
        msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), wanted])
        for term in given
        if required is None or term.match_expressions or term.match_fields
    ]
    bound = msgspec.structs.replace(
        nodes, required_during_scheduling_ignored_during_execution=core.NodeSelector(node_selector_terms=terms)
    )
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, node_affinity=bound))


def guided(
    pods: Sequence[core.Pod],
    clusters: Collection[str] | None,
    outside: Collection[str],
    points: Mapping[str, Mapping[str, float]],
    promised: str = "",
) -> tuple[core.Pod, ...]:
    """The pods kept to some clusters, with points for them.

    Args:
        pods: of one job.
        clusters: those that may have them; None for all.
        outside: those that may not.
        points: by reason and cluster.
        promised: uid of the job where machines that may come are promised to it.
    """
    text = msgspec.json.encode(points, order="deterministic").decode() if points else ""
    return tuple(_guided(pod, clusters, outside, text, promised) for pod in pods)


def _guided(
    pod: core.Pod, clusters: Collection[str] | None, outside: Collection[str], text: str, promised: str
) -> core.Pod:
    meta, spec = pod.metadata, pod.spec
    given = meta.annotations or {}
    if text or CLUSTER_POINTS in given:
        # What a user writes there says nothing.
        marks = {key: value for key, value in given.items() if key != CLUSTER_POINTS}
        meta = msgspec.structs.replace(meta, annotations={**marks, CLUSTER_POINTS: text} if text else marks)
    if clusters is not None:
        spec = keeping_to(spec, clusters)
    elif outside:
        spec = keeping_to(spec, outside, "NotIn")
    if promised:
        mine = core.Toleration(key=PROMISED_TO, operator="Equal", value=promised, effect="NoSchedule")
        spec = msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), mine])
    elif any(not each.key and each.operator == "Exists" for each in spec.tolerations or ()):
        # It endures every taint, but machines that may come for others are none of its.
        spec = requiring(spec, core.NodeSelectorRequirement(key=PROMISED_TO, operator="DoesNotExist"))
    return pod if meta is pod.metadata and spec is pod.spec else msgspec.structs.replace(pod, metadata=meta, spec=spec)


Decide = Callable[[Seen[Any], float], TrainingPlan]
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
    pods: tuple[core.Pod, ...]


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
    return Work(_within_one_cluster(made.group), tuple(bare(pod) for pod in made.pods))


def _volcano(job: Job, priority: Priorities) -> Work:
    view = JobView(job)
    builder = PodBuilder(view, ())
    pods = [builder.build(task, index) for task in view.tasks for index in range(min(task.replicas, MOST_PODS))]
    return Work(pod_group_for(view, view.version, priority), tuple(pods[:MOST_PODS]))


def _training(kind: Kind[Any], job: Object, now: float, priority: Priorities) -> Work | None:
    made = made_of(kind, job, now, priority)
    return Work(made.group, tuple(made.seen.pods)) if made is not None else None


@dataclass(frozen=True, slots=True)
class Made:
    """What the controller of a training job makes of it.

    Attributes:
        seen: the job without a status, its admitted PodGroup, and its pods and their Services.
        group: the PodGroup as it is made.
        besides: all other objects.
    """

    seen: Seen[Any]
    group: PodGroup
    besides: tuple[Resource, ...]


def made_of(kind: Kind[Any], job: Object, now: float, priority: Priorities) -> Made | None:
    """Ask the kind's decisions again and again, with what they wanted so far, until they want no more pods."""
    decide = _TRAINING[kind]
    fresh = msgspec.convert({**msgspec.to_builtins(job), "status": {}}, kind.struct)
    seen: Seen[Any] = Seen(job=fresh, priority=priority)
    group = decide(seen, now).create_group
    if group is None:
        return None
    # As the server would have it: what is written has no uid.
    meta = msgspec.structs.replace(group.metadata, uid=job.metadata.uid)
    status = msgspec.structs.replace(group.status, phase="Inqueue")
    seen.group = msgspec.structs.replace(group, metadata=meta, status=status)
    besides: tuple[Resource, ...] = ()
    while len(seen.pods) < MOST_PODS:
        plan = decide(seen, now)
        besides = tuple(plan.ensure)
        seen.services.extend(plan.create_services)
        fresh_pods = [build() for build in plan.create_pods]
        names = {pod.metadata.name for pod in seen.pods}
        fresh_pods = [pod for pod in fresh_pods if pod.metadata.name not in names]
        if not fresh_pods:
            break
        seen.pods.extend(fresh_pods)
    return Made(seen, group, besides)


def plan_of(kind: Kind[Any], seen: Seen[Any], now: float) -> TrainingPlan:
    """What the controller of a training job would do where it sees this."""
    return _TRAINING[kind](seen, now)


def _within_one_cluster(group: PodGroup) -> PodGroup:
    """The gang with a hard bound."""
    bound = bound_within(group.spec.network_topology)
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, network_topology=bound))


def bound_within(given: NetworkTopologySpec | None) -> NetworkTopologySpec:
    """The hard bound of a gang: its own where it has one that lies within a cluster, else one cluster."""
    if given is not None and given.mode != "soft":
        tier, name = given.highest_tier_allowed, given.highest_tier_name
        if (tier is not None and tier < CLUSTER_TIER) or (name and name != REGION_TIER_NAME):
            return given
    return NetworkTopologySpec(mode="hard", highest_tier_name=CLUSTER_TIER_NAME)


def bare(pod: core.Pod) -> core.Pod:
    """The pod without volumes and claims, which exist in members alone."""
    spec = msgspec.structs.replace(pod.spec, volumes=None, resource_claims=None)
    return msgspec.structs.replace(pod, spec=spec)


# What of a job may change while a member has its copy, and how the copy follows: JSON patches (pure).
#
# A copy that is held back has no pods: all its tasks have no replicas. To open it is to bring its sizes to what the job
# asks for, which is also how a job that runs is scaled. Sizes that the member scales by itself have one owner, which is
# the member: two who write one field would do so for ever.

# What a hub believes of a status that a member tells (pure): a member may be mistaken, or hostile.

MOST_BYTES: Final = 256 * 1024
"""Of a status that is taken over."""
_MOST_COUNT: Final = 2**31 - 1
_DEEPEST_STATUS: Final = 12
_PHASES: Final = frozenset({"", *view.TRANSITIONS, *view.KILLING, *view.STOPPED})


def disbelief(copied: Object, *, counts: bool = True) -> str:
    """Why the status of a copy is not taken over; empty where it is. ``counts``: all numbers in it are counts."""
    status = to_json(getattr(copied, "status", None))
    size = len(msgspec.json.encode(status))
    if size > MOST_BYTES:
        return f"the status has {size} bytes, and no more than {MOST_BYTES} are taken over"
    if isinstance(copied, Job) and (phase := copied.status.state.phase or "") not in _PHASES:
        return f"{phase[:40]!r} is no phase of a job"
    return _bad_number(status, 0, counts=counts)


def _bad_number(value: Any, depth: int, *, counts: bool) -> str:
    if depth > _DEEPEST_STATUS:
        return "the status is nested too deeply"
    if isinstance(value, bool):
        return ""
    if counts and isinstance(value, int) and not 0 <= value <= _MOST_COUNT:
        return f"{str(value)[:20]} is no count"
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_bad_number(each, depth + 1, counts=counts) for each in inner)), "")


Operation = dict[str, Any]

_FOLLOWED = frozenset({"suspend", "replicas", "minReplicas", "maxReplicas", "minAvailable", "priorityClass"})
"""Fields of training jobs that may change while pods exist, outside of pod templates."""
_SCALED_THERE = frozenset({"replicas"})
"""What an autoscaler of the member changes where the job lets it."""
_DEEPEST = 8


def changes(job: Object, copied: Object, *, held: bool = False) -> list[Operation]:
    """JSON patch that brings what may change of a job to its copy; empty where they agree.

    Args:
        job: the hub's job.
        copied: its copy.
        held: of a part of a gang: the copy is to have no pods.
    """
    scaled_there = SCALED_AT in (copied.metadata.annotations or {})
    if isinstance(job, Job) and isinstance(copied, Job):
        own = scaled_there and not held and not is_held(copied)
        operations = list(_of_job(with_defaults(job), copied.spec, held=held, own_size=own))
    else:
        desired, have = to_json(getattr(job, "spec", None)), to_json(getattr(copied, "spec", None))
        scaled_there |= bool(desired.get("elasticPolicy") or desired.get("enableInTreeAutoscaling"))
        operations = list(
            _of_training(desired, have, _FOLLOWED - _SCALED_THERE if scaled_there else _FOLLOWED, "/spec", 0)
        )
    return [{"op": "test", "path": "/metadata/uid", "value": copied.metadata.uid}, *operations] if operations else []


def _of_training(wanted: Any, found: Any, followed: frozenset[str], path: str, depth: int) -> Iterator[Operation]:
    """Fields that are followed, wherever both have the same structure."""
    if depth > _DEEPEST:
        return
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _of_training(one, other, followed, f"{path}/{index}", depth + 1)
    elif isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            one, other = wanted.get(key), found.get(key)
            if key in followed:
                # A job that says nothing is not suspended; of sizes it leaves the choice to the member.
                yield from _set(f"{path}/{key}", *((bool(one), bool(other)) if key == "suspend" else (one, other)))
            elif key != "template":
                yield from _of_training(one, other, followed, f"{path}/{_escaped(key)}", depth + 1)


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def can_be_held(job: Job) -> bool:
    """Whether a copy without pods is allowed: a task with a partition policy has as many as its partitions, always."""
    return all(task.partition_policy is None for task in job.spec.tasks or ())


def is_held(copied: Job) -> bool:
    """Whether a copy has no pods at present."""
    return not any(task.replicas for task in copied.spec.tasks or ())


def held_back(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job's spec, as JSON, without pods."""
    tasks = [{**task, "replicas": 0, "minAvailable": 0} for task in spec.get("tasks") or ()]
    return {**spec, "minAvailable": 0, "tasks": tasks}


def _of_job(wanted: JobSpec, found: JobSpec, *, held: bool, own_size: bool) -> Iterator[Operation]:
    """``own_size``: the member says how many replicas the last task has, which is the one that is scaled."""
    tasks = list(zip(wanted.tasks or (), found.tasks or (), strict=False))
    if len(tasks) != len(wanted.tasks or ()) or len(tasks) != len(found.tasks or ()):
        return
    for index, (task, before) in enumerate(tasks):
        path = f"/spec/tasks/{index}"
        if not (own_size and index == len(tasks) - 1):
            yield from _set(f"{path}/replicas", 0 if held else task.replicas, before.replicas)
        yield from _set(f"{path}/minAvailable", 0 if held else task.min_available, before.min_available)
    yield from _set("/spec/minAvailable", 0 if held else wanted.min_available, found.min_available)
    yield from _set("/spec/priorityClassName", wanted.priority_class_name or None, found.priority_class_name or None)


def _set(path: str, wanted: Any, found: Any) -> Iterator[Operation]:
    """What the job does not say is the member's to fill in; a priority that is taken away goes."""
    if wanted == found:
        return
    if wanted is not None:
        yield {"op": "add", "path": path, "value": wanted}
    elif path.endswith("priorityClassName"):
        yield {"op": "remove", "path": path}
