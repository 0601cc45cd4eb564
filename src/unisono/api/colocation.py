"""Online and offline pods on one node: QoS levels, and the resources that a node lends to offline pods."""

from __future__ import annotations

from unisono.api.core import Container, Pod
from unisono.api.core.pod import PodSpec
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY, QOS_LEVEL, QUOTA_BURST
from unisono.api.resources import pod_requests, resource_list

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
    found = resource_list(container.resources.limits)
    cpu, memory = found.get("cpu"), found.get("memory")
    if cpu is None and BATCH_CPU in found:
        cpu = found[BATCH_CPU] // 1000
    if memory is None and BATCH_MEMORY in found:
        memory = found[BATCH_MEMORY] // 1000
    return cpu, memory


def requests_of(spec: PodSpec) -> tuple[int, int]:
    """CPU (milli-cores) and memory (bytes) that a pod asks for, natively or of what is lent; the larger counts."""
    wanted = pod_requests(spec)
    return (
        max(wanted.get("cpu", 0), wanted.get(BATCH_CPU, 0) // 1000),
        max(wanted.get("memory", 0), wanted.get(BATCH_MEMORY, 0) // 1000),
    )


def borrows(pod: Pod) -> bool:
    """Whether the pod asks for resources that nodes lend."""
    wanted = pod_requests(pod.spec)
    return wanted.get(BATCH_CPU, 0) > 0 or wanted.get(BATCH_MEMORY, 0) > 0
