"""Defaults of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs (``apps/v1`` and ``batch/v1``)."""

from __future__ import annotations

import base64

from unisono.api.base import IntOrString, LabelSelector
from unisono.api.core.cluster import LimitRange, Namespace, Node, PriorityClass, ResourceQuota, RuntimeClass, Secret
from unisono.api.core.crd import CustomResourceConversion, CustomResourceDefinition
from unisono.api.core.devices import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from unisono.api.core.persistent_volume import PersistentVolume, StorageClass
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.refs import ClientIPConfig, SessionAffinityConfig
from unisono.api.core.service import IngressClass, NetworkPolicy, Service, ServicePort
from unisono.api.core.volume import PersistentVolumeClaim
from unisono.api.defaulting.pod import canonical_map, default_pod_spec
from unisono.api.groups import apps
from unisono.api.groups.access import GROUP, ClusterRoleBinding, RoleBinding
from unisono.api.groups.admission_registration import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from unisono.api.groups.autoscaling import (
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from unisono.api.groups.batch_v1 import BatchCronJob, BatchJob, BatchJobSpec
from unisono.api.keys import BATCH_JOB_NAME, NAMESPACE_NAME
from unisono.api.knative import KnativeService

# Defaults of the other built-in kinds.

_AFFINITY_SECONDS = 10800
_TIMEOUT_SECONDS = 10


def default_node(node: Node) -> None:
    """Without ``allocatable`` everything that a node has is for pods."""
    status = node.status
    canonical_map(status.capacity)
    canonical_map(status.allocatable)
    if status.allocatable is None and status.capacity is not None:
        status.allocatable = dict(status.capacity)


def default_namespace(namespace: Namespace) -> None:
    """Active, and labelled with its own name so that selectors can name it."""
    meta = namespace.metadata
    if meta.name:
        meta.labels = {**(meta.labels or {}), NAMESPACE_NAME: meta.name}
    namespace.status.phase = namespace.status.phase or "Active"


def default_secret(secret: Secret) -> None:
    """Opaque; ``stringData`` becomes base64 in ``data`` and disappears."""
    secret.type = secret.type or "Opaque"
    if secret.string_data:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in secret.string_data.items()}
        secret.data = {**(secret.data or {}), **encoded}
    secret.string_data = None


def default_network_policy(policy: NetworkPolicy) -> None:
    """A policy restricts what comes in, and what goes out as well where it has rules about that; ports are TCP's."""
    spec = policy.spec
    if not spec.policy_types:
        spec.policy_types = ["Ingress", "Egress"] if spec.egress else ["Ingress"]
    for rule in (*(spec.ingress or ()), *(spec.egress or ())):
        for port in rule.ports or ():
            port.protocol = port.protocol or "TCP"


def default_service(service: Service) -> None:
    """ClusterIP, TCP, target port equal to the port."""
    spec = service.spec
    spec.type = spec.type or "ClusterIP"
    spec.session_affinity = spec.session_affinity or "None"
    if spec.session_affinity == "ClientIP":
        config = spec.session_affinity_config or SessionAffinityConfig()
        config.client_ip = config.client_ip or ClientIPConfig()
        config.client_ip.timeout_seconds = config.client_ip.timeout_seconds or _AFFINITY_SECONDS
        spec.session_affinity_config = config
    if spec.type in ("NodePort", "LoadBalancer"):
        spec.external_traffic_policy = spec.external_traffic_policy or "Cluster"
        if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is None:
            spec.allocate_load_balancer_node_ports = True
    if spec.type != "ExternalName":
        spec.internal_traffic_policy = spec.internal_traffic_policy or "Cluster"
        if spec.cluster_ip == "None" and not spec.cluster_ips:
            spec.cluster_ips = ["None"]
    for port in spec.ports or ():
        _default_port(port)


def _default_port(port: ServicePort) -> None:
    port.protocol = port.protocol or "TCP"
    if port.target_port in (None, 0, ""):
        port.target_port = port.port


def default_claim(claim: PersistentVolumeClaim) -> None:
    """A file system, pending until it is bound."""
    claim.spec.volume_mode = claim.spec.volume_mode or "Filesystem"
    claim.status.phase = claim.status.phase or "Pending"
    canonical_map(claim.spec.resources.requests)
    canonical_map(claim.spec.resources.limits)


