"""Defaults of the other built-in kinds."""

from __future__ import annotations

import base64

from unisono.api.base import LabelSelector
from unisono.api.core.cluster import Namespace, Node, PriorityClass, RuntimeClass, Secret
from unisono.api.core.crd import CustomResourceConversion, CustomResourceDefinition
from unisono.api.core.devices import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from unisono.api.core.persistent_volume import PersistentVolume, StorageClass
from unisono.api.core.policy import LimitRange, ResourceQuota
from unisono.api.core.refs import ClientIPConfig, SessionAffinityConfig
from unisono.api.core.service import NetworkPolicy, Service, ServicePort
from unisono.api.core.storage import PersistentVolumeClaim
from unisono.api.defaulting.pod import canonical_map
from unisono.api.groups.access import GROUP, ClusterRoleBinding, RoleBinding
from unisono.api.groups.admission_registration import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from unisono.api.keys import NAMESPACE_NAME

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
            item.default_request = {
                **(item.min or {}),
                **(item.default or {}),
                **(item.default_request or {}),
            } or None


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
