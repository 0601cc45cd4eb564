"""Status of a Deployment: counts, and whether it gets on (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api.conditions import find_condition
from unisono.api.groups.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from unisono.api.times import parse_time, rfc3339
from unisono.controllers.workloads.deployment_decide import DeploymentPlan, is_complete
from unisono.controllers.workloads.deployment_sets import limits, wanted

_NO_DEADLINE = 2**31 - 1
_AVAILABLE = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_UNAVAILABLE = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
_PAUSED = ("Unknown", "DeploymentPaused", "Deployment is paused")
_RESUMED = ("Unknown", "DeploymentResumed", "Deployment is resumed")
_DONE = "NewReplicaSetAvailable"
_STUCK = "ProgressDeadlineExceeded"


def status_of(deployment: Deployment, sets: Sequence[ReplicaSet], plan: DeploymentPlan, now: float) -> DeploymentStatus:
    """The status for these ReplicaSets, with the conditions that ``kubectl rollout status`` and ``wait`` read.

    Args:
        deployment: the Deployment.
        sets: its ReplicaSets as they were before the plan.
        plan: what is being done about them.
        now: seconds since 1970.

    """
    old = deployment.status
    total = sum(each.status.replicas or 0 for each in sets)
    available = sum(each.status.available_replicas or 0 for each in sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=total or None,
        updated_replicas=(plan.new.status.replicas or None) if plan.new is not None else None,
        ready_replicas=sum(each.status.ready_replicas or 0 for each in sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(0, total - available) or None,
        terminating_replicas=sum(each.status.terminating_replicas or 0 for each in sets) or None,
        collision_count=old.collision_count,
        conditions=list(old.conditions or ()),
    )
    enough = available >= wanted(deployment) - limits(deployment)[1]
    _set(status, "Available", _AVAILABLE if enough else _UNAVAILABLE, now)
    _progress(deployment, status, plan, now)
    failure = next((c for each in sets for c in each.status.conditions or () if c.type == "ReplicaFailure"), None)
    if failure is not None and failure.status == "True":
        _set(status, "ReplicaFailure", ("True", failure.reason or "", failure.message or ""), now)
    else:
        status.conditions = [each for each in status.conditions or () if each.type != "ReplicaFailure"]
    return status


def deadline(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Seconds until the Deployment counts as stuck if nothing happens; None when it never does."""
    progress = _find(status, "Progressing")
    seconds = deployment.spec.progress_deadline_seconds
    if progress is None or seconds in (None, _NO_DEADLINE) or progress.reason in (_DONE, _STUCK):
        return None
    if deployment.spec.paused or not progress.last_update_time:
        return None
    return max(0.0, parse_time(progress.last_update_time) + (seconds or 0) - now) + 1.0


def _progress(deployment: Deployment, status: DeploymentStatus, plan: DeploymentPlan, now: float) -> None:
    if deployment.spec.progress_deadline_seconds in (None, _NO_DEADLINE):
        status.conditions = [each for each in status.conditions or () if each.type != "Progressing"]
        return
    before = _find(status, "Progressing")
    reason = before.reason if before is not None else None
    if deployment.spec.paused:
        if reason not in (_STUCK, _PAUSED[1]):
            _set(status, "Progressing", _PAUSED, now)
        return
    if reason == _PAUSED[1]:
        _set(status, "Progressing", _RESUMED, now)
        return
    name = plan.create.metadata.name if plan.create is not None else plan.new.metadata.name if plan.new else ""
    if plan.create is not None:
        _set(status, "Progressing", ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"'), now)
        return
    if before is None and plan.new is not None:
        _set(status, "Progressing", ("True", "FoundNewReplicaSet", f'Found new replica set "{name}"'), now)
        return
    if reason == _DONE and status.replicas == status.updated_replicas:
        # A pod that fails after the update is none of the update's business.
        return
    subject = f'ReplicaSet "{name}"' if name else f'Deployment "{deployment.metadata.name}"'
    if is_complete(msgspec.structs.replace(deployment, status=status)):
        _set(status, "Progressing", ("True", _DONE, f"{subject} has successfully progressed."), now)
    elif _moved(deployment.status, status):
        _set(status, "Progressing", ("True", "ReplicaSetUpdated", f"{subject} is progressing."), now, touch=True)
    elif before is not None and reason != _STUCK and _is_late(deployment, before, now):
        _set(status, "Progressing", ("False", _STUCK, f"{subject} has timed out progressing."), now)


def _is_late(deployment: Deployment, progress: DeploymentCondition, now: float) -> bool:
    since = progress.last_update_time
    return bool(since) and parse_time(since or "") + (deployment.spec.progress_deadline_seconds or 0) < now


def _moved(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """More new pods, fewer old ones, or more that are ready or available."""

    def outdated(status: DeploymentStatus) -> int:
        return (status.replicas or 0) - (status.updated_replicas or 0)

    return (
        (new.updated_replicas or 0) > (old.updated_replicas or 0)
        or outdated(new) < outdated(old)
        or (new.ready_replicas or 0) > (old.ready_replicas or 0)
        or (new.available_replicas or 0) > (old.available_replicas or 0)
    )


def _find(status: DeploymentStatus, name: str) -> DeploymentCondition | None:
    return find_condition(status.conditions, name)


def _set(status: DeploymentStatus, name: str, value: tuple[str, str, str], now: float, *, touch: bool = False) -> None:
    """Set a condition; one with the same status and reason stays as it is unless ``touch`` renews its update time."""
    before, stamp = _find(status, name), rfc3339(now)
    state, reason, message = value
    if before is not None and (before.status, before.reason) == (state, reason) and not touch:
        return
    since = before.last_transition_time if before is not None and before.status == state else stamp
    found = DeploymentCondition(
        type=name,
        status=state,
        reason=reason,
        message=message,
        last_update_time=stamp,
        last_transition_time=since,
    )
    status.conditions = [*(each for each in status.conditions or () if each.type != name), found]
