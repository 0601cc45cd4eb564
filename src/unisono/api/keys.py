"""Keys of labels, annotations, taints and finalizers, and names that Volcano, Kubernetes and training operators define.

A key that more than one module needs stands here, and only here (``tests/house/test_keys.py``); keys of Unisono's own
stand in ``api.annotations``.
"""

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
TASK_PRIORITY: Final = "volcano.sh/task-priority"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"

# Online and offline pods on one node: annotations of pods, labels and annotations of nodes, a taint, and resources.
QOS_LEVEL: Final = "volcano.sh/qos-level"
QUOTA_BURST: Final = "volcano.sh/enable-quota-burst"
COLOCATION: Final = "volcano.sh/colocation"  # label of a node
OVERSUBSCRIPTION: Final = "volcano.sh/oversubscription"  # label of a node
OFFLINE_EVICTING: Final = "volcano.sh/offline-job-evicting"  # taint
EVICTING_CPU_HIGH: Final = "volcano.sh/evicting-cpu-high-watermark"  # annotations of nodes
EVICTING_CPU_LOW: Final = "volcano.sh/evicting-cpu-low-watermark"
EVICTING_MEMORY_HIGH: Final = "volcano.sh/evicting-memory-high-watermark"
EVICTING_MEMORY_LOW: Final = "volcano.sh/evicting-memory-low-watermark"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"  # thousandths of a processor
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"  # bytes

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

# How far apart in the network the pods of a job may lie (annotations); Ray's clusters have a key of their own.
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED: Final = "volcano.sh/network-topology-highest-tier-allowed"

# On queues (annotations).
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
NODE_GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# On nodes (labels).
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
HOSTNAME: Final = "kubernetes.io/hostname"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
TOPOLOGY_ZONE: Final = "topology.kubernetes.io/zone"
TOPOLOGY_REGION: Final = "topology.kubernetes.io/region"
ZONE_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
REGION_BETA: Final = "failure-domain.beta.kubernetes.io/region"

# What NVIDIA's GPU feature discovery says of a node's GPUs (labels).
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPU_MEMORY: Final = "nvidia.com/gpu.memory"  # MiB
GPU_COMPUTE_MAJOR: Final = "nvidia.com/gpu.compute.major"
GPU_COMPUTE_MINOR: Final = "nvidia.com/gpu.compute.minor"

# Resources.
NVIDIA_GPU: Final = "nvidia.com/gpu"
TPU: Final = "google.com/tpu"
NVIDIA_MIG: Final = "nvidia.com/mig-"  # and the profile, such as 1g.10gb
AMD_GPU: Final = "amd.com/gpu"
INTEL_I915: Final = "gpu.intel.com/i915"
INTEL_XE: Final = "gpu.intel.com/xe"
ASCEND_310: Final = "huawei.com/Ascend310"
ASCEND_310P: Final = "huawei.com/Ascend310P"
ASCEND_910: Final = "huawei.com/Ascend910"
RDMA_HCA: Final = "rdma/hca"
# Labels that say whether a node has RDMA, and a port of it that works.
RDMA_CAPABLE: Final = "feature.node.kubernetes.io/rdma.capable"
RDMA_AVAILABLE: Final = "feature.node.kubernetes.io/rdma.available"
# Parts of GPUs: thousandths of each, and of how many (one where absent).
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_COUNT: Final = "alibabacloud.com/gpu-count"

# Taints that controllers set on nodes.
KARPENTER_DISRUPTION: Final = "karpenter.sh/disruption"
KARPENTER_UNREGISTERED: Final = "karpenter.sh/unregistered"
NODE_DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
NODE_MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
NODE_PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NODE_NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
NODE_NOT_READY: Final = "node.kubernetes.io/not-ready"
NODE_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NODE_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
NODE_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

