"""What a Knative Service is made of: a Deployment, a Service and, where its load decides, an autoscaler (pure)."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.core import EnvVar, PodSpec, Service
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.service import ServicePort, ServiceSpec
from unisono.api.groups.apps import Deployment, DeploymentSpec
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from unisono.api.keys import (
    KNATIVE_LEAST,
    KNATIVE_METRIC,
    KNATIVE_MOST,
    KNATIVE_REVISION,
    KNATIVE_SERVICE,
    KNATIVE_TARGET,
)
from unisono.api.kind_families import KNATIVE_SERVICES
from unisono.api.knative import MOST_REPLICAS, KnativeService, port_of, revision_of, stated
from unisono.api.triggers import number
from unisono.controllers.owners import owned_by

_CPU_PERCENT = 80


def url_of(service: KnativeService) -> str:
    """Where it is reached."""
    return f"http://{service.metadata.name}.{service.metadata.namespace}.svc.cluster.local"


def bounds_of(service: KnativeService) -> tuple[int, int]:
    """Fewest and most replicas by the use of resources; one at least runs, as nothing else can be measured."""
    notes = service.spec.template.metadata.annotations or {}
    least, most = stated(notes, KNATIVE_LEAST, 1), stated(notes, KNATIVE_MOST, MOST_REPLICAS)
    return max(least, 1), max(most, least, 1)


def _meta(service: KnativeService, name: str) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=service.metadata.namespace,
        labels={KNATIVE_SERVICE: service.metadata.name, KNATIVE_REVISION: revision_of(service)},
        owner_references=[owned_by(KNATIVE_SERVICES, service)],
    )


def deployment_of(service: KnativeService) -> Deployment:
    """The pods; how many there are is left to the autoscaler."""
    template, name = service.spec.template, service.metadata.name
    fields = {key: getattr(template.spec, key) for key in PodSpec.__struct_fields__}
    revision = revision_of(service)
    own = [
        EnvVar(name="PORT", value=str(port_of(service))),
        EnvVar(name="K_REVISION", value=revision),
        EnvVar(name="K_CONFIGURATION", value=name),
        EnvVar(name="K_SERVICE", value=name),
    ]
    # The objects of caches are not changed.
    fields["containers"] = [replace(each, env=[*own, *(each.env or ())]) for each in template.spec.containers or ()]
    spec = PodSpec(**fields)
    selector = {KNATIVE_SERVICE: name}
    labels = {**(template.metadata.labels or {}), **selector, KNATIVE_REVISION: revision}
    pods = PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=template.metadata.annotations), spec=spec)
    wanted = DeploymentSpec(selector=LabelSelector(match_labels=selector), template=pods)
    return Deployment(metadata=_meta(service, f"{name}-deployment"), spec=wanted)


def service_of(service: KnativeService) -> Service:
    """The name under which the pods are reached, at port 80."""
    port = ServicePort(name="http", port=80, target_port=port_of(service))
    spec = ServiceSpec(ports=[port], selector={KNATIVE_SERVICE: service.metadata.name})
    return Service(metadata=_meta(service, service.metadata.name), spec=spec)


def autoscaler_of(service: KnativeService) -> HorizontalPodAutoscaler:
    """By the use of the processor, with Knative's annotations ``metric`` and ``target``."""
    notes = service.spec.template.metadata.annotations or {}
    least, most = bounds_of(service)
    metric = notes.get(KNATIVE_METRIC, "cpu")
    target = int(number(notes.get(KNATIVE_TARGET, "")) or _CPU_PERCENT)
    resource = MetricTarget(type="Utilization", average_utilization=max(target, 1))
    if metric == "memory":
        resource = MetricTarget(type="AverageValue", average_value=f"{target}Mi")
    source = ResourceMetricSource(name="memory" if metric == "memory" else "cpu", target=resource)
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=CrossVersionObjectReference(
            kind="Deployment", name=f"{service.metadata.name}-deployment", api_version="apps/v1"
        ),
        min_replicas=least,
        max_replicas=most,
        metrics=[MetricSpec(type="Resource", resource=source)],
    )
    return HorizontalPodAutoscaler(metadata=_meta(service, service.metadata.name), spec=spec)
