"""What to do about a queue: a pure function of the queue, its relatives, its pod groups and its commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.api.groups.batch import Command
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.keys import CLOSED_BY_PARENT
from unisono.controllers.objects import to_json

# The state machine of a Queue, as a table, and the counts of its status.

OPEN = "Open"
CLOSING = "Closing"
CLOSED = "Closed"
UNKNOWN = "Unknown"

OPEN_QUEUE = "OpenQueue"
CLOSE_QUEUE = "CloseQueue"
SYNC_QUEUE = "SyncQueue"

# States in which jobs are refused.
SHUT = frozenset({CLOSING, CLOSED})

# A queue to be closed is Closing as long as it holds work.
_SHUT_DOWN = "shut down"
_TABLE: Mapping[str, Mapping[str, str]] = {
    OPEN: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: OPEN},
    CLOSED: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: CLOSED, SYNC_QUEUE: CLOSED},
    CLOSING: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: _SHUT_DOWN},
    UNKNOWN: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: UNKNOWN},
}

_COUNTERS = {
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Completed": "completed",
    "Unknown": "unknown",
}


def next_state(state: str, action: str, busy: bool) -> str:
    """State after an action.

    Args:
        state: present state; empty means Open.
        action: OpenQueue or CloseQueue; anything else keeps the queue as it is.
        busy: whether the queue holds pod groups that are not completed.

    """
    row = _TABLE.get(state, _TABLE[OPEN] if not state else _TABLE[UNKNOWN])
    after = row.get(action, row[SYNC_QUEUE])
    if after == _SHUT_DOWN:
        return CLOSING if busy else CLOSED
    return after


def is_busy(groups: Iterable[PodGroup]) -> bool:
    """Whether any pod group is not completed: finished work does not keep a queue from closing."""
    return any(group.status.phase != "Completed" for group in groups)


def count_groups(groups: Iterable[PodGroup]) -> dict[str, Any]:
    """Pod groups by phase, as fields of the queue's status on the wire; every field is present."""
    counts = dict.fromkeys(_COUNTERS.values(), 0)
    for group in groups:
        counts[_COUNTERS.get(group.status.phase or "Pending", "unknown")] += 1
    return dict(counts)


ROOT = "root"


@dataclass(slots=True)
class QueuePlan:
    """What to write, in order: metadata and spec, then status, then commands are taken away.

    Attributes:
        patch: merge patch of the queue, empty for none.
        status: merge patch of its status, empty for none.
        commands: commands that have been taken into account.
        events: type, reason and message of events to record on the queue.

    """

    patch: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)


def decide(
    queue: Queue, parent: Queue | None, groups: Sequence[PodGroup], commands: Sequence[Command] = ()
) -> QueuePlan:
    """Bring parent, state and counts of a queue up to date.

    A queue follows its parent: it closes when the parent closes, and opens with it if that is why it was closed.
    The annotation ``volcano.sh/closed-by-parent`` keeps the why.

    Args:
        queue: the queue.
        parent: its parent, None when it has none or the parent does not exist.
        groups: all pod groups of the queue.
        commands: commands for the queue, oldest first.

    """
    plan = QueuePlan(commands=list(commands))
    name = queue.metadata.name
    if name != ROOT and not queue.spec.parent:
        plan.patch["spec"] = {"parent": ROOT}
    state, by_parent = queue.status.state or "", _closed_by_parent(queue)
    parent_shut = parent is not None and parent.metadata.name != ROOT and parent.status.state in SHUT
    busy = is_busy(groups)
    for command in commands:
        state, by_parent = _obey(plan, queue, command.action or "", parent_shut, state, busy, by_parent)
    if parent_shut and state not in SHUT:
        state, by_parent = next_state(state, CLOSE_QUEUE, busy), True
    elif parent is not None and not parent_shut and state in SHUT and by_parent:
        state, by_parent = next_state(state, OPEN_QUEUE, busy), False
    else:
        state = next_state(state, SYNC_QUEUE, busy)
    if by_parent != _closed_by_parent(queue):
        plan.patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: "true" if by_parent else "false"}}
    wanted = {"state": state, **count_groups(groups)}
    have = to_json(queue.status)
    plan.status = {key: value for key, value in wanted.items() if have.get(key, 0) != value}
    return plan


def _obey(
    plan: QueuePlan, queue: Queue, action: str, parent_shut: bool, state: str, busy: bool, by_parent: bool
) -> tuple[str, bool]:
    """Carry out one command; answers the state and whether the parent is the reason for it."""
    name = queue.metadata.name
    if action == OPEN_QUEUE and state not in ("", OPEN):
        if parent_shut:
            above = queue.spec.parent
            plan.events.append(
                (
                    "Warning",
                    OPEN_QUEUE,
                    f"Failed to open queue {name} because its parent queue {above} is closing or closed. "
                    "Open the parent queue first.",
                )
            )
            return state, by_parent
        plan.events.append(("Normal", OPEN_QUEUE, "Open queue succeed"))
        return next_state(state, OPEN_QUEUE, busy), False
    if action == CLOSE_QUEUE and state != CLOSED:
        if name == ROOT:
            plan.events.append(("Warning", CLOSE_QUEUE, "Close queue failed for the root queue: it is always open."))
            return state, by_parent
        plan.events.append(("Normal", CLOSE_QUEUE, "Close queue succeed"))
        return next_state(state, CLOSE_QUEUE, busy), False
    return state, by_parent


def _closed_by_parent(queue: Queue) -> bool:
    return (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT) == "true"
