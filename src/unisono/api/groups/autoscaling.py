"""What scales workloads and clusters: HorizontalPodAutoscaler, MachineDeployment, ProvisioningRequest."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Condition, Int32, LabelSelector, Object, Quantity, Required, Time
from unisono.api.conditions import is_true
from unisono.api.core import PodTemplateSpec, Taint
from unisono.api.kind import served

# ``autoscaling/v2`` and ``autoscaling/v1``: HorizontalPodAutoscaler.


class CrossVersionObjectReference(Base):
    """An object of the same namespace, by kind and name."""

    kind: Required = ""
    name: Required = ""
    api_version: str | None = None


class MetricTarget(Base):
    """What a metric shall be: a value, a value per pod, or a percentage of the request."""

    type: Required = ""
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: Int32 | None = None


class MetricIdentifier(Base):
    """A metric by name and selector."""

    name: Required = ""
    selector: LabelSelector | None = None


class ResourceMetricSource(Base):
    """Use of a resource by the pods."""

    name: Required = ""
    target: MetricTarget = msgspec.field(default_factory=MetricTarget)


class ContainerResourceMetricSource(Base):
    """Use of a resource by one container of the pods."""

    name: Required = ""
    target: MetricTarget = msgspec.field(default_factory=MetricTarget)
    container: Required = ""


class PodsMetricSource(Base):
    """A metric of each pod."""

    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)
    target: MetricTarget = msgspec.field(default_factory=MetricTarget)


class ObjectMetricSource(Base):
    """A metric of one object."""

    described_object: CrossVersionObjectReference = msgspec.field(default_factory=CrossVersionObjectReference)
    target: MetricTarget = msgspec.field(default_factory=MetricTarget)
    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)


class ExternalMetricSource(Base):
    """A metric of something outside of the cluster."""

    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)
    target: MetricTarget = msgspec.field(default_factory=MetricTarget)


class MetricSpec(Base):
    """One metric; ``type`` says which of the others is there."""

    type: Required = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(Base):
    """How many pods, or percent of them, may come or go within a period."""

    type: Required = ""
    value: Int32 = 0
    period_seconds: Int32 = 0


class HPAScalingRules(Base):
    """How fast replicas may change in one direction."""

    stabilization_window_seconds: Int32 | None = None
    select_policy: str | None = None
    policies: list[HPAScalingPolicy] | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Base):
    """How fast replicas may grow and shrink."""

    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(Base):
    """What is scaled, between which bounds, by which metrics."""

    scale_target_ref: CrossVersionObjectReference = msgspec.field(default_factory=CrossVersionObjectReference)
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0
    metrics: list[MetricSpec] | None = None
    behavior: HorizontalPodAutoscalerBehavior | None = None


class MetricValueStatus(Base):
    """What a metric is."""

    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: Int32 | None = None


class ResourceMetricStatus(Base):
    """Present use of a resource."""

    name: Required = ""
    current: MetricValueStatus = msgspec.field(default_factory=MetricValueStatus)


class ContainerResourceMetricStatus(Base):
    """Present use of a resource by one container."""

    name: Required = ""
    current: MetricValueStatus = msgspec.field(default_factory=MetricValueStatus)
    container: Required = ""


class PodsMetricStatus(Base):
    """Present value of a metric of the pods."""

    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)
    current: MetricValueStatus = msgspec.field(default_factory=MetricValueStatus)


class ObjectMetricStatus(Base):
    """Present value of a metric of an object."""

    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)
    current: MetricValueStatus = msgspec.field(default_factory=MetricValueStatus)
    described_object: CrossVersionObjectReference = msgspec.field(default_factory=CrossVersionObjectReference)


class ExternalMetricStatus(Base):
    """Present value of a metric from outside."""

    metric: MetricIdentifier = msgspec.field(default_factory=MetricIdentifier)
    current: MetricValueStatus = msgspec.field(default_factory=MetricValueStatus)


class MetricStatus(Base):
    """Present value of one metric; ``type`` says which of the others is there."""

    type: Required = ""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerCondition(Base):
    """Whether scaling works, and why not."""

    type: Required = ""
    status: Required = ""
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class HorizontalPodAutoscalerStatus(Base):
    """What the autoscaler sees and wants."""

    observed_generation: int | None = None
    last_scale_time: Time | None = None
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    current_metrics: list[MetricStatus] | None = None
    conditions: list[HorizontalPodAutoscalerCondition] | None = None


class HorizontalPodAutoscaler(Object):
    """Keeps the replicas of an object where its metrics want them; a cluster's own autoscaler does the work."""

    spec: HorizontalPodAutoscalerSpec = msgspec.field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = msgspec.field(default_factory=HorizontalPodAutoscalerStatus)


class CrossVersionObjectReferenceV1(CrossVersionObjectReference):
    """An object of the same namespace, by kind and name."""


class HorizontalPodAutoscalerSpecV1(Base):
    """What is scaled, between which bounds, by which use of the processor."""

    scale_target_ref: CrossVersionObjectReferenceV1 = msgspec.field(default_factory=CrossVersionObjectReferenceV1)
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0
    target_cpu_utilization_percentage: Int32 | None = msgspec.field(default=None, name="targetCPUUtilizationPercentage")


class HorizontalPodAutoscalerStatusV1(Base):
    """What the autoscaler sees and wants."""

    observed_generation: int | None = None
    last_scale_time: Time | None = None
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    current_cpu_utilization_percentage: Int32 | None = msgspec.field(
        default=None, name="currentCPUUtilizationPercentage"
    )


