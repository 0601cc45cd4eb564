"""Values that a kind gets when its user leaves them out, as Kubernetes and Volcano fill them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from unisono.api import kinds
from unisono.api.base import Object
from unisono.api.defaulting import builtin, job, pod, scheduling
from unisono.api.kind import Kind

T = TypeVar("T", bound=Object)

_DEFAULTS: dict[Kind[Any], Callable[[Any], None]] = {
    kinds.PODS: pod.default_pod,
    kinds.NODES: builtin.default_node,
    kinds.NAMESPACES: builtin.default_namespace,
    kinds.SECRETS: builtin.default_secret,
    kinds.SERVICES: builtin.default_service,
    kinds.PERSISTENT_VOLUME_CLAIMS: builtin.default_claim,
    kinds.PRIORITY_CLASSES: builtin.default_priority_class,
    kinds.CUSTOM_RESOURCE_DEFINITIONS: builtin.default_crd,
    kinds.JOBS: job.default_job,
    kinds.POD_GROUPS: scheduling.default_pod_group,
    kinds.QUEUES: scheduling.default_queue,
}


def apply_defaults(kind: Kind[T], obj: T) -> None:
    """Fill in ``obj`` in place; idempotent, and never fails on an invalid object."""
    default = _DEFAULTS.get(kind)
    if default is not None:
        default(obj)
