"""Label and annotation keys of Volcano and Kubernetes that more than one room reads or writes."""

from __future__ import annotations

from typing import Final

# On pods that a job makes (label and annotation unless said otherwise).
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"  # label
QUEUE_NAME: Final = "volcano.sh/queue-name"
PARTITION_ID: Final = "volcano.sh/partition-id"  # label
JOB_VERSION: Final = "volcano.sh/job-version"  # annotation
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"  # annotation
TEMPLATE_UID: Final = "volcano.sh/template-uid"  # annotation
JOB_TYPE: Final = "volcano.sh/job-type"  # label of a job
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
CONTROLLER_OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"

# The PodGroup of a pod (annotation): the one key that everything goes by.
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GROUP_NAME_OF_VOLCANO: Final = "scheduling.volcano.sh/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
# Queue of a plain pod, and default queue of a namespace (annotations).
POD_QUEUE: Final = "scheduling.volcano.sh/queue-name"

PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
NUMA_TOPOLOGY_DECISION: Final = "volcano.sh/topology-decision"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
QOS_LEVEL: Final = "volcano.sh/qos-level"

# How nodes are scored for a pod, in place of the plug-in's arguments (annotations).
SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHT: Final = "volcano.sh/resource-strategy-weight"

# Shared GPUs: which cards a pod wants (annotations).
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_USE_TYPE: Final = "nvidia.com/use-gputype"
VGPU_NO_USE_TYPE: Final = "nvidia.com/nouse-gputype"
VGPU_USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
VGPU_NO_USE_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_GROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"

# On queues (annotations).
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"

# On nodes (labels).
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
HOSTNAME: Final = "kubernetes.io/hostname"
