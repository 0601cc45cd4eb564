"""Task states and the groups in which the engine counts them."""

from __future__ import annotations

from enum import IntEnum


class TaskStatus(IntEnum):
    """State of one pod as the scheduler sees it; the values index count lists."""

    PENDING = 0
    PIPELINED = 1
    ALLOCATED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def label(self) -> str:
        """The word that messages use: ``Pending``, ``Running``, ..."""
        return self.name.capitalize()

    @property
    def volcano_number(self) -> int:
        """The number of Volcano's status (``pkg/scheduler/api/types.go``); there Allocated precedes Pipelined."""
        return 1 << _VOLCANO_ORDER.index(self)


_VOLCANO_ORDER = (
    TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING, TaskStatus.BOUND,
    TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.UNKNOWN,
)  # fmt: skip

STATUS_COUNT = len(TaskStatus)

ALLOCATED_STATES = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
"""Hold resources for good: count as allocated of a job and a queue."""

HOLDS = [int(status in ALLOCATED_STATES) for status in TaskStatus]
"""By status: 1 where a task counts as allocated."""

CLAIMS = [int(status in (*ALLOCATED_STATES, TaskStatus.PIPELINED)) for status in TaskStatus]
"""By status: 1 where a task counts as allocated or was promised its place."""

READY_STATES = (*ALLOCATED_STATES, TaskStatus.SUCCEEDED)
"""Count towards a gang's minimum."""

IS_READY = [int(status in READY_STATES) for status in TaskStatus]
"""By status: 1 where a task counts towards the gang's minimum."""

VALID_STATES = (*READY_STATES, TaskStatus.PIPELINED, TaskStatus.PENDING)
"""Count when asking whether a gang could ever reach its minimum."""

SCHEDULED_STATES = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.FAILED, TaskStatus.SUCCEEDED)
"""Count towards PodGroup phase Running."""

COMPLETED_STATES = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)

ON_NODE_STATES = (*ALLOCATED_STATES, TaskStatus.RELEASING, TaskStatus.UNKNOWN)
"""Occupy the resources of their node."""

PREEMPTABLE_STATES = (TaskStatus.BOUND, TaskStatus.RUNNING)


def count(counts: list[int], states: tuple[TaskStatus, ...]) -> int:
    """Sum of ``counts`` (indexed by status) over ``states``."""
    total = 0
    for state in states:
        total += counts[state]
    return total
