"""What a pod's status says: whether the pod has ended, and the statuses of its containers."""

from __future__ import annotations

from typing import Final

from unisono.api.core import ContainerStatus, Pod

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that is over for good: it holds nothing of its node any more."""


def has_ended(pod: Pod) -> bool:
    """Whether the pod has succeeded or failed."""
    return pod.status.phase in ENDED_PHASES


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """The statuses of all containers, init containers first."""
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
