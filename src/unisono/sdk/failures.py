"""Pods that have failed: how they ended, and the last lines that they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from unisono.errors import ApiError
from unisono.sdk.joblogs import read_pods
from unisono.sdk.log_selection import LogSelection
from unisono.sdk.views import end_text, pod_end

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

# Pods whose logs are read, and lines of each: enough for the end of a traceback.
_PODS = 3
_LINES = 8


@dataclass(frozen=True, slots=True)
class FailedPod:
    """How a pod failed.

    Attributes:
        name: of the pod.
        container: the first of its containers that failed; empty where the pod failed without one, by an eviction.
        exit_code: of that container.
        reason: in words: ``exit code 3 (Error)``.
        log: the last lines of that container; empty where they cannot be read.

    """

    name: str
    container: str
    exit_code: int | None
    reason: str
    log: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        return [f"pod/{self.name} failed: {self.reason}", *(f"  | {line}" for line in self.log)]


def failed(pod: Pod) -> FailedPod | None:
    """How the pod failed, without its log; None where it has not."""
    if pod.status.phase != "Failed":
        return None
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    worst = next(
        (each.name for each in statuses if each.state and each.state.terminated and each.state.terminated.exit_code), ""
    )
    end = pod_end(pod)
    return FailedPod(pod.metadata.name, worst, end.exit_code if worst else None, end_text(end))


async def failed_pods(client: HttpClient, pods: Sequence[Pod]) -> list[FailedPod]:
    """All pods that failed, in the order in which they did; those that failed first, with what they wrote last."""
    found = sorted(((pod, told) for pod in pods if (told := failed(pod))), key=lambda each: _ended(each[0]))
    return [await _with_log(client, pod, told) if number < _PODS else told for number, (pod, told) in enumerate(found)]


async def _with_log(client: HttpClient, pod: Pod, told: FailedPod) -> FailedPod:
    if not told.container:
        return told
    wanted = LogSelection(container=told.container, params={"tailLines": str(_LINES)})
    try:
        return replace(told, log=tuple([line.text async for line in read_pods(client, [pod], wanted)]))
    except ApiError:
        # Users who may read pods may not always read logs; the rest of the answer is true without them.
        return told


def _ended(pod: Pod) -> str:
    """When the pod's first failed container ended; RFC 3339 sorts as text."""
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    ends = [each.state.terminated for each in statuses if each.state and each.state.terminated]
    return min((str(end.finished_at or "") for end in ends if end.exit_code), default="")
