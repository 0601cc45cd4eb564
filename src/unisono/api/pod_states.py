"""What a pod's status says: when the pod got its node, whether it has ended, and the statuses of its containers."""

from __future__ import annotations

from typing import Final

from unisono.api.core import ContainerStatus, Pod

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that is over for good: it holds nothing of its node any more."""


def scheduled_at(pod: Pod) -> str | None:
    """When the pod got its node, by its condition or else by its start (RFC 3339); None where neither says so."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time:
            return each.last_transition_time
    return pod.status.start_time


def has_ended(pod: Pod) -> bool:
    """Whether the pod has succeeded or failed."""
    return pod.status.phase in ENDED_PHASES


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """The statuses of all containers, init containers first."""
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
