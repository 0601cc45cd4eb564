"""What a pod will use before its load has been measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray


@dataclass(frozen=True, slots=True)
class Estimator:
    """Ratios of the usage plug-in.

    Attributes:
        request_ratio: part of the request that is used.
        burst_ratio: part of what lies between request and limit.
        risk_threshold: load of a node (0 to 1) from which on estimates are multiplied by ``risk_factor``.
        best_effort: (milli-CPU, bytes) of a pod that requests nothing.

    """

    request_ratio: float
    burst_ratio: float
    risk_threshold: float
    risk_factor: float
    best_effort: tuple[int, int]

    def estimate(self, pod_class: PodClass, load: float) -> FloatArray:
        """``[2]`` milli-CPU and bytes on a node with ``load`` (0 to 1): at most the limit."""
        factor = self.risk_factor if load >= self.risk_threshold else 1.0
        if pod_class.best_effort:
            return np.array(self.best_effort, dtype=np.float64) * factor
        limits = limits_of(pod_class)
        return np.array([self._one(pod_class, name, limits, factor) for name in ("cpu", "memory")], dtype=np.float64)

    def _one(self, pod_class: PodClass, name: str, limits: dict[str, int], factor: float) -> float:
        request = pod_class.requests.get(name, 0)
        limit = limits.get(name, 0)
        most = limit if limit >= request and limit > 0 else request
        used = (request * self.request_ratio + (most - request) * self.burst_ratio) * factor
        return min(max(used, 0.0), float(most))


def limits_of(pod_class: PodClass) -> dict[str, int]:
    """Sum of the containers' limits; a resource that a container does not limit has none."""
    total: dict[str, int] = {}
    given = [resource_list(part.limits) if part is not None else {} for part in pod_class.containers]
    for name in ("cpu", "memory"):
        if given and all(name in limits for limits in given):
            total[name] = sum(limits[name] for limits in given)
    return total
