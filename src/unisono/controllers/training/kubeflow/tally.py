"""What the pods of a training job have come to, by role."""

from __future__ import annotations

from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.controllers import pod_facts

# Exit code of a container that ended without one, for instance by an eviction: it counts as worth another try.
UNKNOWN_EXIT_CODE = 48879
_RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of the job and its place in it."""

    pod: Pod
    role: str
    index: int

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.pod.metadata.name

    @property
    def phase(self) -> str:
        """Phase; Pending before the first status."""
        return self.pod.status.phase or "Pending"

    @property
    def deleting(self) -> bool:
        """Whether the pod is on its way out."""
        return bool(self.pod.metadata.deletion_timestamp)

    @property
    def crashed(self) -> bool:
        """Whether the pod failed by itself; the end of one that is taken away is nobody's failure."""
        return self.phase == "Failed" and not self.deleting

    @property
    def disrupted(self) -> bool:
        """Whether the cluster took the pod's place away."""
        return pod_facts.is_disrupted(self.pod)

    def exit_code(self, container: str) -> int:
        """Exit code of the container, or of the first one where none has that name."""
        statuses = self.pod.status.container_statuses or []
        found = next((each for each in statuses if each.name == container), statuses[0] if statuses else None)
        ended = found.state.terminated if found is not None else None
        if ended is None:
            return UNKNOWN_EXIT_CODE
        return ended.exit_code or 0

    def lasted(self) -> float:
        """Seconds from the pod's creation to its end."""
        return pod_facts.finished_at(self.pod) - pod_facts.created(self.pod)

    def restarts(self) -> int:
        """Restarts of all containers in place."""
        return pod_facts.restarts(self.pod)


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
    pods: dict[int, PodView] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        """Pods that are still to succeed."""
        return self.replicas - self.succeeded

    def count(self, pod: PodView) -> None:
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