def default_volume(volume: PersistentVolume) -> None:
    """A file system that is kept when its claim goes, pending until a controller looks at it."""
    volume.spec.volume_mode = volume.spec.volume_mode or "Filesystem"
    volume.spec.persistent_volume_reclaim_policy = volume.spec.persistent_volume_reclaim_policy or "Retain"
    volume.status.phase = volume.status.phase or "Pending"
    canonical_map(volume.spec.capacity)


def default_storage_class(storage_class: StorageClass) -> None:
    """Volumes are made at once, and deleted with their claims."""
    storage_class.reclaim_policy = storage_class.reclaim_policy or "Delete"
    storage_class.volume_binding_mode = storage_class.volume_binding_mode or "Immediate"


def default_resource_claim(claim: ResourceClaim) -> None:
    """One device where nothing is said."""
    _default_requests(claim.spec)


def default_resource_claim_template(template: ResourceClaimTemplate) -> None:
    """As the claims that are made from it."""
    _default_requests(template.spec.spec)


def _default_requests(spec: ResourceClaimSpec) -> None:
    for request in spec.devices.requests or ():
        for part in (request.exactly, *(request.first_available or ())):
            if part is not None:
                part.allocation_mode = part.allocation_mode or "ExactCount"
                if part.allocation_mode == "ExactCount" and not part.count:
                    part.count = 1


def default_quota(quota: ResourceQuota) -> None:
    """Canonical amounts."""
    for amounts in (quota.spec.hard, quota.status.hard, quota.status.used):
        canonical_map(amounts)


def default_limit_range(limits: LimitRange) -> None:
    """Of containers, the maximum is the default limit, and that (or else the minimum) the default request."""
    for item in limits.spec.limits:
        for amounts in (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio):
            canonical_map(amounts)
        if item.type == "Container":
            item.default = {**(item.max or {}), **(item.default or {})} or None
            item.default_request = {**(item.min or {}), **(item.default or {}), **(item.default_request or {})} or None


def default_priority_class(priority_class: PriorityClass) -> None:
    """Value 0, and pods of the class may preempt."""
    if priority_class.value is None:
        priority_class.value = 0
    priority_class.preemption_policy = priority_class.preemption_policy or "PreemptLowerPriority"


def default_runtime_class(runtime_class: RuntimeClass) -> None:
    """Canonical amounts."""
    if runtime_class.overhead is not None:
        canonical_map(runtime_class.overhead.pod_fixed)


def default_crd(definition: CustomResourceDefinition) -> None:
    """Names derived from the kind, and no conversion between versions."""
    names = definition.spec.names
    if names.kind:
        names.singular = names.singular or names.kind.lower()
        names.list_kind = names.list_kind or f"{names.kind}List"
    if definition.spec.conversion is None:
        definition.spec.conversion = CustomResourceConversion(strategy="None")


def default_binding(binding: RoleBinding | ClusterRoleBinding) -> None:
    """Roles, users and groups belong to the RBAC group; service accounts to the core group."""
    binding.role_ref.api_group = binding.role_ref.api_group or GROUP
    for subject in binding.subjects or ():
        if subject.api_group is None and subject.kind in ("User", "Group"):
            subject.api_group = GROUP


def default_webhooks(configuration: MutatingWebhookConfiguration | ValidatingWebhookConfiguration) -> None:
    """Requests fail with a webhook that does not answer within ten seconds, and all objects are shown to it."""
    for hook in configuration.webhooks or ():
        hook.failure_policy = hook.failure_policy or "Fail"
        hook.match_policy = hook.match_policy or "Equivalent"
        hook.namespace_selector = hook.namespace_selector or LabelSelector()
        hook.object_selector = hook.object_selector or LabelSelector()
        if hook.timeout_seconds is None:
            hook.timeout_seconds = _TIMEOUT_SECONDS
        if isinstance(hook, MutatingWebhook):
            hook.reinvocation_policy = hook.reinvocation_policy or "Never"
        for rule in hook.rules or ():
            rule.scope = rule.scope or "*"
        service = hook.client_config.service if hook.client_config else None
        if service is not None and service.port is None:
            service.port = 443


