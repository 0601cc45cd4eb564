"""Labels and annotations that tie pods, pod groups and queues to their jobs."""

from __future__ import annotations

from unisono.api.keys import (
    CLOSED_BY_PARENT,
    CONTROLLER_OUT_OF_SYNC,
    COOLDOWN_TIME,
    GROUP_MIN_MEMBER,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    NUMA_TOPOLOGY_POLICY,
    PARTITION_ID,
    POD_QUEUE,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)

__all__ = [
    "CLOSED_BY_PARENT",
    "CONTROLLER_OUT_OF_SYNC",
    "GROUP_MIN_MEMBER",
    "GROUP_NAME",
    "JOB_NAME",
    "JOB_NAMESPACE",
    "JOB_RETRY_COUNT",
    "JOB_VERSION",
    "LAST_APPLIED",
    "NUMA_TOPOLOGY_POLICY",
    "PARTITION_ID",
    "POD_QUEUE",
    "QUEUE_NAME",
    "RESTART_ROUND",
    "TASK_INDEX",
    "TASK_SPEC",
    "TEMPLATE_UID",
    "TOPOLOGY_MODE",
    "TOPOLOGY_TIER",
    "inherited_annotations",
    "inherited_labels",
]

TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"

# Which restart killed the pod: written before the job's status, so that a crash in between loses no retry.
RESTART_ROUND = "unisono.io/restart-round"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Annotations and labels that pods and pod groups take over from their job or from the pod they are made for.
INHERITED_ANNOTATIONS = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
INHERITED_LABELS = (PREEMPTABLE, COOLDOWN_TIME)


def disruption_budget(annotations: dict[str, str]) -> dict[str, str]:
    """The job's disruption budget: the least available pods, or else the most unavailable ones."""
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return {key: annotations[key]}
    return {}


def inherited_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these annotations."""
    taken = {key: annotations[key] for key in INHERITED_ANNOTATIONS if key in annotations}
    return taken | disruption_budget(annotations)


def inherited_labels(labels: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these labels."""
    return {key: labels[key] for key in INHERITED_LABELS if key in labels}
