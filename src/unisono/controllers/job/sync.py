"""Bringing an active job's objects to what its spec asks for, task by task as ``dependsOn`` lets them start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from unisono.api.groups.batch import Command, JobStatus, VolumeSpec
from unisono.api.groups.scheduling import PodGroup
from unisono.controllers import pod_groups
from unisono.controllers.job.observed import Observed, Tally, TaskPod
from unisono.controllers.job.plugins import PluginError, load
from unisono.controllers.job.pods import claims_to_make, job_volumes, named_volumes, pod_group_for
from unisono.controllers.job.policies import group_version
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.objects import SLICE
from unisono.controllers.plan import BasePlan

_NUMBERS = re.compile(r"\d+(\.\d+)?")

# ``dependsOn``: which tasks may start, and which never will. Linear in the pods, the tasks and what they depend on.


def ready_tasks(view: JobView, pods: Iterable[TaskPod]) -> frozenset[str]:
    """Names of tasks of which enough pods run with every container ready, or succeeded."""
    ready = Counter(pod.task for pod in pods if not pod.deleting and not pod.marked and pod.ready)
    return frozenset(task.name for task in view.tasks if ready[task.name] >= task.min_available)


def may_start(task: TaskView, ready: Collection[str]) -> bool:
    """Whether the tasks on which ``task`` depends are among ``ready``: all of them, or any where it says so."""
    if not task.depends_on:
        return True
    dependencies = (name in ready for name in task.depends_on)
    return any(dependencies) if task.any_dependency else all(dependencies)


def present_tasks(view: JobView, pods: Iterable[TaskPod], expected: frozenset[str] = frozenset()) -> list[TaskView]:
    """Tasks whose pods may exist: they wait for no other task, or have pods. The gang is made of these.

    Args:
        view: the job.
        pods: its pods.
        expected: names of pods that were made and are not among ``pods`` yet.
    """
    if not any(task.depends_on for task in view.tasks):
        return view.tasks
    made, ready = {pod.task for pod in pods}, ready_tasks(view, pods)
    return [
        task
        for task in view.tasks
        if task.name in made
        or may_start(task, ready)
        or any(task.pod_name(index) in expected for index in range(task.replicas if expected else 0))
    ]


def unreachable(view: JobView, counts: Tally) -> list[TaskView]:
    """Tasks without any pod whose dependencies have failed for good, directly or through others."""
    left: dict[str, int] = {}
    waiting: dict[str, list[TaskView]] = {}
    for task in view.tasks:
        names = set(task.depends_on)
        # So many of its dependencies must be lost before the task is.
        left[task.name] = len(names) if task.any_dependency else 1
        for name in names if task.name not in counts.tasks else ():
            waiting.setdefault(name, []).append(task)
    lost = [name for name in waiting if _is_lost(view.task(name), counts)]
    blocked: set[str] = set()
    while lost:
        for task in waiting.get(lost.pop(), ()):
            left[task.name] -= 1
            if left[task.name] == 0:
                blocked.add(task.name)
                if not _is_lost(task, counts):
                    lost.append(task.name)
    return [task for task in view.tasks if task.name in blocked]


def _is_lost(task: TaskView | None, counts: Tally) -> bool:
    return task is None or task.replicas - counts.of(task.name, "Failed") < task.min_available


# What a decision about a job wants done besides what all kinds of jobs have in common.


@dataclass(frozen=True, slots=True)
class PodSlot:
    """A pod to make."""

    task: str
    index: int
    name: str


@dataclass(slots=True)
class VolcanoPlan(BasePlan):
    """Steps in order: mark pods, name claims, write the status, drop commands, then objects, the pod group, the pods.

    A status that changes the phase is written alone: what follows from the new phase is decided from what is then
    stored, so a crash at any point leaves nothing half done that the next decision would not finish.

    Attributes:
        status: new status, None when it is the stored one.
        marks: pods to annotate before they are killed, name to annotations.
        volumes: the job's volumes with the names of its claims, where the spec does not have them yet.
        commands: commands that have been taken into account.
        remove_resources: what plug-ins made must go; done before the status forgets it.
        create_pods: pods to make, in order; each is built when its turn has come.
        got: kinds of nodes that the gang got, for which they are made.
    """

    status: JobStatus | None = None
    marks: dict[str, dict[str, str]] = field(default_factory=dict)
    volumes: list[VolumeSpec] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    remove_resources: bool = False
    create_pods: list[PodSlot] = field(default_factory=list)
    got: str = ""


# Seconds until a claim that was missing is looked for again: claims are not watched.
_CLAIM_RETRY = 10.0


def plan_sync(
    plan: VolcanoPlan, view: JobView, pods: Sequence[TaskPod], seen: Observed, controlled: dict[str, str]
) -> tuple[str, str] | None:
    """Plan the objects, the pod group and the missing pods.

    Args:
        plan: gets the steps.
        view: the job.
        pods: its pods.
        seen: what else was observed.
        controlled: ``status.controlledResources``; gets what the plan makes.

    Returns:
        reason and message of what keeps the job from having its pods, None when nothing but time does.
    """
    blocked = _plan_objects(plan, view, seen, controlled)
    obstacle = _plan_group(plan, view, seen, present_tasks(view, pods, seen.expected))
    group = seen.pod_group
    if blocked is None and obstacle is None and group is not None and is_admitted(view, group):
        missing = _missing(view, pods, seen.expected)
        plan.create_pods = list(islice(missing, SLICE))
        if next(missing, None) is not None:
            plan.requeue_after = 0.0
    return blocked or obstacle


def is_admitted(view: JobView, group: PodGroup) -> bool:
    """Whether the scheduler let the gang of this version in: pods may exist from then on."""
    return pod_groups.is_admitted(group) and not group_is_outdated(view, group)


def group_is_outdated(view: JobView, group: PodGroup) -> bool:
    """Whether the pod group stood for pods of an older version of the job."""
    return group_version(view, group) < view.version or group.metadata.deletion_timestamp is not None


def _plan_objects(
    plan: VolcanoPlan, view: JobView, seen: Observed, controlled: dict[str, str]
) -> tuple[str, str] | None:
    """Objects of plug-ins, and claims."""
    try:
        plugins = load(view)
        made = [resource for plugin in plugins for resource in plugin.resources()]
    except PluginError as error:
        message = f"Execute plugin when job add failed, err: {error}"
        plan.warn("PluginError", message, once=message)
        return "PluginError", message
    for plugin in plugins:
        controlled[f"plugin-{plugin.name}"] = plugin.name
        for reason, text in plugin.remarks():
            plan.warn(reason, text, once=text)
    plan.ensure.extend(made)
    plan.volumes = named_volumes(view)
    for volume in job_volumes(view):
        controlled[f"volume-pvc-{volume.claim}"] = volume.claim
    plan.ensure.extend(claims_to_make(view))
    if not seen.missing_claims:
        return None
    missing = seen.missing_claims[0]
    message = f"pvc {missing} is not found, the job will be in the Pending state until the PVC is created"
    plan.warn("PVCError", f"Failed to create PVC, err: {message}", once=missing)
    plan.requeue_after = min(plan.requeue_after or _CLAIM_RETRY, _CLAIM_RETRY)
    return "PVCError", message


def _plan_group(
    plan: VolcanoPlan, view: JobView, seen: Observed, present: Sequence[TaskView]
) -> tuple[str, str] | None:
    """The pod group: made when absent, replaced after a restart of the whole job, patched when the job changed."""
    group = seen.pod_group
    if group is None:
        plan.create_group = pod_group_for(view.only(present), view.version, seen.priority)
        return None
    if not any(owner.uid == view.uid for owner in group.metadata.owner_references or ()):
        message = pod_groups.foreign_group(group)
        plan.warn("PodGroupError", f"Failed to create PodGroup, err: {message}", once=group.metadata.uid or "")
        return "PodGroupError", message
    if group_is_outdated(view, group):
        if not group.metadata.deletion_timestamp:
            plan.delete_group = group
        return None
    desired = pod_group_for(view.only(present), view.version, seen.priority)
    spec, metadata = pod_groups.spec_patch(group, desired), _notes(group, desired)
    if spec or metadata:
        patch = ({"spec": spec} if spec else {}) | ({"metadata": metadata} if metadata else {})
        plan.patch_group = view.pod_group_name, patch
    if not is_admitted(view, group):
        _tell_why_pending(plan, view, group)
    return None


def _notes(group: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    """Labels and annotations of the job that the pod group lacks; what others wrote there stays."""
    have, want = group.metadata, wanted.metadata
    pairs = {"labels": (have.labels, want.labels), "annotations": (have.annotations, want.annotations)}
    return {
        key: missing
        for key, (old, new) in pairs.items()
        if (missing := {name: value for name, value in (new or {}).items() if (old or {}).get(name) != value})
    }


def _tell_why_pending(plan: VolcanoPlan, view: JobView, group: PodGroup) -> None:
    """The newest condition that holds says why, unless it says that all is well."""
    holding = [c for c in group.status.conditions or () if c.status == "True"]
    newest = max(holding, key=lambda c: c.last_transition_time or "", default=None)
    if newest is not None and newest.type != "Scheduled":
        kind = (newest.type or "").lower()
        message = f"PodGroup {view.namespace}:{view.name} {kind}, reason: {newest.message}"
        # The condition follows the amounts, events do not: numbers that move are no news.
        plan.warn("PodGroupPending", message, once=_NUMBERS.sub("0", message))


def _missing(view: JobView, pods: Sequence[TaskPod], expected: frozenset[str]) -> Iterator[PodSlot]:
    """Pods to make, one after the other: the job may ask for very many."""
    names, ready = {pod.name for pod in pods} | expected, ready_tasks(view, pods)
    return (
        PodSlot(task.name, index, task.pod_name(index))
        for task in view.tasks
        if may_start(task, ready)
        for index in range(task.replicas)
        if task.pod_name(index) not in names
    )
