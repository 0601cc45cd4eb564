"""KEDA's ScaledObject and Knative's Service, for a control plane of one machine; ``api.kinds`` lists them.

They are not installed on clusters, where KEDA and Knative bring their own definitions.
"""

from __future__ import annotations

from typing import Any

from unisono.api import keda, knative
from unisono.api.kind import Kind

SCALED_OBJECTS: Kind[keda.ScaledObject] = Kind(
    "keda.sh",
    "v1alpha1",
    "ScaledObject",
    "scaledobjects",
    keda.ScaledObject,
    short_names=("so",),
    status_subresource=True,
)
KNATIVE_SERVICES: Kind[knative.KnativeService] = Kind(
    "serving.knative.dev",
    "v1",
    "Service",
    "services",
    knative.KnativeService,
    short_names=("kservice", "ksvc"),
    categories=("all", "knative", "serving"),
    status_subresource=True,
)

INFERENCE_KINDS: tuple[Kind[Any], ...] = (SCALED_OBJECTS, KNATIVE_SERVICES)