class HorizontalPodAutoscalerV1(Object):
    """The same autoscaler as ``autoscaling/v1`` tells it; other metrics than the processor are in annotations."""

    spec: HorizontalPodAutoscalerSpecV1 = msgspec.field(default_factory=HorizontalPodAutoscalerSpecV1)
    status: HorizontalPodAutoscalerStatusV1 = msgspec.field(default_factory=HorizontalPodAutoscalerStatusV1)


# ``cluster.x-k8s.io``: MachineDeployment and Machine, as far as scaling needs them; not kinds that Unisono serves.

MINIMUM = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAXIMUM = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
# What one machine offers, where it cannot be seen on a node; the keys are those of the cluster autoscaler.
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
GPU_TYPE, GPU_COUNT = f"{CAPACITY}gpu-type", f"{CAPACITY}gpu-count"
LABELS, TAINTS = f"{CAPACITY}labels", f"{CAPACITY}taints"
# How patient scaling is with a MachineDeployment (annotations): Go durations.
UNNEEDED_TIME = "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime"
PROVISION_TIME = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"
DELETE_MACHINE = "cluster.x-k8s.io/delete-machine"
"""On a Machine (annotation): it goes first when its MachineDeployment has fewer replicas."""
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
"""On a Machine (label): its MachineDeployment."""


class MachineDeploymentSpec(Base):
    """How many machines there should be."""

    replicas: int | None = None


class MachineDeploymentStatus(Base):
    """How many there are, and how many of them are nodes that take pods."""

    replicas: int | None = None
    ready_replicas: int | None = None


class MachineDeployment(Object):
    """Machines of one kind in a cluster that Cluster API manages."""

    spec: MachineDeploymentSpec = msgspec.field(default_factory=MachineDeploymentSpec)
    status: MachineDeploymentStatus = msgspec.field(default_factory=MachineDeploymentStatus)


class NodeRef(Base):
    """The node that a machine became."""

    name: str = ""


class MachineStatus(Base):
    """Which node the machine is."""

    node_ref: NodeRef | None = None


class Machine(Object):
    """One machine of a cluster that Cluster API manages."""

    status: MachineStatus = msgspec.field(default_factory=MachineStatus)


# ``karpenter.sh``: NodePool, as far as it tells which machines may come; not a kind that Unisono serves.


class NodeRequirement(Base):
    """What nodes of a pool have as labels; operators are those of node affinity."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeClaimSpec(Base):
    """What nodes of a pool are like."""

    requirements: list[NodeRequirement] | None = None
    taints: list[Taint] | None = None


class NodeClaimMeta(Base):
    """Labels that nodes of a pool get."""

    labels: dict[str, str] | None = None


class NodeClaimTemplate(Base):
    """Nodes of a pool."""

    metadata: NodeClaimMeta = msgspec.field(default_factory=NodeClaimMeta)
    spec: NodeClaimSpec = msgspec.field(default_factory=NodeClaimSpec)


class NodePoolSpec(Base):
    """Nodes that Karpenter may make, up to limits on all of them together."""

    template: NodeClaimTemplate = msgspec.field(default_factory=NodeClaimTemplate)
    limits: dict[str, Quantity] | None = None


class NodePoolStatus(Base):
    """What the nodes of the pool have together; ``nodes`` is their number."""

    resources: dict[str, Quantity] | None = None


class NodePool(Object):
    """Nodes that Karpenter makes for pods that have no place."""

    spec: NodePoolSpec = msgspec.field(default_factory=NodePoolSpec)
    status: NodePoolStatus = msgspec.field(default_factory=NodePoolStatus)


NODE_POOLS = served("karpenter.sh", "v1", NodePool, namespaced=False, status_subresource=True)
NODE_POOL = "karpenter.sh/nodepool"
"""On a node (label): the NodePool that it is of."""
MACHINES = served("cluster.x-k8s.io", "v1beta2", Machine, status_subresource=True)
MACHINE_DEPLOYMENTS = served("cluster.x-k8s.io", "v1beta2", MachineDeployment, status_subresource=True)

# ``autoscaling.x-k8s.io``: ProvisioningRequest, and the PodTemplates it refers to; not kinds that Unisono serves.

CLASS_OF_GROUP = "unisono.io/provisioning-class"
"""On a PodGroup, or on the job that it is made for: the class of its ProvisioningRequests."""
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a pod: it uses what this request provisions, and asks for no nodes of its own."""
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
"""On a pod: the class of that request."""


class PodTemplate(Object):
    """What pods will look like (v1)."""

    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)


class PodTemplateRef(Base):
    """A PodTemplate of the same namespace."""

    name: str = ""


class PodSet(Base):
    """So many pods that are alike."""

    pod_template_ref: PodTemplateRef = msgspec.field(default_factory=PodTemplateRef)
    count: int = 0


class ProvisioningRequestSpec(Base):
    """What is asked for; it cannot be changed."""

    provisioning_class_name: str = ""
    pod_sets: list[PodSet] | None = None
    parameters: dict[str, str] | None = None


class ProvisioningRequestStatus(Base):
    """Conditions Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked."""

    conditions: list[Condition] | None = None


class ProvisioningRequest(Object):
    """Nodes for a group of pods, all or none."""

    spec: ProvisioningRequestSpec = msgspec.field(default_factory=ProvisioningRequestSpec)
    status: ProvisioningRequestStatus = msgspec.field(default_factory=ProvisioningRequestStatus)

    def has(self, condition: str) -> bool:
        """The condition is true."""
        return is_true(self.status.conditions, condition)


POD_TEMPLATES = served("", "v1", PodTemplate)
PROVISIONING_REQUESTS = served("autoscaling.x-k8s.io", "v1", ProvisioningRequest, status_subresource=True)
