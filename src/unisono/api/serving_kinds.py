"""Kinds that go with workloads that serve: autoscalers, ingresses, replication controllers; ``api.kinds`` lists them.

They are stored and checked. Who acts on them is the cluster's: an autoscaler, an ingress controller.
"""

from __future__ import annotations

from typing import Any

from unisono.api import autoscaling
from unisono.api.core import replication_controller, service
from unisono.api.kind import Kind, Scale

REPLICATION_CONTROLLERS: Kind[replication_controller.ReplicationController] = Kind(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    replication_controller.ReplicationController,
    short_names=("rc",),
    categories=("all",),
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.replicas", ".spec.selector"),
)
HORIZONTAL_POD_AUTOSCALERS: Kind[autoscaling.HorizontalPodAutoscaler] = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    autoscaling.HorizontalPodAutoscaler,
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
# The same objects in other words: ``apiserver.views``.
HORIZONTAL_POD_AUTOSCALERS_V1: Kind[autoscaling.HorizontalPodAutoscalerV1] = Kind(
    "autoscaling",
    "v1",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    autoscaling.HorizontalPodAutoscalerV1,
    short_names=("hpa",),
    categories=("all",),
    status_subresource=True,
)
INGRESSES: Kind[service.Ingress] = Kind(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    service.Ingress,
    short_names=("ing",),
    status_subresource=True,
)
INGRESS_CLASSES: Kind[service.IngressClass] = Kind(
    "networking.k8s.io", "v1", "IngressClass", "ingressclasses", service.IngressClass, False
)

SERVING_KINDS: tuple[Kind[Any], ...] = (
    REPLICATION_CONTROLLERS,
    HORIZONTAL_POD_AUTOSCALERS,
    INGRESSES,
    INGRESS_CLASSES,
)
