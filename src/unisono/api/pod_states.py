"""What pods say of themselves: how they stand and have ended, and their quality of service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from unisono.api.annotations import EVICT_NOTICE, MOST_NOTICE_SECONDS, RUN_SECONDS
from unisono.api.base import Quantity
from unisono.api.conditions import DEADLINE_EXCEEDED, is_true
from unisono.api.core import Container, ContainerStatus, Pod
from unisono.api.core.container import ResourceRequirements
from unisono.api.core.pod import PodSpec
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY, QOS_LEVEL, QUOTA_BURST
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import pod_requests, resource_list
from unisono.api.times import duration_or_none, millis

# What is asked of a container's log: the options of ``pods/log`` (``PodLogOptions``), read from the query.


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of the log, and how it is shown; the defaults are all of it, as it was written.

    Attributes:
        follow: go on until this run of the container ends, else stop at the end of what is written.
        tail_lines: start that many lines before the end; None starts at the beginning.
        since_seconds: leave out lines older than this.
        timestamps: put each line's RFC 3339 time in front of it.
        previous: the run before the present one.
        limit_bytes: stop after this many bytes.
    """

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None
    timestamps: bool = False
    previous: bool = False
    limit_bytes: int | None = None


# What a pod's status says: when the pod got its node, whether and how it has ended, and its containers.

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that is over for good: it holds nothing of its node any more."""


def scheduled_at(pod: Pod) -> str | None:
    """When the pod got its node, by its condition or else by its start (RFC 3339); None where neither says so."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time:
            return each.last_transition_time
    return pod.status.start_time


def began(pod: Pod, now: int) -> int:
    """When the pod got its node, in milliseconds since 1970; 0 where it has none.

    A pod may name its node itself, and ask for more than any node has: it holds nothing before the node has spoken, and
    nothing at all where the node refuses it.
    """
    if not pod.spec.node_name:
        return 0
    scheduled = is_true(pod.status.conditions, "PodScheduled")
    started = millis(scheduled_at(pod)) or millis(pod.status.start_time)
    phase = pod.status.phase or "Pending"
    refused = phase == "Failed" and not scheduled and not pod.status.container_statuses
    if refused or (not started and phase == "Pending"):
        return 0
    created = min(millis(pod.metadata.creation_timestamp) or now, now)
    return max(created, min(started or now, now))


def over_at(pod: Pod, start: int, now: int) -> int:
    """When a pod ceased to hold its node: as its last container ended, else now."""
    statuses = container_statuses(pod)
    ends = [millis(each.state.terminated.finished_at) for each in statuses if each.state and each.state.terminated]
    running = any(each.state and each.state.running for each in statuses)
    ended = 0 if running else max(ends, default=0)
    return max(start, min(ended or now, now))


def stated_run_seconds(annotations: Mapping[str, str], deadline: int | None) -> float:
    """How long a pod says it runs at most, by its annotation or its deadline; 0.0 where neither says it."""
    text = annotations.get(RUN_SECONDS)
    try:
        stated = 0.0 if text is None else float(text)
    except ValueError:
        stated = 0.0
    limits = [limit for limit in (stated, float(deadline or 0)) if 0 < limit < inf]
    return min(limits, default=0.0)


def notice_seconds(*annotations: Mapping[str, str] | None, default: float = 0.0) -> float:
    """How long a pod is told before it is evicted, as the first of these says that says it; else ``default``."""
    for notes in annotations:
        seconds = duration_or_none((notes or {}).get(EVICT_NOTICE))
        if seconds is not None:
            return min(max(seconds, 0.0), MOST_NOTICE_SECONDS)
    return default


def has_ended(pod: Pod) -> bool:
    """Whether the pod has succeeded or failed."""
    return pod.status.phase in ENDED_PHASES


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """The statuses of all containers, init containers first."""
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


_BY_ITS_NODE = frozenset({"Evicted", "NodeShutdown", "Preempting", "Terminated"})
"""Reasons of pods that a kubelet ended for its node's sake; older ones set no condition."""


