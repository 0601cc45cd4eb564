"""How a pod ended, from its object alone."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.api.core import Pod
from unisono.api.pod_states import container_statuses


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
