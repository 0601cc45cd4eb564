"""What objects say of their own times: when a pod began and ceased to hold its node, when a job ended (pure).

Only what the server itself has set is believed without bounds: no pod begins before it was created, and nothing ends
after the moment at which it is heard of.
"""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object
from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.membership import controller_of
from unisono.api.pod_end import pod_end
from unisono.api.pod_states import container_statuses, has_ended, scheduled_at
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests
from unisono.api.times import time_or
from unisono.history.records import DELETED, EVICTED

_TRUE = "True"


def millis(text: str | None) -> int:
    """Milliseconds since 1970 of a time on the wire; 0 for none, and for what is none."""
    return round(time_or(text) * 1000)


def owner_of(obj: Object) -> tuple[str, str, str, str]:
    """``(uid, apiVersion, kind, name)`` of an object's controller; empty texts without one."""
    owner = controller_of(obj)
    return ("", "", "", "") if owner is None else (owner.uid, owner.api_version, owner.kind, owner.name)


def began(pod: Pod, now: int) -> int:
    """When the pod got its node; 0 where it has none.

    A pod may name its node itself, and ask for more than any node has: it holds nothing before the node has spoken, and
    nothing at all where the node refuses it.
    """
    if not pod.spec.node_name:
        return 0
    scheduled = is_true(pod.status.conditions, "PodScheduled")
    told = millis(scheduled_at(pod)) or millis(pod.status.start_time)
    phase = pod.status.phase or "Pending"
    refused = phase == "Failed" and not scheduled and not pod.status.container_statuses
    if refused or (not told and phase == "Pending"):
        return 0
    created = min(millis(pod.metadata.creation_timestamp) or now, now)
    return max(created, min(told or now, now))


def is_over(pod: Pod) -> bool:
    """The pod holds nothing any more."""
    return has_ended(pod)


def over_at(pod: Pod, start: int, now: int) -> int:
    """When a pod ceased to hold its node: as its last container ended, else now."""
    statuses = container_statuses(pod)
    ends = [millis(each.state.terminated.finished_at) for each in statuses if each.state and each.state.terminated]
    running = any(each.state and each.state.running for each in statuses)
    told = 0 if running else max(ends, default=0)
    return max(start, min(told or now, now))


def outcome_of(pod: Pod) -> tuple[str, int | None]:
    """How the pod ended, and the exit code that explains it."""
    end = pod_end(pod)
    if pod.status.phase == "Succeeded":
        return "Succeeded", end.exit_code
    if is_true(pod.status.conditions, "DisruptionTarget"):
        return EVICTED, end.exit_code
    return ("Failed" if pod.status.phase == "Failed" else DELETED), end.exit_code


def restarts_of(pod: Pod) -> int:
    """How often containers of the pod were started again in place."""
    return sum(each.restart_count or 0 for each in pod.status.container_statuses or ())


def requests_of(pod: Pod) -> dict[str, int]:
    """What the pod holds on its node; nothing where that cannot be read."""
    try:
        return {name: amount for name, amount in pod_requests(pod.spec).items() if amount > 0}
    except QuantityError:
        return {}


def job_ended_at(job: Any, created: int, now: int) -> int:
    """When a job that has ended did so, as it says itself, else now."""
    status = job.status
    state = getattr(status, "state", None)
    told = (
        millis(getattr(status, "completion_time", None))
        or millis(getattr(status, "end_time", None))
        or millis(getattr(state, "last_transition_time", None))
    )
    if not told and not isinstance(getattr(status, "conditions", None), dict):
        ends = ("Succeeded", "Complete", "Completed", "Failed")
        conditions = getattr(status, "conditions", None) or ()
        times = (
            millis(getattr(each, "last_transition_time", None))
            for each in conditions
            if getattr(each, "type", "") in ends and getattr(each, "status", "") == _TRUE
        )
        told = max(times, default=0)
    return max(created, min(told or now, now))
