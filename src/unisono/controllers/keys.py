"""Labels and annotations that tie pods, pod groups and queues to their jobs."""

from __future__ import annotations

TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
JOB_TYPE = "volcano.sh/job-type"
QUEUE_NAME = "volcano.sh/queue-name"
PARTITION_ID = "volcano.sh/partition-id"
TEMPLATE_UID = "volcano.sh/template-uid"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
NUMA_POLICY = "volcano.sh/numa-topology-policy"

PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"

GROUP_NAME = "scheduling.k8s.io/group-name"
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
POD_QUEUE = "scheduling.volcano.sh/queue-name"
TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"

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
