"""Defaults of pods (``pkg/apis/core/v1/defaults.go`` and the default admission plug-ins of Kubernetes)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Quantity, ResourceList
from unisono.api.core.container import Container, LifecycleHandler, PodSecurityContext, Probe, ResourceRequirements
from unisono.api.core.pod import Pod, PodSpec, Toleration
from unisono.api.core.volume import EmptyDirVolumeSource, ProjectedVolumeSource, Volume, VolumeSource
from unisono.api.keys import NODE_NOT_READY, NODE_UNREACHABLE
from unisono.api.pod_states import qos_class
from unisono.api.quantity import QuantityError, canonical

# Quantities of built-in kinds are stored in canonical form, as Kubernetes stores them.


def canonical_or_same(quantity: Quantity) -> Quantity:
    """Canonical text, or the value as it is when it is no quantity (validation says so later)."""
    try:
        return canonical(quantity)
    except QuantityError:
        return quantity


def canonical_map(resources: ResourceList | None) -> None:
    """Rewrite the values in place."""
    for name, quantity in (resources or {}).items():
        resources[name] = canonical_or_same(quantity)  # type: ignore[index]


def default_requests(resources: ResourceRequirements) -> None:
    """A limit without a request is its own request."""
    if resources.limits:
        requests = resources.requests or {}
        resources.requests = requests | {
            name: limit for name, limit in resources.limits.items() if name not in requests
        }


# Defaults of volumes.

_FILE_MODE = 0o644
_SOURCES = tuple(field.name for field in msgspec.structs.fields(VolumeSource))


def volume_sources(volume: VolumeSource) -> list[str]:
    """Attribute names of the sources that a volume has (one, when it is valid)."""
    return [name for name in _SOURCES if getattr(volume, name) is not None]


def default_volume(volume: Volume) -> None:
    """A volume without a source is an emptyDir; files get mode 0644."""
    if not volume_sources(volume):
        volume.empty_dir = EmptyDirVolumeSource()
    for source in (volume.secret, volume.config_map, volume.downward_api, volume.projected):
        if source is not None and source.default_mode is None:
            source.default_mode = _FILE_MODE
    if volume.downward_api is not None:
        for item in volume.downward_api.items or ():
            if item.field_ref is not None:
                item.field_ref.api_version = item.field_ref.api_version or "v1"
    if volume.projected is not None:
        _default_projected(volume.projected)
    if volume.host_path is not None and volume.host_path.type is None:
        volume.host_path.type = ""
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        volume.empty_dir.size_limit = canonical_or_same(volume.empty_dir.size_limit)
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
        claim = volume.ephemeral.volume_claim_template.spec
        claim.volume_mode = claim.volume_mode or "Filesystem"
        canonical_map(claim.resources.requests)
    _default_driver(volume)


def _default_projected(projected: ProjectedVolumeSource) -> None:
    for source in projected.sources or ():
        token = source.service_account_token
        if token is not None and token.expiration_seconds is None:
            token.expiration_seconds = 3600
        for item in (source.downward_api.items if source.downward_api else None) or ():
            if item.field_ref is not None:
                item.field_ref.api_version = item.field_ref.api_version or "v1"


def _default_driver(volume: Volume) -> None:
    if volume.iscsi is not None:
        volume.iscsi.iscsi_interface = volume.iscsi.iscsi_interface or "default"
    if (rbd := volume.rbd) is not None:
        rbd.pool, rbd.user = rbd.pool or "rbd", rbd.user or "admin"
        rbd.keyring = rbd.keyring or "/etc/ceph/keyring"
    if (scale := volume.scale_io) is not None:
        scale.storage_mode, scale.fs_type = scale.storage_mode or "ThinProvisioned", scale.fs_type or "xfs"
    if (azure := volume.azure_disk) is not None:
        azure.caching_mode, azure.kind = azure.caching_mode or "ReadWrite", azure.kind or "Shared"
        azure.fs_type = azure.fs_type or "ext4"
        azure.read_only = bool(azure.read_only)


# Pods stay this long on a node that is not ready or not reachable (DefaultTolerationSeconds).
_TOLERATION_SECONDS = 300
_NODE_TROUBLE = (NODE_NOT_READY, NODE_UNREACHABLE)


def default_pod(pod: Pod) -> None:
    """Defaults of a pod, including those that Kubernetes' default admission plug-ins set without looking around."""
    spec = pod.spec
    default_pod_spec(spec)
    # Templates leave these to the pods that are made of them.
    if spec.enable_service_links is None:
        spec.enable_service_links = True
    for container in _containers(spec):
        default_requests(container.resources)
    _default_pod_resources(spec)
    spec.service_account = spec.service_account_name = spec.service_account_name or "default"
    _tolerate_node_trouble(spec)
    if pod.status.phase is None:
        pod.status.phase = "Pending"
    if pod.status.qos_class is None:
        pod.status.qos_class = qos_class(spec)


