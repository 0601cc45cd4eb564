"""Replicas by what pods use of a resource, as Kubernetes' autoscaler counts them (pure).

Pods without a measurement count as using what they should where that speaks against fewer replicas, and as using
nothing where it speaks against more; so do pods that are not ready when more replicas seem to be needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unisono.api.core import Pod
from unisono.api.groups.resource_metrics import PodMetrics
from unisono.api.pod_states import has_ended
from unisono.api.quantity import parse_quantity
from unisono.api.resources import effective_requests, to_units
from unisono.controllers.pod_facts import phase_of


class NoUse(ValueError):
    """What the pods use cannot be compared with the target."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """One pod.

    Attributes:
        used: engine units; None without a measurement.
        wanted: what it should use, engine units.
        ready: it takes work.

    """

    used: int | None
    wanted: float
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Used:
    """All pods of a target that count."""

    pods: Sequence[PodUse]

    @property
    def total(self) -> int:
        """What those use that are measured."""
        return sum(pod.used or 0 for pod in self.pods)

    @property
    def measured(self) -> int:
        """How many are measured."""
        return sum(pod.used is not None for pod in self.pods)


def proposal_by_use(current: int, use: Used, up: float, down: float) -> int:
    """Replicas that bring use and target together; ``current`` within the tolerances.

    Args:
        current: replicas that the target states.
        use: at least one pod is measured and ready.
        up: part of the target by which use may be above it.
        down: the same below.

    """
    known = [pod for pod in use.pods if pod.used is not None and pod.ready]
    first = _ratio([(pod.used or 0, pod.wanted) for pod in known])
    others = [pod for pod in use.pods if pod.used is None or not pod.ready]
    counted = [(float(pod.used or 0), pod.wanted) for pod in known]
    if first < 1.0:
        counted += [(pod.wanted, pod.wanted) for pod in others if pod.used is None and pod.ready]
    elif first > 1.0:
        counted += [(0.0, pod.wanted) for pod in others]
    ratio = _ratio(counted)
    if 1.0 - down <= ratio <= 1.0 + up or (first < 1.0) is not (ratio < 1.0):
        return current
    wanted = math.ceil(round(ratio * len(counted), 6))
    return min(wanted, current) if ratio < 1.0 else max(wanted, current)


def _ratio(pods: Sequence[tuple[float, float]]) -> float:
    return sum(used for used, _ in pods) / max(sum(wanted for _, wanted in pods), 1e-9)


def used_of(
    pods: Sequence[Pod],
    metrics: Mapping[str, PodMetrics],
    resource: str,
    *,
    container: str = "",
    percent: int | None = None,
    amount: int | None = None,
) -> Used:
    """What pods use beside what they should.

    Args:
        pods: of the target.
        metrics: by key of the pod.
        resource: ``cpu`` or ``memory``.
        container: this one alone; empty for all of a pod.
        percent: of the requests, that should be used.
        amount: engine units that each pod should use, where ``percent`` is None.

    Raises:
        NoUse: a pod requests nothing, or none is measured.

    """
    found = []
    for pod in pods:
        if has_ended(pod) or pod.metadata.deletion_timestamp:
            continue
        wanted = float(amount or 0)
        if percent is not None:
            wanted = _request(pod, resource, container) * percent / 100
        used = _used(metrics.get(pod.key), resource, container)
        found.append(PodUse(used, wanted, _is_ready(pod)))
    if not any(pod.used is not None and pod.ready for pod in found):
        raise NoUse(f"no pod that is ready has a measured use of {resource}")
    return Used(found)


def _request(pod: Pod, resource: str, container: str) -> int:
    total = 0
    for each in pod.spec.containers or ():
        if container and each.name != container:
            continue
        request = effective_requests(each.resources).get(resource)
        if not request:
            raise NoUse(f"missing request for {resource} in container {each.name} of Pod {pod.metadata.name}")
        total += request
    return total


def _used(metrics: PodMetrics | None, resource: str, container: str) -> int | None:
    values = [
        to_units(resource, each.usage[resource])
        for each in (metrics.containers if metrics is not None else None) or ()
        if (not container or each.name == container) and each.usage and resource in each.usage
    ]
    return sum(values) if values else None


def _is_ready(pod: Pod) -> bool:
    states = {each.type: each.status for each in pod.status.conditions or ()}
    return phase_of(pod) == "Running" and states.get("Ready", "True") == "True"


def amount_of(resource: str, quantity: str) -> int:
    """A quantity in engine units.

    Raises:
        NoUse: it is none, or not positive.

    """
    try:
        found = to_units(resource, quantity) if parse_quantity(quantity) > 0 else 0
    except ValueError as error:
        raise NoUse(str(error)) from error
    if found <= 0:
        raise NoUse(f"{quantity} is no target for {resource}")
    return found
