"""Defaults of what serves: ReplicationControllers, HorizontalPodAutoscalers, Ingresses and Knative's Services."""

from __future__ import annotations

from unisono.api.autoscaling import (
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from unisono.api.core.replication_controller import ReplicationController
from unisono.api.core.service import IngressClass
from unisono.api.defaulting.pod import default_pod_spec
from unisono.api.knative import KnativeService

CPU_PERCENT = 80
_PERIOD_SECONDS = 15
_MOST_UP = 4
CONTAINER = "user-container"
TIMEOUT_SECONDS = 300


def default_replication_controller(controller: ReplicationController) -> None:
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