def default_pod_spec(spec: PodSpec) -> None:
    """Defaults of a pod's spec or of a template's."""
    spec.restart_policy = spec.restart_policy or "Always"
    spec.dns_policy = spec.dns_policy or "ClusterFirst"
    spec.scheduler_name = spec.scheduler_name or "default-scheduler"
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = 30
    if spec.security_context is None:
        spec.security_context = PodSecurityContext()
    for volume in spec.volumes or ():
        default_volume(volume)
    # Two names of one field.
    spec.service_account_name = spec.service_account_name or spec.service_account
    spec.service_account = spec.service_account_name
    for container in _containers(spec):
        default_container(container)
        if spec.host_network:
            for port in container.ports or ():
                port.host_port = port.host_port or port.container_port
    canonical_map(spec.overhead)
    if spec.resources is not None:
        canonical_map(spec.resources.limits)
        canonical_map(spec.resources.requests)


def _containers(spec: PodSpec) -> list[Container]:
    return [*(spec.init_containers or ()), *(spec.containers or ()), *(spec.ephemeral_containers or ())]


def _default_pod_resources(spec: PodSpec) -> None:
    """Pod-level requests: what the containers request together, else the limit."""
    if spec.resources is None:
        return
    requested = {name for each in spec.containers or () for name in (each.resources.requests or {})}
    missing = {name: each for name, each in (spec.resources.limits or {}).items() if name not in requested}
    if missing:
        spec.resources.requests = missing | (spec.resources.requests or {})


def _tolerate_node_trouble(spec: PodSpec) -> None:
    tolerations = list(spec.tolerations or ())
    for key in _NODE_TROUBLE:
        covered = any(
            (each.key == key or not each.key) and each.effect in ("NoExecute", None, "") for each in tolerations
        )
        if not covered:
            tolerations.append(
                Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_TOLERATION_SECONDS)
            )
    spec.tolerations = tolerations


def default_container(container: Container) -> None:
    """Defaults of one container."""
    container.image_pull_policy = container.image_pull_policy or pull_policy(container.image or "")
    container.termination_message_path = container.termination_message_path or "/dev/termination-log"
    container.termination_message_policy = container.termination_message_policy or "File"
    for port in container.ports or ():
        port.protocol = port.protocol or "TCP"
    canonical_map(container.resources.limits)
    canonical_map(container.resources.requests)
    for variable in container.env or ():
        source = variable.value_from
        if source is None:
            continue
        if source.field_ref is not None:
            source.field_ref.api_version = source.field_ref.api_version or "v1"
        if source.resource_field_ref is not None and source.resource_field_ref.divisor is None:
            source.resource_field_ref.divisor = "0"
        if source.file_key_ref is not None and source.file_key_ref.optional is None:
            source.file_key_ref.optional = False
    for probe in (container.liveness_probe, container.readiness_probe, container.startup_probe):
        _default_probe(probe)
    if container.lifecycle is not None:
        _default_action(container.lifecycle.post_start)
        _default_action(container.lifecycle.pre_stop)


def pull_policy(image: str) -> str:
    """``Always`` for ``:latest`` or no tag, else ``IfNotPresent``."""
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    tag = last.partition(":")[2]
    return "IfNotPresent" if digest or tag not in ("", "latest") else "Always"


def _default_probe(probe: Probe | None) -> None:
    if probe is None:
        return
    probe.timeout_seconds = probe.timeout_seconds or 1
    probe.period_seconds = probe.period_seconds or 10
    probe.success_threshold = probe.success_threshold or 1
    probe.failure_threshold = probe.failure_threshold or 3
    _default_action(probe)
    if probe.grpc is not None and probe.grpc.service is None:
        probe.grpc.service = ""


def _default_action(handler: Probe | LifecycleHandler | None) -> None:
    if handler is not None and handler.http_get is not None:
        handler.http_get.path = handler.http_get.path or "/"
        handler.http_get.scheme = handler.http_get.scheme or "HTTP"
