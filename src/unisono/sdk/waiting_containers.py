"""Containers of bound pods that wait on their nodes, and the one that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from unisono.api.core import ContainerStatus, Pod
from unisono.api.pod_states import container_statuses
from unisono.sdk.pod_warnings import newest_warnings

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

INITIALIZING = "PodInitializing"
"""What main containers say while an init container runs or waits."""
_CREATING = ("ContainerCreating", INITIALIZING)
"""Reasons that say nothing of what is missing; a node tells that by an event, such as one of a volume."""


@dataclass(frozen=True, slots=True)
class WaitingContainer:
    """A container of a bound pod that waits to be started, as its node reports it."""

    pod: str
    name: str
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        """``container main waits: ImagePullBackOff: no such image``."""
        words = ": ".join(filter(None, (self.reason, self.message)))
        return f"container {self.name} waits" + (f": {words}" if words else "")

    def json(self) -> dict[str, str]:
        """For programs."""
        return asdict(self)


def waiting_containers(pod: Pod) -> list[WaitingContainer]:
    """Containers of a bound pod that wait to be started; init containers come first."""
    if not pod.spec.node_name:
        return []
    statuses = container_statuses(pod)
    return [_waiting(pod, each) for each in statuses if each.state is not None and each.state.waiting is not None]


async def with_warnings(
    client: HttpClient, namespace: str, containers: Sequence[WaitingContainer]
) -> list[WaitingContainer]:
    """The same; those about which their node says no more than that they are being created have its last warning."""
    silent = {each.pod for each in containers if each.reason in _CREATING and not each.message}
    warnings = await newest_warnings(client, namespace, silent) if silent else {}
    return [
        replace(each, message=f"{warnings[each.pod].reason}: {warnings[each.pod].message}")
        if not each.message and each.reason in _CREATING and each.pod in warnings
        else each
        for each in containers
    ]


def _waiting(pod: Pod, status: ContainerStatus) -> WaitingContainer:
    waits = status.state.waiting if status.state is not None else None
    reason, message = (waits.reason or "", waits.message or "") if waits is not None else ("", "")
    if reason == INITIALIZING and not message and (before := _unfinished(pod)):
        message = f"init container {before} has not ended yet"
    return WaitingContainer(pod.metadata.name, status.name, reason, message)


def _unfinished(pod: Pod) -> str:
    """The init container that runs and for whose end the others wait; sidecars, which have started, are none."""
    forever = {each.name for each in pod.spec.init_containers or () if each.restart_policy == "Always"}
    return next(
        (
            each.name
            for each in pod.status.init_container_statuses or ()
            if each.state is not None and each.state.running is not None and each.name not in forever
        ),
        "",
    )


def waiting_text(containers: Sequence[WaitingContainer]) -> str:
    """What most pods wait for: ``container main of 2 pods waits: CreateContainerConfigError: secret "x" not found``.

    What a container of its own says comes before those that wait for it.
    """
    own = [each for each in containers if each.reason != INITIALIZING] or list(containers)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in own:
        alike.setdefault((each.name, each.reason, each.message), []).append(each.pod)
    (name, reason, message), pods = max(alike.items(), key=lambda item: len(item[1]))
    first = WaitingContainer(pods[0], f"{name} of {len(pods)} pods" if len(pods) > 1 else name, reason, message)
    others = len({each.pod for each in own} - set(pods))
    return f"{first}" + (f"; {others} more pod{'s wait' if others > 1 else ' waits'}" if others else "")
