"""What the pods of a training job have come to, by role."""

from __future__ import annotations

from dataclasses import dataclass, field

from unisono.controllers.pod_view import PodView

_RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class RolePod(PodView):
    """A pod of the job and its place in it."""

    role: str
    index: int


@dataclass(slots=True)
class Tally:
    """Counts of one role.

    Attributes:
        replicas: pods wanted.
        active: pods that run.
        succeeded: pods that succeeded.
        failed: pods that failed, and running ones that are being taken away.
        crashed: pods that failed by themselves.
        pods: the pods within the wanted number, by index.

    """

    replicas: int
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    crashed: int = 0
    pods: dict[int, RolePod] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        """Pods that are still to succeed."""
        return self.replicas - self.succeeded

    def count(self, pod: RolePod) -> None:
        """Take one pod into account; those beyond the wanted number are on their way out."""
        if not 0 <= pod.index < self.replicas:
            return
        self.pods[pod.index] = pod
        if pod.phase == "Running":
            self.active += not pod.deleting
            self.failed += pod.deleting
        elif pod.phase == "Succeeded":
            self.succeeded += 1
        elif pod.crashed:
            self.failed += 1
            self.crashed += 1


def is_retryable(exit_code: int) -> bool:
    """Whether the policy ExitCode tries again after this code."""
    return exit_code >= _RETRYABLE_FROM
