"""What a pod's status says: when the pod got its node, whether and how it has ended, and its containers."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class PodEnd:
    """How a pod ended, for the last report."""

    name: str
    phase: str
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


def pod_end(pod: Pod) -> PodEnd:
    """The end of a pod: the first container that failed explains it."""
    statuses = container_statuses(pod)
    ends = [status.state.terminated for status in statuses if status.state and status.state.terminated]
    worst = next((end for end in ends if end.exit_code), ends[-1] if ends else None)
    return PodEnd(
        pod.metadata.name,
        pod.status.phase or "Unknown",
        worst.exit_code if worst else None,
        pod.status.reason or (worst.reason if worst else None) or "",
        pod.status.message or (worst.message if worst else None) or "",
    )
