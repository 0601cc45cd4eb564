"""Defaults of Knative's Services."""

from __future__ import annotations

from unisono.api.defaulting.pod import default_pod_spec
from unisono.api.knative import KnativeService

CONTAINER = "user-container"
TIMEOUT_SECONDS = 300


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
