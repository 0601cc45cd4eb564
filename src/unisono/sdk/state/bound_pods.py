"""Pods that have a node and do not run as they should: they wait, are not ready, or do not go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.core import ContainerStatus, Pod
from unisono.api.kinds import EVENTS
from unisono.api.pod_states import container_statuses
from unisono.api.times import parse_time
from unisono.jobkinds.registry import job_kind_of, one_by_one

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient


@dataclass(frozen=True, slots=True)
class PodWarning:
    """One event; ``seen`` is when it came last, RFC 3339, or empty."""

    pod: str
    reason: str
    message: str
    seen: str


async def newest_warnings(client: HttpClient, namespace: str, pods: Collection[str]) -> dict[str, PodWarning]:
    """By name of pod its newest warning; empty where events cannot be read.

    Raises:
        OSError: the server cannot be reached.
    """
    params = {"fieldSelector": "type=Warning,involvedObject.kind=Pod"}
    status, _, body = await client.request("GET", EVENTS.path(namespace), params=params)
    if status >= 300:
        return {}
    warnings: dict[str, PodWarning] = {}
    items: list[dict[str, Any]] = msgspec.json.decode(body).get("items") or []
    for item in items:
        name = (item.get("involvedObject") or {}).get("name") or ""
        warning = PodWarning(name, str(item.get("reason") or ""), str(item.get("message") or ""), _seen(item))
        if name in pods and (name not in warnings or warning.seen > warnings[name].seen):
            warnings[name] = warning
    return warnings


def _seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


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


_UNHEALTHY = "Unhealthy"


def unready_containers(pods: Sequence[Pod]) -> list[tuple[str, str]]:
    """Names of pods and of their first container that runs, has a probe that must succeed, and is not ready (pure)."""
    unready = []
    for pod in pods:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        probed = {each.name for each in pod.spec.containers or () if each.readiness_probe or each.startup_probe}
        for status in pod.status.container_statuses or ():
            runs = status.state is not None and status.state.running is not None
            if runs and not status.ready and status.name in probed:
                unready.append((pod.metadata.name, status.name))
                break
    return unready


async def unready_text(client: HttpClient, namespace: str, item: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """``2 of 3 pods are not ready: Readiness probe failed: ...``; empty where all that run are.

    Args:
        client: the server; where it does not let events be read, the probe's own words are missing.
        namespace: of the pods.
        item: the object whose pods they are.
        pods: all its pods.
    """
    unready = unready_containers(pods)
    if not unready:
        return _by_gates(item, pods)
    warnings = await newest_warnings(client, namespace, {pod for pod, _ in unready})
    said = [warning.message.strip() for warning in warnings.values() if warning.reason == _UNHEALTHY]
    first_pod, container = unready[0]
    why = said[0] if said else f"the probe of container {container} has not succeeded"
    if len(pods) == 1:
        who = f"pod {first_pod} is not ready"
    else:
        who = f"{len(unready)} of {len(pods)} pods {'is' if len(unready) == 1 else 'are'} not ready"
    return f"{who}: {why}{_next_pod(item, len(pods))}"


def _by_gates(item: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """The same of pods that run and lack a condition that something outside of the cluster has to set."""
    for pod in pods:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        met_conditions = {each.type for each in pod.status.conditions or () if each.status == "True"}
        gates = [
            each.condition_type for each in pod.spec.readiness_gates or () if each.condition_type not in met_conditions
        ]
        if gates:
            why = f"readiness gate {gates[0]} is not set to True in its conditions"
            return f"pod {pod.metadata.name} is not ready: {why}{_next_pod(item, len(pods))}"
    return ""


def _next_pod(item: Mapping[str, Any], pods: int) -> str:
    """A StatefulSet makes its pods one after the other."""
    spec = item.get("spec") or {}
    replicas = spec.get("replicas", 1)
    return f"; pod {pods + 1} of {replicas} is made when it is" if pods < replicas and one_by_one(item) else ""


def has_fixed_names(item: Mapping[str, Any]) -> bool:
    """Whether the object's pods have names of their own, so that a successor comes only when the old pod has gone."""
    kind = job_kind_of(item)
    return kind is not None and kind.fixed_names


def overdue_text(pods: Iterable[Pod], now: float) -> str:
    """Which pod should have gone and what holds it; empty where none is overdue.

    Args:
        pods: of one object whose pods have fixed names.
        now: seconds since the epoch, by the server's clock.
    """
    for pod in pods:
        due = pod.metadata.deletion_timestamp
        if due is None or parse_time(due) > now:
            continue
        held = ", ".join(pod.metadata.finalizers or ())
        if held:
            why = f"finalizers hold it ({held}): what set them has to take them away"
        else:
            why = f"its node {pod.spec.node_name} has not confirmed its end: see whether the node is there"
        return f"pod {pod.metadata.name} is being deleted and keeps its name until it has gone; {why}"
    return ""