# What autoscalers and clouds put on nodes and pods.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # annotation of a pod
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"  # annotation of a pod or a node
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"  # annotation of a node
MIRROR_POD: Final = "kubernetes.io/config.mirror"  # annotation of a pod that a kubelet makes by itself
# Taints by which clouds, and programs that act for them, announce that a machine goes.
AWS_SPOT_INTERRUPTION: Final = "aws-node-termination-handler/spot-itn"
AWS_MAINTENANCE: Final = "aws-node-termination-handler/scheduled-maintenance"
AWS_SCALE_IN: Final = "aws-node-termination-handler/asg-lifecycle-termination"
AWS_REBALANCE: Final = "aws-node-termination-handler/rebalance-recommendation"
GKE_TERMINATION: Final = "cloud.google.com/impending-node-termination"
AKS_PREEMPTION: Final = "remediator.aks.microsoft.com/unschedulable"
KARPENTER_DISRUPTED: Final = "karpenter.sh/disrupted"
AUTOSCALER_DELETES: Final = "ToBeDeletedByClusterAutoscaler"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"  # label of a node
# Labels that tell spot capacity, and their values.
SPOT_LABELS: Final = {
    CAPACITY_TYPE: "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}

# On namespaces (label): the name of the namespace.
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"

# On PersistentVolumes, claims and storage classes (annotations).
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"  # also on ResourceClaims
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
STORAGE_PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_CLASS_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
CLASS_BETA: Final = "volume.beta.kubernetes.io/storage-class"
# The provisioner of a class whose volumes people make by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

# Finalizers of volumes, claims and resource claims.
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
DELETION_BY_PROVISIONER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"

# On pods of batch Jobs (labels; the index is an annotation too).
BATCH_JOB_NAME: Final = "batch.kubernetes.io/job-name"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

# On pods of training jobs and Ray clusters (labels).
KUBEFLOW_JOB_NAME: Final = "training.kubeflow.org/job-name"
KUBEFLOW_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
TRAINJOB_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"  # on the templates of a TrainingRuntime
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_ORDER: Final = "volcano.sh/task-topology-task-order"
JOBSET_JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"  # annotation of a JobSet or its templates
RAY_PRIORITY_CLASS: Final = "ray.io/priority-class-name"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

# On pods that the controllers of workloads make (labels).
STATEFUL_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
JOBSET_REPLICATED_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
RAY_CLUSTER: Final = "ray.io/cluster"
RAY_GROUP: Final = "ray.io/group"
# ``managedBy`` of a job that Kueue runs in another cluster.
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
# Labels of jobs, and an annotation of batch Jobs, by which Kueue is told; read where a namespace serves them.
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
KUEUE_LEAST: Final = "kueue.x-k8s.io/job-min-parallelism"

# On any object.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"  # annotation
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"  # annotation of the bookmark that ends a watch's first list
APP_NAME: Final = "app.kubernetes.io/name"  # label
APP_PART_OF: Final = "app.kubernetes.io/part-of"  # label
ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"  # label of a namespace
HELM_RESOURCE_POLICY: Final = "helm.sh/resource-policy"  # annotation: whether Helm leaves the object on removal

# Types of Secrets.
SSH_AUTH: Final = "kubernetes.io/ssh-auth"

# API versions of what is sent but not stored: the reviews that admission webhooks get, and options and tables.
ADMISSION_API_VERSION: Final = "admission.k8s.io/v1"
META_API_VERSION: Final = "meta.k8s.io/v1"

CONFIG_MAP_NAMESPACE: Final = "volcano-system"
CONFIG_MAP_NAMES: Final = ("volcano-scheduler-config", "volcano-scheduler-configmap")
CONFIG_MAP_SUFFIX: Final = "-scheduler-configmap"
CONFIG_MAP_KEY: Final = "volcano-scheduler.conf"
"""Where users of Volcano keep the scheduler's configuration: namespace and names of ConfigMaps, the first that exists
counts, and the key in it. The second name is that of Volcano's installer, and of its chart for a release ``volcano``; a
release of another name has the suffix.
"""

MASTERS: Final = "system:masters"
"""The group whose members may do everything."""
NODES_GROUP: Final = "system:nodes"
"""The group of the agents of nodes."""

# Values of `managedBy` that stand for the controllers of the kinds themselves.
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
JOBSET_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
MPI_OPERATOR: Final = "kubeflow.org/mpi-operator"
RAY_OPERATOR: Final = "ray.io/kuberay-operator"
TRAINING_OPERATOR: Final = "kubeflow.org/training-operator"
TRAINJOB_CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"

# Autoscalers of KEDA and Knative.
SCALED_OBJECT: Final = "scaledobject.keda.sh/name"
KEDA_PAUSED: Final = "autoscaling.keda.sh/paused"
KEDA_PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
KNATIVE_SERVICE: Final = "serving.knative.dev/service"
KNATIVE_REVISION: Final = "serving.knative.dev/revision"
KNATIVE_CLASS: Final = "autoscaling.knative.dev/class"
KNATIVE_METRIC: Final = "autoscaling.knative.dev/metric"
KNATIVE_TARGET: Final = "autoscaling.knative.dev/target"
KNATIVE_UTILIZATION: Final = (
    "autoscaling.knative.dev/target-utilization-percentage",
    "autoscaling.knative.dev/targetUtilizationPercentage",
)
KNATIVE_WINDOW: Final = "autoscaling.knative.dev/window"
KNATIVE_RETENTION: Final = (
    "autoscaling.knative.dev/scale-to-zero-pod-retention-period",
    "autoscaling.knative.dev/scaleToZeroPodRetentionPeriod",
)
KNATIVE_INITIAL: Final = ("autoscaling.knative.dev/initial-scale", "autoscaling.knative.dev/initialScale")
KNATIVE_LEAST: Final = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
KNATIVE_MOST: Final = ("autoscaling.knative.dev/max-scale", "autoscaling.knative.dev/maxScale")
