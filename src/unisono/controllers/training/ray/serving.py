"""What a RayService adds to its cluster, and the Services that lead to it."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import ExecAction, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec
from unisono.api.groups.ray import RayCluster, RayClusterSpec, RayService
from unisono.api.keys import RAY_CLUSTER
from unisono.api.kind_families import RAY_SERVICES
from unisono.controllers.owners import owned_by
from unisono.controllers.training.ray import labels
from unisono.controllers.training.ray.pods import head_service as cluster_head_service
from unisono.controllers.training.ray.view import RayClusterView

# Bash connects by itself: not every image has a program for HTTP.
_HEALTHY = (
    "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /-/healthz HTTP/1.0\\r\\n\\r\\n' >&3 && "
    "read -t 4 -u 3 line && case $line in *' 200 '*) exit 0;; esac; exit 1"
)


def cluster_spec(service: RayService) -> RayClusterSpec:
    """Spec of the service's cluster: pods that requests go to are marked, and ready when Ray Serve's proxy is."""
    spec = msgspec.convert(msgspec.to_builtins(service.spec.ray_cluster_config), RayClusterSpec)
    _mark(spec.head_group_spec.template, serves=not service.spec.exclude_head_pod_from_serve_svc)
    for group in spec.worker_group_specs or ():
        _mark(group.template, serves=True)
        for container in (group.template.spec.containers or [])[:1]:
            # A worker without replicas of any application has no proxy, and gets no requests.
            container.readiness_probe = container.readiness_probe or _answers(serve_port(service))
    return spec


def _mark(template: PodTemplateSpec, *, serves: bool) -> None:
    template.metadata.labels = {**(template.metadata.labels or {}), labels.SERVE: "true" if serves else "false"}


def _answers(port: int) -> Probe:
    command = ["/bin/bash", "-c", _HEALTHY.format(port=port)]
    return Probe(exec=ExecAction(command=command), period_seconds=5, timeout_seconds=5, failure_threshold=1)


def serve_port(service: RayService) -> int:
    """Where the proxies listen: the head's port named ``serve``."""
    containers = service.spec.ray_cluster_config.head_group_spec.template.spec.containers or []
    named = (port for port in (containers[0].ports if containers else None) or () if port.name == "serve")
    return next((port.container_port for port in named), labels.SERVE_PORT)


def head_service(service: RayService, cluster: RayCluster) -> Service:
    """The Service of the head that serves, under the name of the RayService: it stays when clusters come and go."""
    made = cluster_head_service(RayClusterView(cluster))
    made.metadata.name = labels.head_service(service.metadata.name)
    made.metadata.owner_references = [owned_by(RAY_SERVICES, service)]
    return made


def serve_service(service: RayService, cluster: RayCluster) -> Service:
    """The Service of the applications; what ``serveService`` says is merged into it."""
    own: dict[str, Any] = service.spec.serve_service or {}
    given = own.get("metadata") or {}
    port = serve_port(service)
    meta = service.metadata
    name = str(given.get("name") or labels.serve_service(meta.name))
    marks = {labels.ORIGIN_NAME: meta.name, labels.ORIGIN_KIND: RAY_SERVICES.kind, labels.SERVE: name}
    spec = ServiceSpec(ports=[ServicePort(name="serve", port=port, target_port=port)])
    # Ports that the user names are used; which pods answer is the controller's to say.
    merged = {**msgspec.to_builtins(spec), **(own.get("spec") or {})}
    merged["selector"] = {RAY_CLUSTER: cluster.metadata.name, labels.SERVE: "true"}
    return Service(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={**(given.get("labels") or {}), **marks},
            annotations=given.get("annotations") or None,
            owner_references=[owned_by(RAY_SERVICES, service)],
        ),
        spec=msgspec.convert(merged, ServiceSpec),
    )
