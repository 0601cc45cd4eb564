"""The kinds of ``scheduling.k8s.io/v1alpha2`` (Kubernetes 1.36), as constants; ``api.kinds`` lists them.

A Kubernetes API server serves them with the feature gate GenericWorkload.
"""

from __future__ import annotations

from typing import Any

from unisono.api import workload
from unisono.api.kind import Kind

WORKLOADS: Kind[workload.Workload] = Kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", workload.Workload)
WORKLOAD_POD_GROUPS: Kind[workload.WorkloadPodGroup] = Kind(
    "scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", workload.WorkloadPodGroup, status_subresource=True
)

GROUP_KINDS: tuple[Kind[Any], ...] = (WORKLOADS, WORKLOAD_POD_GROUPS)
