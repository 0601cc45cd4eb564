"""The state machine of a Queue, as a table, and the counts of its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.groups.scheduling import PodGroup

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