_QUARTER = "25%"
_HISTORY = 10
_PROGRESS_SECONDS = 600
_BACKOFF = 6
_NO_LIMIT = 2**31 - 1

JOB_NAME_LABELS = ("job-name", BATCH_JOB_NAME)
JOB_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def default_deployment(deployment: apps.Deployment) -> None:
    """One replica, a rolling update by quarters, ten old revisions."""
    spec = deployment.spec
    _default_template(spec.template)
    if spec.replicas is None:
        spec.replicas = 1
    spec.strategy.type = spec.strategy.type or "RollingUpdate"
    if spec.strategy.type == "RollingUpdate":
        rolling = spec.strategy.rolling_update or apps.RollingUpdateDeployment()
        rolling.max_unavailable = _or(rolling.max_unavailable, _QUARTER)
        rolling.max_surge = _or(rolling.max_surge, _QUARTER)
        spec.strategy.rolling_update = rolling
    if spec.revision_history_limit is None:
        spec.revision_history_limit = _HISTORY
    if spec.progress_deadline_seconds is None:
        spec.progress_deadline_seconds = _PROGRESS_SECONDS


def default_replica_set(replica_set: apps.ReplicaSet) -> None:
    """One replica."""
    _default_template(replica_set.spec.template)
    if replica_set.spec.replicas is None:
        replica_set.spec.replicas = 1


def default_stateful_set(stateful_set: apps.StatefulSet) -> None:
    """One replica, one pod after the other, claims are kept."""
    spec = stateful_set.spec
    _default_template(spec.template)
    if spec.replicas is None:
        spec.replicas = 1
    spec.pod_management_policy = spec.pod_management_policy or "OrderedReady"
    spec.update_strategy.type = spec.update_strategy.type or "RollingUpdate"
    if spec.update_strategy.type == "RollingUpdate":
        rolling = spec.update_strategy.rolling_update or apps.RollingUpdateStatefulSetStrategy()
        rolling.partition = rolling.partition or 0
        spec.update_strategy.rolling_update = rolling
    retention = spec.persistent_volume_claim_retention_policy or apps.StatefulSetPersistentVolumeClaimRetentionPolicy()
    retention.when_deleted = retention.when_deleted or "Retain"
    retention.when_scaled = retention.when_scaled or "Retain"
    spec.persistent_volume_claim_retention_policy = retention
    if spec.revision_history_limit is None:
        spec.revision_history_limit = _HISTORY
    for claim in spec.volume_claim_templates or ():
        claim.api_version, claim.kind = claim.api_version or "v1", claim.kind or "PersistentVolumeClaim"
        default_claim(claim)


def default_daemon_set(daemon_set: apps.DaemonSet) -> None:
    """A rolling update, one node at a time."""
    spec = daemon_set.spec
    _default_template(spec.template)
    spec.update_strategy.type = spec.update_strategy.type or "RollingUpdate"
    if spec.update_strategy.type == "RollingUpdate":
        rolling = spec.update_strategy.rolling_update or apps.RollingUpdateDaemonSet()
        rolling.max_unavailable = _or(rolling.max_unavailable, 1)
        rolling.max_surge = _or(rolling.max_surge, 0)
        spec.update_strategy.rolling_update = rolling
    if spec.revision_history_limit is None:
        spec.revision_history_limit = _HISTORY


def default_batch_job(job: BatchJob) -> None:
    """One pod that must succeed, six failures allowed; labels are those of the template."""
    default_batch_job_spec(job.spec)
    if not job.metadata.labels and job.spec.template.metadata.labels:
        job.metadata.labels = dict(job.spec.template.metadata.labels)


