"""What an object says of itself: its phase, whether it is over, which scheduler it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.api.decode import decode
from unisono.api.kind_families import DEPLOYMENTS
from unisono.api.kinds import JOBS
from unisono.jobkinds.registry import has_ended, missing_pods
from unisono.sdk.fixes.pod_specs import pod_specs
from unisono.sdk.jobs.control import job_kind_of
from unisono.sdk.state.dependents import Dependents
from unisono.sdk.state.observing import workload_view
from unisono.sdk.state.waiting import pods_text

if TYPE_CHECKING:
    from unisono.api.kind import Kind

# What Volcano Jobs and PodGroups are scheduled by where they name no scheduler.
DEFAULT_SCHEDULER = "volcano"
# Phases of a Volcano Job in which its message says how it came to that.
_TELLING = ("Aborting", "Aborted", "Failed", "Restarting", "Terminating", "Terminated")
# Phases and conditions after which no pods are wanted any more.


def scheduler_of(item: Mapping[str, Any], found: Dependents) -> str:
    """``schedulerName`` of the pods that have no node, or of those that the object will have."""
    unbound = scheduler_names(found)
    if unbound:
        return unbound[0]
    stated = (item.get("spec") or {}).get("schedulerName")
    names = {spec.get("schedulerName") or DEFAULT_SCHEDULER for spec in pod_specs(dict(item))} if not stated else set()
    return stated or (names.pop() if len(names) == 1 else DEFAULT_SCHEDULER)


def scheduler_names(found: Dependents) -> list[str]:
    """``schedulerName`` of the pods that have no node, each once."""
    waiting = (pod for pod in found.pods if not pod.spec.node_name)
    return [*dict.fromkeys(pod.spec.scheduler_name or "default-scheduler" for pod in waiting)]


def unseen_by(item: Mapping[str, Any], found: Dependents) -> str:
    """The scheduler that has not looked at a PodGroup of the object; empty where it has, or there is none."""
    waiting = any((group.status.phase or "Pending") == "Pending" for group in found.groups)
    if not waiting or found.pods or is_over(item):
        return ""
    return (item.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER


def is_over(item: Mapping[str, Any]) -> bool:
    """Whether the object wants no more pods."""
    return has_ended(item)


def state_text(kind: Kind[Any] | None, owner: Any, found: Dependents) -> str:
    """What the object itself says it is doing."""
    pods = pods_text(found.pods)
    if kind is None:
        return pods
    if kind.resource == JOBS.resource:
        state = owner.status.state
        if state is None or not state.phase:
            return "its phase is Pending, its PodGroup comes next"
        reason_text = (state.message or state.reason or "").rstrip(".")
        text = f"its phase is {state.phase}" + (f": {reason_text}" if reason_text and state.phase in _TELLING else "")
        again = f"; unisono job resume --name {owner.metadata.name} starts it again"
        return text + (again if state.phase in ("Aborting", "Aborted") else "")
    if job_kind_of(kind) is None:
        parts = f"{len(found.parts)} {found.parts[0].kind or 'part'}s, and " if len(found.parts) > 1 else ""
        return pods.replace("it has ", f"it has {parts}", 1) + _rollout_text(owner)
    view = workload_view(owner, found.parts, found.groups, found.pods)
    message = f": {view.message.rstrip('.')}" if view.message else ""
    return f"its phase is {view.phase}{message}; {pods}"


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far the rollout of a Deployment's newest revision is, in pods.

    Attributes:
        desired: pods that are wanted.
        there: of the newest revision.
        old: of older ones.
        ready: of all of them.
        surge: that may be there beyond those that are wanted.
        missing: that may be missing of them.
    """

    desired: int
    there: int
    old: int
    ready: int
    surge: int
    missing: int


def rollout_of(deployment: Any) -> Rollout | None:
    """The rolling update of a Deployment, decoded; None where it is over, and for other kinds."""
    from unisono.controllers.workloads.deployment_decide import limits

    if not isinstance(deployment, DEPLOYMENTS.struct) or deployment.spec.strategy.rolling_update is None:
        return None
    desired, there = deployment.spec.replicas, deployment.status.updated_replicas or 0
    old = (deployment.status.replicas or 0) - there
    if old <= 0 or desired is None or there >= desired:
        return None
    return Rollout(desired, there, old, deployment.status.ready_replicas or 0, *limits(deployment))


def missing_now(item: Mapping[str, Any], there: int) -> int:
    """How many pods an object is about to make, where ``there`` are; in a rollout no more than it may have."""
    missing = missing_pods(item, there)
    rollout = rollout_of(decode(DEPLOYMENTS, item).obj) if item.get("kind") == DEPLOYMENTS.kind else None
    if rollout is None or not rollout.ready:  # old pods that do not run go at once
        return missing
    return min(missing, max(rollout.desired + rollout.surge - rollout.there - rollout.old, rollout.missing, 1))


def _rollout_text(owner: Any) -> str:
    rollout = rollout_of(owner)
    if rollout is None:
        return ""
    rolling = owner.spec.strategy.rolling_update
    how = f" (maxSurge {rolling.max_surge}, maxUnavailable {rolling.max_unavailable})"
    newest = f"{rollout.there} of {rollout.desired} pods are of the newest revision"
    return f"; its rollout is not over: {newest}, {rollout.old} of older ones{how}"


def queue_state(item: Mapping[str, Any]) -> str:
    """Of a queue."""
    status = item.get("status") or {}
    counts = ", ".join(f"{status.get(name) or 0} {name}" for name in ("pending", "inqueue", "running"))
    return f"it is {status.get('state') or 'not opened yet'}, with {counts} PodGroups"
