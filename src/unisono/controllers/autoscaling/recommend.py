"""How many replicas a HorizontalPodAutoscaler wants, by Kubernetes' rules (pure).

See "Horizontal Pod Autoscaling" in Kubernetes' documentation: a metric wants ``ceil(replicas * value / target)``,
nothing changes within a tolerance of 10 %, the largest proposal counts, a drop waits for the stabilization window, and
policies bound how many pods come or go within a period.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.groups.autoscaling import HorizontalPodAutoscalerSpec, HPAScalingPolicy, HPAScalingRules
from unisono.api.groups.resource_metrics import PodMetrics
from unisono.api.pod_states import has_ended
from unisono.api.quantity import parse_quantity
from unisono.api.resources import effective_requests, to_units
from unisono.controllers.pod_facts import phase_of

# Replicas by what pods use of a resource, as Kubernetes' autoscaler counts them (pure).
#
# Pods without a measurement count as using what they should where that speaks against fewer replicas, and as using
# nothing where it speaks against more; so do pods that are not ready when more replicas seem to be needed.


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
    measured = [pod for pod in use.pods if pod.used is not None and pod.ready]
    first = _ratio([(pod.used or 0, pod.wanted) for pod in measured])
    others = [pod for pod in use.pods if pod.used is None or not pod.ready]
    counted = [(float(pod.used or 0), pod.wanted) for pod in measured]
    if first < 1.0:
        counted += [(pod.wanted, pod.wanted) for pod in others if pod.used is None and pod.ready]
    elif first > 1.0:
        counted += [(0.0, pod.wanted) for pod in others]
    ratio = _ratio(counted)
    if 1.0 - down <= ratio <= 1.0 + up or (first < 1.0) is not (ratio < 1.0):
        return current
    desired = math.ceil(round(ratio * len(counted), 6))
    return min(desired, current) if ratio < 1.0 else max(desired, current)


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
    uses = []
    for pod in pods:
        if has_ended(pod) or pod.metadata.deletion_timestamp:
            continue
        target = float(amount or 0)
        if percent is not None:
            target = _request(pod, resource, container) * percent / 100
        used = _used(metrics.get(pod.key), resource, container)
        uses.append(PodUse(used, target, _is_ready(pod)))
    if not any(pod.used is not None and pod.ready for pod in uses):
        raise NoUse(f"no pod that is ready has a measured use of {resource}")
    return Used(uses)


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
        units = to_units(resource, quantity) if parse_quantity(quantity) > 0 else 0
    except ValueError as error:
        raise NoUse(str(error)) from error
    if units <= 0:
        raise NoUse(f"{quantity} is no target for {resource}")
    return units


TOLERANCE = 0.1
DOWN_SECONDS = 300.0
_PERIOD = 15
_UP = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=[
        HPAScalingPolicy(type="Pods", value=4, period_seconds=_PERIOD),
        HPAScalingPolicy(type="Percent", value=100, period_seconds=_PERIOD),
    ],
)
_DOWN = HPAScalingRules(
    select_policy="Max", policies=[HPAScalingPolicy(type="Percent", value=100, period_seconds=_PERIOD)]
)


@dataclass(slots=True)
class Memory:
    """What an autoscaler remembers between two looks.

    Attributes:
        wanted: earlier recommendations, as time (seconds) and replicas.
        changes: earlier changes, as time and replicas that came (or, negative, went).
    """

    wanted: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, before: float) -> None:
        """Drop what is older."""
        self.wanted = [one for one in self.wanted if one[0] >= before]
        self.changes = [one for one in self.changes if one[0] >= before]


@dataclass(frozen=True, slots=True)
class Measured:
    """The value of one metric and what it should be.

    Attributes:
        value: of all pods together, or of the object.
        target: per pod where ``average``, else as a whole.
    """

    value: float
    target: float
    average: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """How many replicas there should be.

    Attributes:
        replicas: the number.
        limited: reason and message of condition ScalingLimited, which is True where ``bound``.
        bound: something keeps it from what the metrics want.
    """

    replicas: int
    limited: tuple[str, str]
    bound: bool


def proposal(current: int, metric: Measured, up: float = TOLERANCE, down: float = TOLERANCE) -> int:
    """Replicas that one metric wants; ``current`` within the tolerances."""
    if metric.average:
        ratio = metric.value / (metric.target * current) if current else math.inf
        desired = metric.value / metric.target
    else:
        ratio = metric.value / metric.target
        desired = ratio * current
    if 1.0 - down <= ratio <= 1.0 + up:
        return current
    return math.ceil(round(desired, 6))


def propose(current: int, metrics: Sequence[Measured | Used | None], spec: HorizontalPodAutoscalerSpec) -> int | None:
    """The largest proposal; None where no metric is known.

    Where one is not known (None), the others may add replicas and take none away.
    """
    up, down = (_tolerance(rules) for rules in _given(spec))
    proposals = [
        proposal(current, metric, up, down)
        if isinstance(metric, Measured)
        else proposal_by_use(current, metric, up, down)
        for metric in metrics
        if metric is not None
    ]
    if not proposals:
        return None
    return max(proposals) if None not in metrics else max(*proposals, current)


def _tolerance(rules: HPAScalingRules | None) -> float:
    return TOLERANCE if rules is None or rules.tolerance is None else float(parse_quantity(rules.tolerance))


def _given(spec: HorizontalPodAutoscalerSpec) -> tuple[HPAScalingRules | None, HPAScalingRules | None]:
    behavior = spec.behavior
    return (None, None) if behavior is None else (behavior.scale_up, behavior.scale_down)


def advise(current: int, wanted: int, spec: HorizontalPodAutoscalerSpec, memory: Memory, now: float) -> Advice:
    """Bring a proposal within windows, rates and bounds; ``memory`` learns of the proposal, not of the change.

    Args:
        current: replicas that the target states now, above 0.
        wanted: what the metrics want.
        spec: bounds and behaviour.
        memory: of this autoscaler.
        now: seconds.
    """
    up, down = (rules or default for rules, default in zip(_given(spec), (_UP, _DOWN), strict=True))
    least, most = spec.min_replicas or 1, spec.max_replicas
    if not memory.wanted:
        # As it was found: a restart of the controller is no reason to let pods go at once.
        memory.wanted.append((now, current))
    steady = _steady(current, wanted, up, down, memory, now)
    memory.wanted.append((now, wanted))
    if steady > current:
        rate = _most(current, up, memory, now)
        allowed = min(steady, max(rate, current), most)
        if allowed < steady:
            why = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
            late = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            return Advice(max(allowed, least), why if allowed == most else late, bound=True)
        steady = allowed
    elif steady < current:
        rate = _least(current, down, memory, now)
        allowed = max(steady, min(rate, current), least)
        if allowed > steady:
            why = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
            late = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
            return Advice(min(allowed, most), why if allowed == least else late, bound=True)
        steady = allowed
    if steady != wanted:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        return Advice(min(max(steady, least), most), ("ScaleDownStabilized", text), bound=False)
    within = ("DesiredWithinRange", "the desired count is within the acceptable range")
    return Advice(min(max(steady, least), most), within, bound=False)


def _steady(current: int, wanted: int, up: HPAScalingRules, down: HPAScalingRules, memory: Memory, now: float) -> int:
    """The lowest recommendation of the window for more, the highest of that for fewer; ``current`` in between."""
    rising = now - (up.stabilization_window_seconds or 0)
    window = down.stabilization_window_seconds
    falling = now - (DOWN_SECONDS if window is None else window)
    lowest = min([wanted, *(number for at, number in memory.wanted if at > rising)])
    highest = max([wanted, *(number for at, number in memory.wanted if at > falling)])
    return min(max(current, lowest), highest)


def _most(current: int, rules: HPAScalingRules, memory: Memory, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies or ():
        start = _before(current, policy, memory, now)
        grown = start + policy.value if policy.type == "Pods" else math.ceil(start * (1 + policy.value / 100))
        limits.append(grown)
    return _chosen(limits, rules, current, up=True)


def _least(current: int, rules: HPAScalingRules, memory: Memory, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies or ():
        start = _before(current, policy, memory, now)
        shrunk = start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))
        limits.append(shrunk)
    return _chosen(limits, rules, current, up=False)


def _chosen(limits: list[int], rules: HPAScalingRules, current: int, *, up: bool) -> int:
    """The widest of the limits, or the narrowest where the rules say ``Min``."""
    if not limits:
        return current
    return max(limits) if up is (rules.select_policy != "Min") else min(limits)


def _before(current: int, policy: HPAScalingPolicy, memory: Memory, now: float) -> int:
    """Replicas at the beginning of the policy's period."""
    return current - sum(change for at, change in memory.changes if at > now - policy.period_seconds)