def default_batch_job_spec(spec: BatchJobSpec) -> None:
    """Defaults of a Job's spec."""
    _default_template(spec.template)
    if spec.completions is None and spec.parallelism is None:
        spec.completions = 1
    if spec.parallelism is None:
        spec.parallelism = 1
    if spec.backoff_limit is None:
        spec.backoff_limit = _BACKOFF if spec.backoff_limit_per_index is None else _NO_LIMIT
    spec.completion_mode = spec.completion_mode or "NonIndexed"
    spec.suspend = bool(spec.suspend)
    spec.manual_selector = bool(spec.manual_selector)
    if spec.pod_replacement_policy is None:
        spec.pod_replacement_policy = "Failed" if spec.pod_failure_policy is not None else "TerminatingOrFailed"
    for rule in (spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ():
        for pattern in rule.on_pod_conditions or ():
            pattern.status = pattern.status or "True"


def default_batch_cron_job(cron_job: BatchCronJob) -> None:
    """Jobs side by side; three complete and one failed are kept."""
    spec = cron_job.spec
    spec.concurrency_policy = spec.concurrency_policy or "Allow"
    spec.suspend = bool(spec.suspend)
    if spec.successful_jobs_history_limit is None:
        spec.successful_jobs_history_limit = 3
    if spec.failed_jobs_history_limit is None:
        spec.failed_jobs_history_limit = 1
    _default_template(spec.job_template.spec.template)


def generate_selector(job: BatchJob) -> None:
    """The labels and the selector that tie pods to this Job and no other; called once, when it has its uid."""
    spec, meta = job.spec, job.metadata
    if spec.manual_selector:
        return
    labels = dict(spec.template.metadata.labels or {})
    for key in JOB_NAME_LABELS:
        labels.setdefault(key, meta.name)
    for key in JOB_UID_LABELS:
        labels.setdefault(key, meta.uid or "")
    spec.template.metadata.labels = labels
    selector = spec.selector or LabelSelector()
    selector.match_labels = {JOB_UID_LABELS[1]: meta.uid or "", **(selector.match_labels or {})}
    spec.selector = selector


def _default_template(template: PodTemplateSpec) -> None:
    default_pod_spec(template.spec)


def _or(value: IntOrString | None, default: IntOrString) -> IntOrString:
    return default if value is None else value


# Defaults of what serves: ReplicationControllers, HorizontalPodAutoscalers, Ingresses and Knative's Services.

CPU_PERCENT = 80
_PERIOD_SECONDS = 15
_MOST_UP = 4
CONTAINER = "user-container"
TIMEOUT_SECONDS = 300


def default_replication_controller(controller: apps.ReplicationController) -> None:
    """One replica; selector and labels are those of the template."""
    spec = controller.spec
    labels = spec.template.metadata.labels if spec.template else None
    if labels:
        spec.selector = spec.selector or dict(labels)
        controller.metadata.labels = controller.metadata.labels or dict(labels)
    if spec.replicas is None:
        spec.replicas = 1
    if spec.template is not None:
        default_pod_spec(spec.template.spec)


def default_ingress_class(ingress_class: IngressClass) -> None:
    """Parameters belong to the whole cluster."""
    parameters = ingress_class.spec.parameters
    if parameters is not None:
        parameters.scope = parameters.scope or "Cluster"


def default_autoscaler(autoscaler: HorizontalPodAutoscaler) -> None:
    """At least one replica, as many as keep the processors at four fifths of the request."""
    spec = autoscaler.spec
    if spec.min_replicas is None:
        spec.min_replicas = 1
    if not spec.metrics:
        target = MetricTarget(type="Utilization", average_utilization=CPU_PERCENT)
        spec.metrics = [MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))]
    if spec.behavior is not None:
        percent = HPAScalingPolicy(type="Percent", value=100, period_seconds=_PERIOD_SECONDS)
        pods = HPAScalingPolicy(type="Pods", value=_MOST_UP, period_seconds=_PERIOD_SECONDS)
        up = spec.behavior.scale_up = spec.behavior.scale_up or HPAScalingRules()
        down = spec.behavior.scale_down = spec.behavior.scale_down or HPAScalingRules()
        if up.stabilization_window_seconds is None:
            up.stabilization_window_seconds = 0
        for rules, policies in ((up, [pods, percent]), (down, [percent])):
            rules.select_policy = rules.select_policy or "Max"
            if rules.policies is None:
                rules.policies = policies


def default_knative_service(service: KnativeService) -> None:
    """A name for a container that has none, any number of requests at a time, and five minutes for each."""
    spec = service.spec.template.spec
    containers = spec.containers or []
    if len(containers) == 1 and not containers[0].name:
        containers[0].name = CONTAINER
    if spec.container_concurrency is None:
        spec.container_concurrency = 0
    if spec.timeout_seconds is None:
        spec.timeout_seconds = TIMEOUT_SECONDS
    default_pod_spec(spec)
