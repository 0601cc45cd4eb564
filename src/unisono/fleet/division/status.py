"""Status of a divided workload: what its copies say, added up (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from unisono.api.groups.apps import DeploymentCondition, WorkloadCondition
from unisono.api.groups.batch_v1 import BatchJobCondition
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, DEPLOYMENTS
from unisono.api.times import rfc3339

_COUNTS: Final = (
    "replicas", "updated_replicas", "ready_replicas", "available_replicas", "unavailable_replicas", "current_replicas",
    "terminating_replicas", "active", "succeeded", "failed", "ready", "terminating",
)  # fmt: skip
_MOST: Final = 2**31 - 1


def summed(
    kind: Kind[Any],
    obj: Any,
    copies: Sequence[Any],
    *,
    complete: bool,
    wanted: int,
    why: str,
    now: float,
    waits: str = "",
) -> Any:
    """The status.

    Args:
        kind: of the workload.
        obj: the hub's object.
        copies: its copies in members that answer.
        complete: every member that should have a copy has it as it should be.
        wanted: pods in all members together.
        why: why it is not divided as it should be; empty where it is.
        now: seconds since 1970.
        waits: for which machines some wait; empty where none do.
    """
    old = obj.status
    names = {each.name for each in msgspec.structs.fields(type(old))}
    counts = {name: min(sum(_count(copy, name) for copy in copies), _MOST) or None for name in _COUNTS if name in names}
    status = msgspec.structs.replace(old, **counts)
    if kind is BATCH_JOBS:
        return _ended(status, copies, complete=complete)
    if complete and all((copy.status.observed_generation or 0) >= (copy.metadata.generation or 0) for copy in copies):
        status = msgspec.structs.replace(status, observed_generation=obj.metadata.generation)
    make = DeploymentCondition if kind is DEPLOYMENTS else WorkloadCondition
    available = (status.available_replicas or 0) >= wanted and not why
    new_conditions = [
        make(
            type="Available",
            status="True" if available else "False",
            reason="MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable",
            message=f"{status.available_replicas or 0} of {wanted} replicas are available in all members",
        ),
        make(
            type="Divided",
            status="False" if why else "True",
            reason="NotEnoughRoom" if why else "Divided",
            message=why or "all replicas have a member" + (f"; {waits}" if waits else ""),
        ),
    ]
    return msgspec.structs.replace(
        status, conditions=[_dated(old.conditions or (), each, now) for each in new_conditions]
    )


def _count(copy: Any, name: str) -> int:
    return max(0, getattr(copy.status, name, None) or 0)


def _dated(before: Sequence[Any], condition: Any, now: float) -> Any:
    old = next((each for each in before if each.type == condition.type), None)
    changed = old is None or old.status != condition.status
    since = rfc3339(now) if changed or old is None else old.last_transition_time
    return msgspec.structs.replace(condition, last_transition_time=since)


def _ended(status: Any, copies: Sequence[Any], *, complete: bool) -> Any:
    ends = [{each.type: each for each in copy.status.conditions or () if each.status == "True"} for copy in copies]
    starts = [copy.status.start_time for copy in copies if copy.status.start_time]
    status = msgspec.structs.replace(status, start_time=min(starts, default=None))
    failed = next((each["Failed"] for each in ends if "Failed" in each), None)
    done = complete and bool(ends) and all("Complete" in each for each in ends)
    if failed is None and not done:
        return msgspec.structs.replace(status, conditions=None, completion_time=None)
    end = failed or max((each["Complete"] for each in ends), key=lambda each: each.last_transition_time or "")
    times = [copy.status.completion_time for copy in copies if copy.status.completion_time]
    condition = BatchJobCondition(
        type=end.type,
        status="True",
        reason=end.reason,
        message=end.message,
        last_transition_time=end.last_transition_time,
    )
    return msgspec.structs.replace(
        status, conditions=[condition], completion_time=max(times, default=None) if done else None
    )
