"""Which pods' and containers' logs are wanted, and which part of them (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.sdk.followed import task_of

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
STARTED_PHASES = ENDED_PHASES | {"Running"}


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs are read, and which part of them.

    Attributes:
        task: only pods of this task.
        container: of the pods that have one of this name; the first one of each pod where it is empty.
        all_containers: all containers of each pod, init containers included.
        params: of the log subresource: ``tailLines``, ``sinceSeconds``, ``timestamps``, ``previous``.

    """

    task: str | None = None
    container: str = ""
    all_containers: bool = False
    params: Mapping[str, str] = field(default_factory=dict)

    def is_ready(self, pod: Pod) -> bool:
        """Whether the pod is selected and has started, or the init container that is wanted has."""
        return self._selects(pod) and (pod.status.phase in STARTED_PHASES or self._has_begun(pod))

    def may_start(self, pod: Pod) -> bool:
        """Whether the pod is selected and may still start."""
        return pod.status.phase not in STARTED_PHASES and not pod.metadata.deletion_timestamp and self._selects(pod)

    def containers(self, pod: Pod) -> list[str]:
        """The containers of a selected pod whose logs are read; an empty name is the server's default."""
        if self.all_containers:
            return container_names([pod])
        containers = pod.spec.containers or []
        return [self.container or (containers[0].name if containers else "")]

    def query(self, pod: Pod, container: str) -> dict[str, str]:
        """Parameters of the log subresource; the UID keeps the log of a deleted pod readable for a while."""
        named = {"container": container} if container else {}
        return {**named, **self.params, "uid": pod.metadata.uid or ""}

    def _has_begun(self, pod: Pod) -> bool:
        """Init containers run, and may fail again and again, while their pod is still pending."""
        states = (
            state
            for each in pod.status.init_container_statuses or ()
            if each.name == self.container
            for state in (each.state, each.last_state)
        )
        return any(state is not None and (state.running or state.terminated) for state in states)

    def _selects(self, pod: Pod) -> bool:
        of_task = self.task is None or task_of(pod).lower() == self.task.lower()
        return of_task and (not self.container or self.container in container_names([pod]))


def container_names(pods: Sequence[Pod]) -> list[str]:
    """Names of the pods' init containers and containers, in the order in which they run."""
    found = (each.name for pod in pods for each in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())))
    return list(dict.fromkeys(found))
