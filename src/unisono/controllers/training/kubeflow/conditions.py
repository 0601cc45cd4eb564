"""The list of conditions of a training job. Its order is an interface: tools show the last entry as the job's state."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unisono.api.conditions import is_true
from unisono.api.groups.kubeflow import TrainingCondition
from unisono.controllers.training.kubeflow.view import FAILED, RESTARTING, RUNNING, SUCCEEDED

# Setting the one takes the other away.
_EXCLUSIVE = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def with_condition(
    conditions: Iterable[TrainingCondition], wanted: TrainingCondition, now: str
) -> list[TrainingCondition]:
    """The list with one condition set.

    A job that failed stays as it is. A condition that says the same already keeps its message and its place; any other
    moves to the end. The end of a job turns its Running condition to false.

    Args:
        conditions: the list as it was; it is not changed.
        wanted: type, status, reason and message to set.
        now: time in RFC 3339.

    """
    old = list(conditions)
    if is_true(old, FAILED):
        return old
    same = next((each for each in old if each.type == wanted.type), None)
    if same is not None and (same.status, same.reason) == (wanted.status, wanted.reason):
        return old
    kept = same is not None and same.status == wanted.status
    since = same.last_transition_time if same is not None and kept else now
    entry = msgspec.structs.replace(wanted, last_update_time=now, last_transition_time=since)
    return [
        _ended(each, now) if wanted.type in (FAILED, SUCCEEDED) and each.type == RUNNING else each
        for each in old
        if each.type not in (wanted.type, _EXCLUSIVE.get(wanted.type))
    ] + [entry]


def _ended(running: TrainingCondition, now: str) -> TrainingCondition:
    if running.status == "False":
        return running
    return msgspec.structs.replace(running, status="False", last_update_time=now, last_transition_time=now)
