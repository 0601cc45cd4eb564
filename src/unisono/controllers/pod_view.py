"""One pod as a decision about its job sees it; each kind of job adds where the pod belongs (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unisono.api.core import Pod
from unisono.api.pod_states import has_ended
from unisono.controllers import pod_facts

UNKNOWN_EXIT_CODE: Final = 48879
"""Exit code of a container that ended without one, for instance by an eviction: it counts as worth another try."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of a job."""

    pod: Pod

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.pod.metadata.name

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown; Pending before the first status."""
        return pod_facts.phase_of(self.pod)

    @property
    def deleting(self) -> bool:
        """Whether the pod is being deleted."""
        return pod_facts.is_deleting(self.pod)

    @property
    def ended(self) -> bool:
        """Whether the pod succeeded or failed."""
        return has_ended(self.pod)

    @property
    def crashed(self) -> bool:
        """Whether the pod failed by itself: the end of one that is being deleted is no failure."""
        return pod_facts.has_failed(self.pod) and not self.deleting

    @property
    def disrupted(self) -> bool:
        """Whether the cluster took the pod's place away."""
        return pod_facts.is_disrupted(self.pod)

    @property
    def created(self) -> float:
        """Creation time, seconds since 1970; 0 when unknown."""
        return pod_facts.created(self.pod)

    @property
    def lasted(self) -> float:
        """Seconds from the pod's creation to its end."""
        return pod_facts.finished_at(self.pod) - self.created

    @property
    def restarts(self) -> int:
        """Restarts of its containers in place, init containers included."""
        return pod_facts.restarts(self.pod)

    @property
    def exit_codes(self) -> frozenset[int]:
        """Exit codes other than 0 of its containers."""
        return frozenset(
            status.state.terminated.exit_code
            for status in self.pod.status.container_statuses or ()
            if status.state.terminated and status.state.terminated.exit_code
        )

    def exit_code(self, container: str) -> int:
        """Exit code of the container, or of the first one where none has that name; else `UNKNOWN_EXIT_CODE`."""
        statuses = self.pod.status.container_statuses or []
        found = next((each for each in statuses if each.name == container), statuses[0] if statuses else None)
        ended = found.state.terminated if found is not None else None
        if ended is None:
            return UNKNOWN_EXIT_CODE
        return ended.exit_code or 0
