"""PodGroup phase from task counts."""

from __future__ import annotations

from unisono.cluster.status import COMPLETED_STATES, SCHEDULED_STATES, TaskStatus, count


def phase_of(counts: list[int], min_member: int, phase: str, releasing: int, *, unschedulable: bool) -> str:
    """Phase of a PodGroup.

    Args:
        counts: tasks by status.
        min_member: gang size.
        phase: present phase.
        releasing: how many of the Releasing tasks have a node.
        unschedulable: the gang was found unschedulable in this very cycle.

    """
    if counts[TaskStatus.RUNNING] and unschedulable:
        return "Unknown"
    holding = count(counts, SCHEDULED_STATES) + releasing
    if holding >= min_member:
        return "Completed" if holding == count(counts, COMPLETED_STATES) else "Running"
    return "Inqueue" if phase == "Inqueue" else "Pending"


def totals_of(counts: list[int]) -> tuple[int, int, int]:
    """(running, succeeded, failed) for the PodGroup's status."""
    return counts[TaskStatus.RUNNING], counts[TaskStatus.SUCCEEDED], counts[TaskStatus.FAILED]