def is_disrupted(pod: Pod) -> bool:
    """Whether the cluster takes, or took, the pod's place away: its end is not its own failure."""
    by_its_node = pod.status.phase == "Failed" and pod.status.reason in _BY_ITS_NODE
    return by_its_node or is_true(pod.status.conditions, "DisruptionTarget")


def failed_by_itself(pod: Pod) -> bool:
    """Whether the pod's end is a failure: the one meaning of that for reports, books of nodes and restarts.

    Pods that are being deleted, as those of deleted, suspended and stopped jobs are, end because they are told to;
    evicted ones, because their place is taken away.
    """
    return pod.status.phase == "Failed" and not pod.metadata.deletion_timestamp and not is_disrupted(pod)


def failed_on_its_node(pod: Pod) -> bool:
    """Whether the pod's failure may be its node's: it had one, and no time limit ended it."""
    return failed_by_itself(pod) and bool(pod.spec.node_name) and pod.status.reason != DEADLINE_EXCEEDED


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


# Quality-of-service class of a pod.

_COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort`` by CPU and memory (Kubernetes ``ComputePodQOS``).

    Pod-level resources decide where they are given, else all containers and init containers together.
    """
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        requirements = [spec.resources]
    else:
        requirements = [each.resources for each in (*(spec.containers or ()), *(spec.init_containers or ()))]
    pairs = [_pair(each) for each in requirements]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    guaranteed = all(set(limits) == set(_COUNTED) and requests == limits for requests, limits in pairs)
    return "Guaranteed" if guaranteed else "Burstable"


def _pair(resources: ResourceRequirements) -> tuple[dict[str, object], dict[str, object]]:
    limits = _positive(resources.limits)
    return limits | _positive(resources.requests), limits


def _positive(resources: Mapping[str, Quantity] | None) -> dict[str, object]:
    amounts: dict[str, object] = {}
    for name in _COUNTED:
        try:
            amount = parse_quantity((resources or {}).get(name, 0))
        except QuantityError:
            continue
        if amount > 0:
            amounts[name] = amount
    return amounts


# Online and offline pods on one node: QoS levels, and the resources that a node lends to offline pods.

LEVELS = {"LC": 2, "HLS": 2, "LS": 1, "BE": -1}
"""Levels of annotation ``volcano.sh/qos-level``; any other value is 0."""

CRITICAL = 2_000_000_000
"""Priority of system-cluster-critical: such pods are never evicted for others."""


def qos_level(pod: Pod) -> int:
    """From -1, offline, to 2, sensitive to latency."""
    return LEVELS.get((pod.metadata.annotations or {}).get(QOS_LEVEL, ""), 0)


def is_offline(pod: Pod) -> bool:
    """Whether the pod gives way to all others of its node."""
    return qos_level(pod) < 0


def may_burst(pod: Pod) -> bool:
    """Whether its containers may save CPU time that they do not use, and spend it above their limit later."""
    return (pod.metadata.annotations or {}).get(QUOTA_BURST) == "true" and not is_offline(pod)


def limits_of(container: Container) -> tuple[int | None, int | None]:
    """Most CPU (milli-cores) and memory (bytes) of a container, by its native limits, else by those of what is lent."""
    amounts = resource_list(container.resources.limits)
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    if cpu is None and BATCH_CPU in amounts:
        cpu = amounts[BATCH_CPU] // 1000
    if memory is None and BATCH_MEMORY in amounts:
        memory = amounts[BATCH_MEMORY] // 1000
    return cpu, memory


def requests_of(spec: PodSpec) -> tuple[int, int]:
    """CPU (milli-cores) and memory (bytes) that a pod asks for, natively or of what is lent; the larger counts."""
    requests = pod_requests(spec)
    return (
        max(requests.get("cpu", 0), requests.get(BATCH_CPU, 0) // 1000),
        max(requests.get("memory", 0), requests.get(BATCH_MEMORY, 0) // 1000),
    )


def borrows(pod: Pod) -> bool:
    """Whether the pod asks for resources that nodes lend."""
    requests = pod_requests(pod.spec)
    return requests.get(BATCH_CPU, 0) > 0 or requests.get(BATCH_MEMORY, 0) > 0
